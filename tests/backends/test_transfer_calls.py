"""Copies between host and device against a driver that copies inside the host's memory."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pymicro import driver, paths, pinned
from pymicro.backends.base import Place
from pymicro.backends.cuda import copies, host_memory, transfer
from pymicro.benchmark import Case
from pymicro.errors import Unavailable, WrongResult
from pymicro.suite import benchmark

TRANSFER = benchmark("transfer")
HOPPER = Place("cuda", 0, (9, 0), 132)
SIZE = 4096
OTHER, EVENT = 1001, 2001  # handles of a second stream and of events


class FakeDriver:
    """Every address is one of this process; what was taken is noted until it is given back."""

    def __init__(self, most_pinned=2**40, spoils=False):
        self.most_pinned, self.spoils = most_pinned, spoils
        self.asked, self.held, self.room = [], set(), {}
        self.CUstream = lambda handle: ("stream", handle)

    def _copy(self, name, to, source, nbytes, stream=None):
        self.asked.append((name, stream))
        ctypes.memmove(to, source, nbytes - (8 if self.spoils else 0))
        return (0,)

    def staged(self, to, source, nbytes, to_device, context, stages, chunk_bytes):
        assert (context, len(stages), chunk_bytes) == (77, 1, 2**18)
        (first, one, second, two, stream) = stages[0]
        assert second - first == chunk_bytes
        assert {one, two, stream} == {EVENT, EVENT + 1, OTHER}
        self._copy(f"staged {'h2d' if to_device else 'd2h'}", to, source, nbytes)

    def cuMemHostAlloc(self, nbytes, flags):
        if nbytes > self.most_pinned:
            return 304, 0
        room = np.zeros(nbytes // 4, np.int32)
        self.room[room.ctypes.data] = (room, flags)
        self.held.add(room.ctypes.data)
        return 0, room.ctypes.data

    def cuMemFreeHost(self, address):
        self.held.remove(address)
        return (0,)

    def cuMemHostRegister(self, address, nbytes, flags):
        assert address % 4096 == 0
        if nbytes > self.most_pinned:
            return (304,)
        self.held.add(address)
        return (0,)

    def cuMemHostUnregister(self, address):
        return self.cuMemFreeHost(address)

    def cuMemHostGetDevicePointer(self, address, flags):
        return 0, address

    def cuStreamCreate(self, flags):
        assert flags == 1
        self.held.add(OTHER)
        return 0, OTHER

    def cuStreamDestroy(self, stream):
        self.held.remove(stream)
        return (0,)

    def cuEventCreate(self, flags):
        event = EVENT + sum(h in (EVENT, EVENT + 1) for h in self.held)
        self.held.add(event)
        return 0, event

    def cuEventDestroy(self, event):
        self.held.remove(event)
        return (0,)

    def __getattr__(self, name):
        if name.startswith("cuMemcpy"):
            return lambda *given: self._copy(name, *given)
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *given: self.asked.append((name, *given)) or (0,)


class Array:
    """Device memory that is memory of this process."""

    def __init__(self, words):
        self.words, self.ptr = words, words.ctypes.data

    def download(self):
        return self.words.copy()


class FakeKernel:
    """The copy kernel's own arithmetic on addresses."""

    @staticmethod
    def load(cubin, entry):
        return FakeKernel()

    def bind(self, grid, block, arguments, stream, overlap=False):
        to, source, packs = (a.value for a in arguments)
        BOUND.append((grid, block, overlap))
        return lambda: ctypes.memmove(to, source, 16 * packs)


BOUND: list = []


@pytest.fixture
def use(monkeypatch):
    def use(**changes):
        fake = FakeDriver(**changes)
        monkeypatch.setattr(driver, "cuda", lambda: fake)
        gpu = SimpleNamespace(pci_bus_id="ffff:01:00.0", context=77)
        monkeypatch.setattr(driver, "open_gpu", lambda index: gpu)
        monkeypatch.setattr(driver.Kernel, "load", staticmethod(FakeKernel.load))
        monkeypatch.setattr(copies.compiler, "compile_cubin", lambda *wanted: b"")
        native = SimpleNamespace(staged_copy=fake.staged)
        monkeypatch.setattr(sys.modules["pymicro"], "_native", native, raising=False)
        monkeypatch.setattr(host_memory.pinned, "limits", lambda: pinned.Limits(None, 65536))
        return fake

    return use


