"""Collectives: their definitions, their arrays, and processes over gloo from end to end."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from pymicro import driver
from pymicro.cli import cli
from pymicro.cli import collective as command
from pymicro.collective import rank, ranks
from pymicro.collective.job import Job
from pymicro.collective.operations import FORMATS, OPERATIONS
from pymicro.devices import here
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError
from pymicro.results import Store

ROOT = Path(__file__).parents[2]
JOB = Job("cpu", ("all-reduce",), (4096,), "fp32", 0.2)


@pytest.mark.parametrize(
    ("operation", "two", "eight"),
    [("all-reduce", 1.0, 1.75), ("all-gather", 0.5, 0.875), ("reduce-scatter", 0.5, 0.875)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(operation, two, eight):
    """Their doc/PERFORMANCE.md: 2(n-1)/n for an all-reduce, (n-1)/n for the others."""
    bus = OPERATIONS[operation].bus
    assert (bus(2), bus(8)) == pytest.approx((two, eight))


def test_sizes_divide_by_ranks_and_elements():
    job = replace(JOB, sizes=(1, 4096, 4100), operations=("all-reduce", "all-gather"))
    assert list(job.points(3)) == [
        ("all-reduce", 12), ("all-reduce", 4092),
        ("all-gather", 12), ("all-gather", 4092),
    ]  # fmt: skip
    assert Job.from_json(job.to_json()) == job


def test_inputs_are_exact_in_their_format():
    bits = {"fp32": 24, "fp16": 11, "bf16": 8}
    for name, (_, below) in FORMATS.items():
        assert below + 1 <= 2 ** bits[name]
        assert name in DTYPES


class Team:
    """torch.distributed as each of some ranks sees it, one after another, in one process."""

    def __init__(self, monkeypatch, torch, count):
        self.torch, self.count, self.rank, self.left_out = torch, count, 0, None
        dist = torch.distributed
        monkeypatch.setattr(dist, "get_rank", lambda: self.rank)
        monkeypatch.setattr(dist, "get_world_size", lambda: count)
        monkeypatch.setattr(dist, "all_reduce", self.give)
        for name in ("all_gather_single", "all_gather_into_tensor",
                     "reduce_scatter_single", "reduce_scatter_tensor"):  # fmt: skip
            monkeypatch.setattr(dist, name, lambda out, given: self.give(given), raising=False)

    def give(self, array):
        self.given.append(array.clone())

    def arrays(self, operation, dtype):
        """Each rank's arrays, all with what they give in `given`."""
        self.given, made = [], []
        for number in range(self.count):
            self.rank = number
            made.append(rank.Arrays(self.torch, operation, 6144, dtype, "cpu"))
            made[-1].call()
        return made

    def wrong(self, operation, dtype, change=lambda given: given):
        """How many elements are wrong over all ranks, if `change` happens to what they give."""
        made = self.arrays(operation, dtype)
        given = change(self.given)
        whole = self.torch.cat(given) if operation == "all-gather" else sum(given)
        parts = whole.chunk(self.count)
        for arrays, part in zip(made, parts, strict=True):
            arrays._out = part if operation == "reduce-scatter" else whole
        return [arrays.wrong() for arrays in made]


@pytest.fixture
def team(monkeypatch):
    return Team(monkeypatch, pytest.importorskip("torch"), 4)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_right_passes_and_what_went_astray_does_not(team, operation, dtype):
    assert team.wrong(operation, dtype) == [0] * 4
    for first, second in ((0, 2), (1, 3), (2, 3)):

        def replaced(given, first=first, second=second):
            return [given[second] if at == first else one for at, one in enumerate(given)]

        assert sum(team.wrong(operation, dtype, replaced)) > 300

    def moved(given):
        return [one.roll(2) for one in given]

    assert sum(team.wrong(operation, dtype, moved)) > 300


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("operation", ["all-reduce", "reduce-scatter"])
def test_a_sum_without_a_rank_or_of_the_greatest_alone_is_wrong(team, operation, dtype):
    for gone in range(4):
        assert sum(team.wrong(operation, dtype, lambda g, gone=gone: g[:gone] + g[gone + 1 :])) > 0

    def greatest(given):
        return [team.torch.stack(given).amax(0), *(one * 0 for one in given[1:])]

    assert sum(team.wrong(operation, dtype, greatest)) > 300


