"""Copies between GPUs on made-up machines of 1 to 8, with peer access on, off and half on."""

import numpy as np
import pytest
from fake_gpus import FakeGpus

from pymicro import driver, paths, workbench
from pymicro.backends.base import Place
from pymicro.backends.cuda import copies, host_memory, near, peers, topology, transfer
from pymicro.benchmark import Case
from pymicro.cli import words
from pymicro.errors import Unavailable, UsageError, WrongResult
from pymicro.pinned import Limits
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

TRANSFER = benchmark("transfer")
HOPPER = Place("cuda", 0, (9, 0), 132)
SIZE = 4096
OFFERED = {
    "on": lambda a, b: True,
    "off": lambda a, b: False,
    "half": lambda a, b: a // 2 == b // 2,  # Pairs under one switch.
}


@pytest.fixture
def machine(monkeypatch):
    def make(count, offered="on", **changes):
        fake = FakeGpus(count, OFFERED[offered], **changes)
        monkeypatch.setattr(driver, "cuda", lambda: fake)
        monkeypatch.setattr(driver, "_refuse_old_driver", lambda: None)
        monkeypatch.setattr(driver, "Kernel", fake.kernel())
        monkeypatch.setattr(copies.compiler, "compile_cubin", lambda *wanted: b"")
        monkeypatch.setattr(host_memory.pinned, "limits", lambda: Limits(None, None))
        monkeypatch.setattr(
            peers.topology, "why_no_peer", lambda one, other: "they hang on different bridges."
        )
        return fake

    return make