def arrays(size=SIZE):
    words = np.arange(size // 4, dtype=np.int32) * 7919
    return {"a": Array(words), "c": Array(np.full(size // 4, -1, np.int32))}


def case(path, host="pinned", variant="engine", size=SIZE):
    return Case("transfer", "cuda", variant, "int32", {"path": path, "host": host, "size": size})


POINTS = [
    (variant, path, host)
    for variant in ("engine", "sm", "staged")
    for path in ("h2d", "d2h", "both", "h2d-busy", "d2h-busy", "d2d")
    for host in ("pinned", "combined", "pageable", "registered")
    if TRANSFER.applies(variant, {"path": path, "host": host})
    and (path != "d2d" or host == "pinned")
]


def test_what_a_copy_engine_and_the_sms_can_do():
    assert len(POINTS) == 36
    assert ("sm", "h2d", "pageable") not in POINTS
    assert ("engine", "both", "pageable") not in POINTS
    assert {p[1:] for p in POINTS if p[0] == "staged"} == {("h2d", "pageable"), ("d2h", "pageable")}


def arrived(made, own, path):
    """What the reference checks after one call: on the device, or where the call says."""
    made.call()
    output = made.output() if made.output else own["c"].words
    TRANSFER.reference("int32", {"path": path}, {"a": own["a"].words}).check(output)


@pytest.mark.parametrize(("variant", "path", "host"), POINTS)
def test_every_copy_arrives_and_leaves_nothing_behind(use, variant, path, host):
    fake, own = use(), arrays()
    made = transfer.prepare(case(path, host, variant), HOPPER, own)
    arrived(made, own, path)
    made.close()
    assert not fake.held
    if variant == "sm":
        assert BOUND[-1] == ((264, 1, 1), (512, 1, 1), False)


@pytest.mark.parametrize(("variant", "path", "host"), [p for p in POINTS if p[0] != "sm"])
def test_a_copy_that_falls_short_is_found_out(use, variant, path, host):
    fake, own = use(spoils=True), arrays()
    with pytest.raises(WrongResult, match="2 of 1024 words"):
        arrived(transfer.prepare(case(path, host, variant), HOPPER, own), own, path)
    if path in ("both", "h2d-busy", "d2h-busy"):
        assert not fake.held


@pytest.mark.parametrize(("kind", "flags"), [("pinned", 2), ("combined", 6)])
def test_write_combined_memory_is_asked_for(use, kind, flags):
    fake = use()
    host_memory.HostMemory(kind, SIZE)
    assert [asked for _, asked in fake.room.values()] == [flags]


def test_pageable_copies_return_when_done_and_others_are_queued(use):
    fake, own = use(), arrays()
    for host in ("pageable", "pinned"):
        made = transfer.prepare(case("h2d", host), HOPPER, own)
        fake.asked = [asked for asked in fake.asked if asked[0] != "cuMemcpyDtoH"]  # It is filled.
        made.call()
    assert fake.asked == [("cuMemcpyHtoD", None), ("cuMemcpyHtoDAsync", ("stream", 0))]
    assert TRANSFER.clock({"host": "pageable", "path": "h2d"}).side == "host"
    assert TRANSFER.clock({"host": "pinned", "path": "h2d"}).side == "device"


def test_both_ways_begin_and_end_together(use):
    fake, own = use(), arrays()
    made = transfer.prepare(case("both"), HOPPER, own)
    fake.asked.clear()
    made.call()
    ours = ("stream", 0)
    begins = [("cuEventRecord", EVENT, ours), ("cuStreamWaitEvent", OTHER, EVENT, 0)]
    assert fake.asked == [
        *begins,
        ("cuMemcpyHtoDAsync", ours),
        ("cuMemcpyDtoHAsync", OTHER),
        ("cuEventRecord", EVENT + 1, OTHER),
        ("cuStreamWaitEvent", ours, EVENT + 1, 0),
    ]
    assert TRANSFER.clock({"host": "pinned", "path": "both"}).requests == 4


@pytest.mark.parametrize(("path", "way"), [("h2d-busy", "HtoD"), ("d2h-busy", "DtoH")])
def test_a_busy_link_is_busy_until_the_measured_copy_ends(use, path, way):
    fake, own = use(), arrays()
    made = transfer.prepare(case(path), HOPPER, own)
    fake.asked.clear()
    made.call()
    copied = [(name, stream) for name, stream, *_ in fake.asked if name.startswith("cuMemcpy")]
    against = "DtoH" if way == "HtoD" else "HtoD"
    theirs = (f"cuMemcpy{against}Async", OTHER)
    assert copied == [theirs, (f"cuMemcpy{way}Async", ("stream", 0)), theirs]
    # Nobody waits for the traffic against it.
    assert [name for name, *_ in fake.asked].count("cuStreamWaitEvent") == 1


@pytest.mark.parametrize(
    ("size", "cores", "expected"),
    [
        (4, 16, (1, 2**18)),
        (2**18, 16, (1, 2**18)),
        (2**20, 16, (2, 2**18)),
        (2**24, 16, (8, 2**20)),
        (2**28, 16, (12, 2**21)),
        (2**28, 2, (2, 2**21)),
        (2**32, 64, (12, 2**21)),
    ],
)
def test_stages_by_size(size, cores, expected):
    assert copies.stages(size, cores) == expected


def test_a_staged_copy_without_the_compiled_module_is_a_skip(use, monkeypatch):
    fake = use()
    monkeypatch.setitem(sys.modules, "pymicro._native", None)
    monkeypatch.delattr(sys.modules["pymicro"], "_native", raising=False)
    with pytest.raises(Unavailable, match="not built"):
        transfer.prepare(case("h2d", "pageable", "staged"), HOPPER, arrays())
    assert not fake.held


@pytest.mark.parametrize("host", ["pinned", "combined", "registered"])
def test_memory_that_cannot_be_pinned_is_a_skip_with_the_size_that_can(use, host):
    fake = use(most_pinned=8192)
    with pytest.raises(Unavailable, match=r"64 KiB cannot be pinned, 8 KiB can") as refusal:
        transfer.prepare(case("h2d", host, size=65536), HOPPER, arrays(65536))
    assert refusal.value.instead == {"size": 8192}
    assert not fake.held


def test_nothing_pinned_at_all_is_a_skip(use):
    use(most_pinned=0)
    with pytest.raises(Unavailable, match="nothing can be pinned here"):
        transfer.prepare(case("both"), HOPPER, arrays())


def test_no_room_for_stages_is_a_skip_that_no_other_size_mends(use):
    fake = use(most_pinned=8192)
    with pytest.raises(Unavailable, match=r"no room for pinned buffers: 512 KiB") as refusal:
        transfer.prepare(case("h2d", "pageable", "staged"), HOPPER, arrays())
    assert refusal.value.instead is None
    assert not fake.held


def test_sms_copy_whole_packs(use):
    use()
    with pytest.raises(Unavailable, match="16 bytes"):
        transfer.prepare(case("h2d", variant="sm", size=20), HOPPER, arrays(20))


@pytest.mark.parametrize(
    ("capability", "size", "expected"),
    [((9, 0), 2**24, True), ((9, 0), 2**20, False), ((8, 9), 2**24, False), ((12, 0), 2**30, True)],
)
def test_only_large_copies_on_chips_that_can_overlap(capability, size, expected):
    assert copies.overlaps(Place("cuda", 0, capability, 10), size) is expected


@pytest.mark.parametrize(
    ("path", "factor"), [("h2d", 1), ("d2h", 1), ("both", 2), ("d2d", 2), ("h2d-busy", 1)]
)
def test_bytes_that_are_counted(path, factor):
    assert TRANSFER.work("int32", {"path": path, "size": 100}).bytes == 100 * factor


def test_the_list_tells_what_never_ran():
    _, rows = TRANSFER.kernels()
    assert [row[0] for row in rows] == ["engine", "sm", "staged"]
    for row, cells in zip(paths.ROWS, rows, strict=True):
        assert cells[2:] == tuple(
            " ".join(known) or "not yet run on hardware" for known in (row.ran_on, row.peers_ran_on)
        )
        assert paths.notes(row.variant, "p2p")["ran_on"] == list(row.peers_ran_on)
        assert paths.notes(row.variant, "h2d")["ran_on"] == list(row.ran_on)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_the_kernel_has_all_its_loads_in_flight(arch):
    pytest.importorskip("cuda.core")
    from pymicro.compiler import compile_logged, supported_archs

    if arch not in supported_archs():
        pytest.skip("not an architecture of the installed NVRTC")
    log = compile_logged("transfer/copy.cu", arch).log.replace("\0", "")
    assert "0 bytes stack frame" in log
    assert "0 bytes spill stores" in log