def test_a_rank_that_failed_alone_takes_the_others_along(monkeypatch):
    """They agree before any of them goes on, or one would time this point beside the next."""
    torch = pytest.importorskip("torch")
    said = iter([1.0, 0.0])
    timer = SimpleNamespace(total=lambda number: next(said))
    well = SimpleNamespace(call=lambda: None, wrong=lambda: 0)
    monkeypatch.setattr(rank, "Arrays", lambda *_: well)
    with pytest.raises(PymicroError, match="1 other"):
        rank._checked(torch, timer, JOB, "all-reduce", 4096, "cpu")

    told = []

    def broken(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(rank, "Arrays", broken)
    timer = SimpleNamespace(total=lambda number: told.append(number) or 1.0)
    with pytest.raises(RuntimeError, match="out of memory"):
        rank._checked(torch, timer, JOB, "all-reduce", 4096, "cpu")
    assert told == [True, 0]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("CUDA error: operation not supported", "failed"),
        ("Backend gloo does not support reduce_scatter", "skipped"),
        ("CUDA out of memory. Tried to allocate 20.00 GiB", "skipped"),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes", "skipped"),
    ],
)
def test_what_cannot_be_done_here_is_a_skip_and_a_fault_is_none(monkeypatch, said, outcome):
    torch = pytest.importorskip("torch")

    def broken(*_):
        raise RuntimeError(said)

    monkeypatch.setattr(rank, "_checked", broken)
    told = rank._point(torch, None, JOB, "all-reduce", 4096, "cpu", 0.1)
    assert told["outcome"] == outcome


def run(*words):
    return CliRunner().invoke(cli, ["collective", *words], standalone_mode=False)


def test_processes_over_gloo_from_end_to_end(tmp_path):
    pytest.importorskip("torch")
    store = tmp_path / "store.jsonl"
    words = ["--device", "cpu", "--ranks", "2", "--size", "4KiB,64KiB", "--budget", "0.6"]
    done = run(*words, "--format", "json", "--store", str(store))
    assert done.return_value == 0, done.output
    document = json.loads(done.stdout)
    found = [(r["params"]["op"], r["params"]["size"], r["outcome"]) for r in document["results"]]
    assert found == [(op, size, "ok") for op in OPERATIONS for size in (4096, 65536)]
    kept = Store(store).read().results
    assert len(kept) == 6
    for result in kept:
        assert result.variant == "gloo"
        assert (result.params["ranks"], result.params["link"]) == (2, "host")
        assert result.verified.passed
        assert len(result.times_s) >= 3
    found = [f["code"] for f in document["findings"]]
    assert found.count("collective-line") == 3  # A busy machine adds one of its own.


def test_torchrun_may_start_the_ranks(tmp_path):
    pytest.importorskip("torch")
    words = ["collective", "--device", "cpu", "--op", "all-gather", "--size", "4KiB"]
    words += ["--budget", "0.2", "--store", str(tmp_path / "s.jsonl")]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "-m", "pymicro", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (result,) = Store(tmp_path / "s.jsonl").read().results  # Of rank 0 alone.
    assert (result.outcome, result.params["ranks"]) == ("ok", 2)


def test_a_rank_that_fails_ends_all_and_is_quoted():
    pytest.importorskip("torch")
    told, failure = ranks.measured(replace(JOB, dtype="fp99"), 2)
    assert told == []
    assert "fp99" in str(failure)


@pytest.fixture
def gpus(monkeypatch):
    def gpus(count):
        device = here.Device("cuda", 0, "Some Card", None, "made up")
        monkeypatch.setattr(here, "resolve", lambda word: device)
        monkeypatch.setattr(driver, "device_count", lambda: count)

    return gpus


def test_a_rank_ends_with_whoever_started_it(tmp_path):
    pytest.importorskip("torch")
    own = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    own |= {rank.MEETING: (tmp_path / "meeting").as_uri(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pymicro.collective.rank", JOB.to_json(), str(tmp_path / "out")],
        stdin=subprocess.DEVNULL,  # As the pipe of one that is gone: nothing more comes.
        env={**os.environ, **own},
        capture_output=True,
        timeout=60,  # Alone it would wait for the other rank for 90 s.
        check=False,
    )
    assert done.returncode == 1


def test_a_rank_that_was_killed_is_named_before_those_who_miss_it(tmp_path):
    ended = [SimpleNamespace(poll=lambda code=code: code) for code in (1, -9)]
    with pytest.raises(ranks.RankFailed, match="rank 1 was ended by signal 9"):
        ranks._wait(ended, tmp_path, 1.0)


def test_torchrun_says_how_many_ranks_there_are(monkeypatch):
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = run("--device", "cpu", "--ranks", "3", "--no-store")
    assert "torchrun" in str(done.exception)
    assert done.exception.exit_code == 2


def test_a_number_of_ranks_that_is_none_is_refused(monkeypatch):
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "abc"}.items():
        monkeypatch.setenv(name, value)
    done = run("--device", "cpu", "--no-store")
    assert "WORLD_SIZE=abc" in str(done.exception)
    assert done.exception.exit_code == 2