class Source:
    """The words that are sent, as the run's own GPU holds them."""

    words = np.arange(SIZE // 4, dtype=np.int32) * 7919

    def download(self):
        return self.words.copy()


def case(path, pair, variant="engine", size=SIZE):
    return Case("transfer", "cuda", variant, "int32", {"path": path, "pair": pair, "size": size})


def run(path, pair, variant="engine"):
    made = transfer.prepare(case(path, pair, variant), HOPPER, {"a": Source()})
    made.call()
    TRANSFER.reference("int32", {"path": path}, {"a": Source.words}).check(made.output())
    return made


def bench(count):
    made = Workbench("cpu")
    made.place = Place("cuda", 0, (9, 0), 132)
    return made


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_pairs_of_a_machine(machine, count):
    machine(count)
    pairs = bench(count).pairs()
    assert len(set(pairs)) == len(pairs) == max(count * (count - 1), 1)
    assert pairs == ("0-0",) if count == 1 else all(a != b for a, b in map(paths.ends, pairs))


@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("path", paths.PEER_PATHS)
def test_every_pair_copies_directly_or_says_why_not(machine, count, offered, path):
    for pair in bench_pairs(count, machine, offered):
        fake = machine(count, offered)
        source, target = paths.ends(pair)
        starts = target if path == "p2p-read" else source
        other = source if path == "p2p-read" else target
        variant = "staged" if path == "p2p-host" else "engine"
        made = run(path, pair, variant)
        direct = OFFERED[offered](starts, other)
        assert made.notes["peer_access"] is direct
        assert made.notes["why_no_peer"] == (None if direct else "they hang on different bridges.")
        queues = {who for how, who in fake.copied if how in ("engine", "d2h")}
        both = path == "p2p-both"
        assert queues == ({source, target} if both else {starts})
        assert fake.stack == [0]
        made.close()
        assert not fake.owner


def bench_pairs(count, machine, offered):
    machine(count, offered)
    return bench(count).pairs()


@pytest.mark.parametrize("path", ["p2p", "p2p-read", "p2p-both"])
def test_a_kernel_reaches_what_was_opened_to_it(machine, path):
    fake = machine(4, "half")
    run(path, "2-3", "sm").close()
    assert not fake.owner
    with pytest.raises(Unavailable, match="different bridges"):
        run(path, "1-2", "sm")
    assert not fake.owner
    assert fake.stack == [0]


def test_one_gpu_has_no_peer(machine):
    machine(1)
    with pytest.raises(Unavailable, match="one GPU has no peer"):
        run("p2p", "0-0")


def test_pairs_that_do_not_exist(machine):
    fake = machine(2)
    with pytest.raises(Unavailable, match="cuda:5 does not exist; this process sees 2"):
        run("p2p", "0-5")
    with pytest.raises(Unavailable, match="no peer of itself"):
        run("p2p", "1-1")
    assert fake.stack == [0]


def test_access_that_was_granted_before_is_no_error(machine):
    fake = machine(2, codes={(0, 1): 704})
    assert run("p2p", "0-1").notes["peer_access"]
    assert fake.enabled == {(0, 1)}


def test_access_that_is_promised_and_refused_is_said(machine):
    machine(2, codes={(0, 1): 205})
    made = run("p2p", "0-1")
    assert made.notes["why_no_peer"] == "the driver offers peer access but refuses it (205)."
    with pytest.raises(Unavailable, match="refuses it"):
        run("p2p", "0-1", "sm")


@pytest.mark.parametrize("path", paths.PEER_PATHS)
def test_a_copy_that_falls_short_is_found_out(machine, path):
    machine(2, spoils=True)
    with pytest.raises(WrongResult, match="2 of 1024 words"):
        run(path, "1-0", "staged" if path == "p2p-host" else "engine")


def test_through_the_host_piece_by_piece(machine, monkeypatch):
    monkeypatch.setattr(paths, "STAGE_BYTES", 1000)
    fake = machine(2)
    run("p2p-host", "0-1", "staged")
    assert fake.copied == [("d2h", 0), ("h2d", 1)] * 5
    assert paths.stages(SIZE) == 5


def test_the_clock_is_that_of_who_starts():
    clock = TRANSFER.clock
    assert clock({"path": "p2p", "pair": "2-3", "size": SIZE}).device == 2
    assert clock({"path": "p2p-read", "pair": "2-3", "size": SIZE}).device == 3
    assert clock({"path": "p2p-host", "pair": "2-3", "size": 2**32}).requests <= 500
    assert clock({"path": "h2d", "host": "pinned"}).device is None


def test_one_copy_leads_where_the_queue_has_room():
    """Else an engine's start would count, and a link that is said to be busy would not be yet."""
    clock = TRANSFER.clock
    for path in ("h2d", "d2h", "both", "h2d-busy", "d2h-busy"):
        assert clock({"path": path, "host": "pinned"}).lead == 1
    for path in ("p2p", "p2p-both"):
        assert clock({"path": path, "pair": "0-1", "size": SIZE}).lead == 1
    assert clock({"path": "h2d", "host": "pageable"}).lead == 0


def test_parameters_that_mean_nothing_are_dropped():
    full = {"size": 16, "path": "p2p", "pair": "0-1", "host": "pinned", "node": "near"}
    assert TRANSFER.reduced(full) == {"size": 16, "path": "p2p", "pair": "0-1"}
    assert TRANSFER.reduced(full | {"path": "d2d"}) == {"size": 16, "path": "d2d"}
    kept = {"size": 16, "path": "h2d", "host": "pinned"}
    assert TRANSFER.reduced(full | {"path": "h2d"}) == kept
    assert TRANSFER.reduced(full | {"path": "h2d", "node": 1}) == kept | {"node": 1}


def points(given, pairs=("0-1", "1-0")):
    defaults = dict(TRANSFER.defaults("cuda", None)) | {"pair": pairs, "node": "near"}
    return words.points(TRANSFER, words.given(TRANSFER, given), "cuda", defaults)


def test_words_become_pairs_and_nodes(monkeypatch):
    found = points({"path": "p2p,h2d", "size": "1KiB", "host": "pinned,pageable"})
    assert [(p["path"], p.get("pair"), p.get("host")) for p in found] == [
        ("p2p", "0-1", None),
        ("p2p", "1-0", None),
        ("h2d", None, "pinned"),
        ("h2d", None, "pageable"),
    ]
    found = points({"path": "h2d", "size": "1KiB", "host": "pinned", "node": "0,near,1"})
    assert [p.get("node") for p in found] == [0, None, 1]
    assert points({"path": "p2p", "pair": "3-1", "size": "1KiB"})[0]["pair"] == "3-1"
    assert [p["pair"] for p in points({"path": "p2p", "pair": "all", "size": "1KiB"})] == [
        "0-1",
        "1-0",
    ]
    monkeypatch.setattr(near, "nodes", lambda: (0, 1))
    found = points({"path": "h2d", "size": "1KiB", "host": "pinned", "node": "all"})
    assert [p["node"] for p in found] == [0, 1]
    for bad in ({"pair": "0>1"}, {"pair": "1"}, {"node": "far"}, {"node": "-1"}):
        with pytest.raises(UsageError):
            points(bad)


class Nvml:
    """Answers what two cards' status is."""

    def __init__(self, status):
        self.status = status

    def __getattr__(self, name):
        def answer(*given):
            if name == "nvmlDeviceGetP2PStatus" and isinstance(self.status, Exception):
                raise self.status
            return self.status if name == "nvmlDeviceGetP2PStatus" else 0

        return answer


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "the chipset does not support it"),
        (3, "different host bridges"),
        (6, "IOMMU"),
        (0, "IOMMU"),
        (RuntimeError("x"), "IOMMU"),
    ],
)
def test_the_reason_is_nvmls_or_a_list_of_suspects(monkeypatch, status, words):
    fake = FakeGpus(2)
    monkeypatch.setattr(driver, "cuda", lambda: fake)
    gpus = [driver.Gpu(i, i, 100 + i) for i in range(2)]
    said = topology.why_no_peer(*gpus, binding=Nvml(status))
    assert said.startswith("no peer access from cuda:0 to cuda:1: ")
    assert words in said


