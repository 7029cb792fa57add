"""The run from plan to results, with real backends on the CPU and a clock that reads a script."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from fakes import ScriptedTimer

from pymicro import backends, run
from pymicro.backends.base import Place, Prepared
from pymicro.benchmark import Case
from pymicro.errors import PymicroError, Unavailable
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

GEMM = benchmark("gemm")
POINT = {"m": 33, "n": 47, "k": 65, "layout": "nt", "threads": 2}
RUN_HERE = [
    name
    for name, module in (("native", "pymicro._native"), ("torch", "torch"), ("numba", "numba"))
    if importlib.util.find_spec(module)
]


@pytest.fixture
def bench():
    made = Workbench("cpu")
    made.timer = ScriptedTimer(lambda i: 1e-3)
    return made


def context(bench, **changes):
    made = run.Context(
        bench=bench,
        device={"kind": "cpu", "name": "test"},
        environment={},
        run_id="r",
        telemetry=lambda windows: None,
    )
    return replace(made, **changes)


def results(bench, names, dtypes=("fp32",), points=(POINT,), options=None, **changes):
    planned = run.cases(GEMM, bench, names, dtypes, points)
    return list(run.run(GEMM, planned, options or run.Options(), context(bench, **changes)))


@pytest.mark.parametrize("name", RUN_HERE)
@pytest.mark.parametrize("layout", ["nt", "nn"])
def test_each_backend_is_checked_and_timed(bench, name, layout):
    (result, *_) = results(bench, [name], points=[POINT | {"layout": layout}])
    assert result.outcome == "ok", result.reason
    assert result.verified.error <= result.verified.tolerance
    assert set(result.times_s) == {1e-3}
    assert result.flop == 2 * 33 * 47 * 65


@pytest.mark.parametrize("name", RUN_HERE)
@pytest.mark.parametrize("spoil", ["one element", "nothing written", "a row of zeros"])
def test_a_wrong_kernel_fails_without_a_time(bench, name, spoil, monkeypatch):
    backend = backends.backend(name)
    right = backend.prepare

    def wrong(case, place, arrays):
        prepared = right(case, place, arrays)

        def call():
            if spoil == "nothing written":
                return
            prepared.call()
            if spoil == "one element":
                arrays["c"][20, 40] += 10
            else:
                arrays["c"][32] = 0

        return Prepared(call, prepared.notes, prepared.close)

    monkeypatch.setattr(backend, "prepare", wrong, raising=False)
    (result, *_) = results(bench, [name])
    assert result.outcome == "failed"
    assert "wrong result" in result.reason
    assert not result.samples_s
    assert bench.timer.timed == []


def test_a_backend_that_cannot_run_is_skipped_with_its_reason(bench):
    (result,) = results(bench, ["cuda"])
    assert (result.outcome, result.reason) == ("skipped", "for GPUs only.")


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (Unavailable("no such unit."), "skipped", "no such unit."),
        (PymicroError("broken."), "failed", "broken."),
        (MemoryError(), "skipped", "out of memory."),
        (ZeroDivisionError("x"), "failed", "ZeroDivisionError: x"),
    ],
)
def test_exceptions_become_outcomes(bench, monkeypatch, error, outcome, reason):
    def prepare(case, place, arrays):
        raise error

    monkeypatch.setattr(backends.backend("torch"), "prepare", prepare, raising=False)
    (result,) = results(bench, ["torch"])
    assert (result.outcome, result.reason) == (outcome, reason)


def test_an_unforeseen_error_shows_its_traceback(bench, monkeypatch, capfd):
    def prepare(case, place, arrays):
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(backends.backend("torch"), "prepare", prepare, raising=False)
    results(bench, ["torch"])
    assert "deep inside" in capfd.readouterr().err


def test_formats_a_cpu_lacks_are_skipped(bench):
    found = results(bench, ["native"], dtypes=("tf32", "fp8_e4m3"))
    assert {r.outcome for r in found} == {"skipped"}


@pytest.mark.parametrize(
    ("dtype", "capability", "why"),
    [
        ("bf16", (7, 5), "8.0"),
        ("fp8_e4m3", (8, 6), "8.9"),
        ("int8", (6, 0), "6.1"),
        ("fp16", (6, 1), None),
        ("fp8_e4m3", (12, 0), None),
    ],
)
def test_formats_by_capability(dtype, capability, why):
    reason = run.why_not_dtype(dtype, "cuda", capability)
    assert (reason is None) if why is None else (why in reason)


def test_operands_are_drawn_once_for_all_backends_of_a_problem(bench, monkeypatch):
    drawn = []
    from pymicro import operands

    draw = operands.draw
    monkeypatch.setattr(operands, "draw", lambda *a: drawn.append(a) or draw(*a))
    results(bench, RUN_HERE)
    assert len(drawn) == 2


def test_operands_too_large_for_the_memory_are_refused_with_both_numbers(bench):
    huge = POINT | {"m": 2**22, "n": 2**22, "k": 2**22}
    (result,) = results(bench, ["native"], points=[huge])
    assert result.outcome == "skipped"
    assert "need" in result.reason
    assert "free" in result.reason


def test_an_interrupt_keeps_what_is_done_and_starts_nothing_more(bench):
    asked = iter([False, True] + [True] * 50)
    found = results(bench, ["torch", "native"], interrupted=lambda: next(asked))
    assert [r.outcome for r in found] == ["ok"]


def test_same_seed_same_answer_for_all(bench):
    case = Case("gemm", "native", "packed", "fp32", POINT)
    one = bench.problem(GEMM, case, "normal", 7).arrays["a"].copy()
    bench.release()
    assert np.array_equal(one, bench.problem(GEMM, case, "normal", 7).arrays["a"])


def test_what_preparing_changed_is_undone_also_after_a_wrong_result(bench, monkeypatch):
    torch = pytest.importorskip("torch")
    backend, before = backends.backend("torch"), torch.get_float32_matmul_precision()
    right = backend.prepare

    def wrong(case, place, arrays):
        prepared = right(case, place, arrays)
        torch.set_float32_matmul_precision("medium")
        return Prepared(lambda: None, prepared.notes, prepared.close)

    monkeypatch.setattr(backend, "prepare", wrong, raising=False)
    (result,) = results(bench, ["torch"])
    assert result.outcome == "failed"
    assert torch.get_float32_matmul_precision() == before


def test_cold_runs_flush_the_cache_on_a_cpu_too(bench, monkeypatch):
    flushed = []
    monkeypatch.setattr(bench, "flush", lambda: lambda: flushed.append(1))
    (result,) = results(bench, ["torch"], options=run.Options(cache="cold"))
    assert result.cache == "cold"
    assert len(flushed) >= len(result.times_s)


class _Requests:
    """A GPU's workbench whose two clocks tell which of them was asked."""

    def __init__(self):
        self.place, self.timer = Place("cuda", capability=(9, 0)), ScriptedTimer(lambda i: 1e-3)
        self.wanted = []
        self._problem = Workbench("cpu").problem

    def clock(self, wanted):
        self.wanted.append(wanted)
        timer = ScriptedTimer(lambda i: 2e-3)
        timer.name = wanted.side
        return timer

    def problem(self, *given):
        return self._problem(*given)

    def synchronise(self): ...

    def release(self): ...

    def is_alive(self):
        return True