def test_ranks_that_cannot_meet_are_a_failed_case(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    for name in ("MASTER_ADDR", "MASTER_PORT", rank.MEETING):  # Nobody said where.
        monkeypatch.delenv(name, raising=False)
    store = tmp_path / "s.jsonl"
    done = run("--device", "cpu", "--op", "all-reduce, all-reduce", "--store", str(store))
    assert done.return_value == 1
    (kept,) = Store(store).read().results
    assert kept.outcome == "failed"
    assert "did not meet" in kept.reason


def test_one_gpu_is_a_skip_that_says_why(gpus, tmp_path):
    gpus(1)
    done = run("--store", str(tmp_path / "s.jsonl"))
    assert done.return_value == 3
    assert "one GPU has nobody to exchange with" in " ".join(done.output.split())
    (result,) = Store(tmp_path / "s.jsonl").read().results
    assert (result.outcome, result.variant) == ("skipped", "nccl")


@pytest.mark.parametrize("count", [2, 4, 8])
def test_every_gpu_is_a_rank_unless_told_otherwise(gpus, count):
    gpus(count)
    assert command._ranks("cuda", None) == (count, None)
    assert command._ranks("cuda", 2) == (2, None)


def test_one_rank_of_torchrun_is_a_skip_too(gpus, monkeypatch):
    gpus(1)
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    done = run("--no-store")
    assert done.return_value == 3
    assert "nobody to exchange with" in " ".join(done.output.split())


def test_a_rank_that_fails_is_a_failed_case_beside_what_ran(gpus, monkeypatch):
    gpus(4)
    record = {"operation": "all-reduce", "size": 2**30, "ranks": 4, "times_s": [5e-3] * 9,
              "repeats": 2, "stopped": "steady", "timer": "cuda events, slowest rank"}  # fmt: skip
    missing = {"operation": "all-gather", "size": 4096, "ranks": 4, "outcome": "skipped",
               "reason": "no support."}  # fmt: skip
    failure = ranks.RankFailed("rank 3 failed: unhandled system error.")
    monkeypatch.setattr(ranks, "measured", lambda job, count: ([record, missing], failure))
    monkeypatch.setattr(command, "_are_nvlinked", lambda: True)
    done = run("--no-store", "--format", "json")
    assert done.return_value == 1
    results = json.loads(done.stdout)["results"]
    assert [r["outcome"] for r in results] == ["ok", "skipped", "failed"]
    assert results[0]["params"]["link"] == "nvlink"
    assert "rank 3" in results[2]["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ranks", "3"), "sees 2 GPUs"),
        (("--device", "cuda:1"), "all GPUs take part"),
        (("--op", "all-redcue"), "did you mean"),
        (("--size", "big"), "big"),
    ],
)
def test_words_that_cannot_be_meant(gpus, words, said):
    gpus(2)
    done = run(*words, "--no-store")
    assert said in str(done.exception)
    assert done.exception.exit_code == 2


@pytest.mark.parametrize(
    ("nvlinks", "status", "link"),
    [
        (None, False, "pcie"),
        (None, True, "nvlink"),  # A virtual machine hides the links, and tells of pairs.
        ({"up": 0, "of": 18}, True, "pcie"),
        ({"up": 18, "of": 18}, False, "nvlink"),
    ],
)
def test_over_what_ranks_reach_each_other(monkeypatch, nvlinks, status, link):
    monkeypatch.setattr(command, "_are_nvlinked", lambda: status)
    told = {"device": {"kind": "cuda"}, "environment": {"gpu": {"nvlinks": nvlinks}}}
    assert command._link(told, 1) == link
    assert command._link(told, 2) == "network"
    assert command._link({"device": {"kind": "cpu"}, "environment": {"gpu": None}}, 1) == "host"


def test_a_rank_is_known_by_its_environment():
    assert ranks.is_rank({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"})
    assert not ranks.is_rank({"RANK": "0"})