@pytest.mark.parametrize(("status", "joined"), [(0, True), (3, False), (RuntimeError("x"), None)])
def test_whether_a_pair_is_joined_by_nvlink(monkeypatch, status, joined):
    fake = FakeGpus(2)
    monkeypatch.setattr(driver, "cuda", lambda: fake)
    gpus = [driver.Gpu(i, i, 100 + i) for i in range(2)]
    assert topology.are_nvlinked(*gpus, binding=Nvml(status)) is joined


def test_another_gpus_queue_is_timed_with_that_gpu_current(machine, monkeypatch):
    fake = machine(4)

    class Events:
        """An event timer that belongs to the GPU that was current when it was made."""

        name, max_repeats = "cuda events", 500

        def __init__(self, gpu, stream):
            self.home = fake.stack[-1]
            assert gpu.index == self.home
            self.asked = []

        def for_requests(self, requests, lead):
            self.asked.append(requests)
            return self

        def time(self, call, repeats, before=None):
            assert fake.stack[-1] == self.home
            call()
            return self.home

        def now(self):
            return 1.5

    monkeypatch.setattr(workbench, "EventTimer", Events)
    made = bench(4)
    made.timer = Events(driver.open_gpu(0), 0)
    clock = made.clock(TRANSFER.clock({"path": "p2p-both", "pair": "2-1", "size": SIZE}))
    assert clock.time(lambda: None, 1) == 2
    assert fake.stack == [0]
    assert clock.now() == 1.5
    again = made.clock(TRANSFER.clock({"path": "p2p", "pair": "2-3", "size": SIZE}))
    assert again._timer is clock._timer
    assert clock._timer.asked == [4, 1]
    own = made.clock(TRANSFER.clock({"path": "p2p", "pair": "0-3", "size": SIZE}))
    assert own is made.timer