@pytest.mark.parametrize("side", ["host", "device"])
def test_a_case_is_timed_on_the_side_it_asks_for(side, monkeypatch):
    launch, bench = benchmark("launch"), _Requests()
    backend = backends.backend("cuda")
    monkeypatch.setattr(backend, "why_not", lambda place: None, raising=False)
    monkeypatch.setattr(backend, "prepare", lambda *_: Prepared(lambda: None), raising=False)
    case = Case("launch", "cuda", "cpp", "int32", {"call": "args0", "side": side, "calls": 100})
    found = list(run.run(launch, [case], run.Options(), context(bench)))
    assert all(r.outcome == "ok" for r in found), found[0].reason
    assert {w.side for w in bench.wanted} == {side}
    assert {w.requests for w in bench.wanted} == {100}
    assert {r.timer for r in found} == {side}
    # What the host pays is no burst of the device and is sampled once.
    assert [bool(r.burst_s) for r in found] == ([False] if side == "host" else [True, True])
    assert found[-1].times_s


def test_slow_preparation_does_not_eat_the_time_for_sampling(monkeypatch):
    launch, bench = benchmark("launch"), _Requests()
    bench.clock = lambda wanted: bench.timer
    backend = backends.backend("cuda")

    def prepare(*_):
        bench.timer.clock_s += 100.0
        return Prepared(lambda: None)

    monkeypatch.setattr(backend, "why_not", lambda place: None, raising=False)
    monkeypatch.setattr(backend, "prepare", prepare, raising=False)
    params = {"call": "args0", "side": "device", "calls": 100}
    case = Case("launch", "cuda", "cpp", "int32", params)
    found = list(run.run(launch, [case], run.Options(budget_s=8.0), context(bench)))
    assert [bool(r.times_s) for r in found] == [False, True]


def test_a_budget_that_bursts_have_spent_leaves_no_sustained_samples(monkeypatch):
    launch, bench = benchmark("launch"), _Requests()
    bench.clock = lambda wanted: bench.timer
    backend = backends.backend("cuda")
    monkeypatch.setattr(backend, "why_not", lambda place: None, raising=False)
    monkeypatch.setattr(backend, "prepare", lambda *_: Prepared(lambda: None), raising=False)
    params = {"call": "args0", "side": "device", "calls": 100}
    case = Case("launch", "cuda", "cpp", "int32", params)
    (result,) = run.run(launch, [case], run.Options(budget_s=0.01), context(bench))
    assert result.burst_s
    assert not result.times_s
