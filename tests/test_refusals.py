"""Figures that cannot be: nothing was written, nothing was read, or more came than wires carry."""

import pytest
from fakes import ScriptedTimer

from pymicro import backends, outcomes, run
from pymicro.backends.base import Prepared
from pymicro.benchmark import Case
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

SIZE = 2**20


class Backend:
    """Serves any case with one call."""

    name, is_vendor, vendor_variants = "fake", False, ()

    def __init__(self, make):
        self._make = make

    def why_not(self, place):
        return None

    def variants(self, name, dtype, place):
        return ("only",)

    def prepare(self, case, place, arrays):
        return Prepared(lambda: self._make(arrays), {"passes": 1})


def measured(monkeypatch, name, params, make, seconds, device):
    monkeypatch.setattr(backends, "backend", lambda wanted: Backend(make))
    bench = Workbench("cpu")
    bench.timer = ScriptedTimer(lambda i: seconds)
    monkeypatch.setattr(bench, "flush", lambda written=1.0: lambda: None)
    context = run.Context(bench, device, {}, "r", lambda windows: None)
    case = Case(name, "fake", "only", "int32" if name == "latency" else "fp32", params)
    return list(run.run(benchmark(name), [case], run.Options(budget_s=0.1), context))[-1]


def copy(arrays):
    arrays["c"][:] = arrays["a"]


STREAM = {"op": "copy", "size": 2**28, "access": "sequential", "stride": 8, "threads": 2}
DEVICE = {"kind": "cpu", "memory_bytes_per_s": 100e9}


@pytest.mark.parametrize(("share", "outcome"), [(0.9, "ok"), (1.01, "ok"), (1.05, "failed")])
def test_more_than_the_memory_bus_carries_is_refused(monkeypatch, share, outcome):
    seconds = 2 * STREAM["size"] / (share * 100e9)
    result = measured(monkeypatch, "bandwidth", STREAM, copy, seconds, DEVICE)
    assert result.outcome == outcome
    if outcome == "failed":
        assert "105 % of the memory bus's peak cannot be" in result.reason
        assert (result.times_s, result.burst_s) == ((), ())


def test_a_kernel_that_never_touched_its_output_is_refused(monkeypatch):
    result = measured(monkeypatch, "bandwidth", STREAM, lambda arrays: None, 1.0, DEVICE)
    assert (result.outcome, result.times_s) == ("failed", ())
    assert "wrong result" in result.reason


def test_a_kernel_that_left_a_part_out_is_refused(monkeypatch):
    def most(arrays):
        arrays["c"][: -SIZE // 4] = arrays["a"][: -SIZE // 4]

    result = measured(monkeypatch, "bandwidth", STREAM, most, 1.0, DEVICE)
    assert (result.outcome, result.times_s) == ("failed", ())


def test_a_sum_whose_loads_the_compiler_removed_is_refused(monkeypatch):
    def nothing_read(arrays):
        arrays["c"][:] = 0

    params = STREAM | {"op": "read"}
    result = measured(monkeypatch, "bandwidth", params, nothing_read, 1.0, DEVICE)
    assert result.outcome == "failed"
    assert "sum is off" in result.reason


def test_a_walk_that_never_walked_is_refused(monkeypatch):
    def stays(arrays):
        arrays["c"].view("int64")[2] = 0

    params = {"size": 2**16, "stride": 64, "pages": "small"}
    result = measured(monkeypatch, "latency", params, stays, 1.0, DEVICE)
    assert result.outcome == "failed"
    assert "the walk ended" in result.reason


def test_more_than_an_sm_takes_in_is_refused():
    """253 bytes a clock, as a loop over shared memory once seemed to read."""
    from pymicro.analysis.verdict import judge
    from pymicro.results import Result

    def on_chip(per_clock):
        seconds = 132 * 2**29 / (per_clock * 132 * 1.98e9)
        return Result(
            "bandwidth", "cuda", "fastest", "fp32", outcome="ok", bytes=132 * 2**29,
            params={"op": "read", "level": "shared", "size": 65536, "sms": 132},
            device={"kind": "cuda", "sm_count": 132}, burst_s=(seconds,) * 3,
            sample_sm_clock_hz=(1.98e9,) * 3,
        )  # fmt: skip

    assert judge(on_chip(127.9)).doubt is None
    assert "253 bytes a clock and SM cannot be" in judge(on_chip(253)).doubt
    assert outcomes.believed(on_chip(127.9)).outcome == "ok"
    refused = outcomes.believed(on_chip(253))
    assert (refused.outcome, refused.burst_s) == ("failed", ())
