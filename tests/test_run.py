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
from pymicro.verify import Check
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


@pytest.mark.parametrize("several", [{}, {"batch": 3}])
def test_a_weights_gradient_is_multiplied_or_refused_never_taken_for_another(bench, several):
    """A lies k×m: a kernel that reads it m×k would be wrong, or right of another product."""
    for name in RUN_HERE:
        for result in results(bench, [name], points=[POINT | {"layout": "tn"} | several]):
            if name == "torch":
                assert result.outcome == "ok", result.reason
            else:
                assert result.outcome == "skipped"
                assert "k×m" in result.reason


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
    # Neither side draws power: no burst, and samples of two looks.
    assert [bool(r.burst_s) for r in found] == [False, False]
    assert len(found[1].times_s) > len(found[0].times_s)
    assert found[1].times_s[: len(found[0].times_s)] == found[0].times_s


class _Calls:
    """Backends whose calls count, and raise when told to."""

    def __init__(self, monkeypatch, **breaks):
        self.made, self.breaks, self.prepared = [], breaks, []
        for name in ("cuda", "torch"):
            monkeypatch.setattr(backends.backend(name), "why_not", lambda p: None, raising=False)
            made = self._prepare(name)
            monkeypatch.setattr(backends.backend(name), "prepare", made, raising=False)

    def _prepare(self, name):
        def call():
            self.made.append(name)
            if self.made.count(name) == self.breaks.get(name):
                raise PymicroError("it broke.")

        def prepare(*given):
            self.prepared.append(name)
            return Prepared(call)

        return prepare


CASES = [
    Case("launch", name, variant, "int32", {"call": "args0", "side": "host", "calls": 1})
    for name, variant in (("cuda", "cpp"), ("torch", "op"))
]


def test_who_draws_no_power_is_sampled_taking_turns_twice(bench, monkeypatch):
    calls, requests = _Calls(monkeypatch), _Requests()
    found = list(run.run(benchmark("launch"), CASES, run.Options(budget_s=1), context(requests)))
    assert [r.backend for r in found] == ["cuda", "torch"] * 2
    assert calls.prepared == ["cuda", "torch"] * 2
    order = "".join(name[0] for name in calls.made)
    assert min(order.count("ccctttttt"), order.count("tttcccccc")) >= 2
    assert all(len(r.details["block_means_s"]) > 2 for r in found)
    assert all(r.details["first_call_s"] >= 0 for r in found)


@pytest.mark.parametrize(("name", "repeats"), [("launch", 1), ("transfer", 10)])
def test_batches_are_as_long_as_the_benchmark_wants_them(bench, monkeypatch, name, repeats):
    """A call takes a millisecond by the scripted clock."""
    _Calls(monkeypatch)
    requests = _Requests()
    requests.clock = lambda wanted: ScriptedTimer(lambda i: 1e-3)
    params = {"launch": CASES[0].params, "transfer": {"size": 64, "path": "h2d", "host": "pinned"}}
    case = Case(name, "cuda", "cpp" if name == "launch" else "engine", "int32", params[name])
    suite = replace(benchmark(name), reference=lambda *given: _Fine())
    *_, result = run.run(suite, [case], run.Options(), context(requests))
    assert (result.outcome, result.details["repeats"]) == ("ok", repeats)


class _Fine:
    def check(self, output):
        return Check("nothing", 0.0, 0.0)


def test_one_that_breaks_while_they_take_turns_fails_alone(bench, monkeypatch):
    _Calls(monkeypatch, cuda=8)
    found = list(run.run(benchmark("launch"), CASES, run.Options(), context(_Requests())))
    last = {r.backend: (r.outcome, r.reason) for r in found}
    assert last == {"cuda": ("failed", "it broke."), "torch": ("ok", None)}


def test_a_context_lost_in_turns_skips_the_rest(bench, monkeypatch):
    _Calls(monkeypatch, cuda=8)
    requests = _Requests()
    monkeypatch.setattr(requests, "is_alive", lambda: False)
    found = list(run.run(benchmark("launch"), CASES, run.Options(), context(requests)))
    assert [(r.backend, r.outcome) for r in found] == [("cuda", "failed"), ("torch", "skipped")]
    assert "context unusable" in found[1].reason


def test_a_backend_without_the_benchmark_is_named_once():
    launch = benchmark("launch")
    points = [{"call": call, "calls": 2} for call in ("args0", "args3", "args16")]
    planned = run.cases(launch, Workbench("cpu"), ["cuda", "native"], ("int32",), points)
    assert [c.backend for c in planned if not c.variant] == ["cuda"]
    assert {c.params["call"] for c in planned if c.variant} == {"args0", "args3", "args16"}


def test_what_could_run_at_a_smaller_size_is_tried_so_once(bench, monkeypatch):
    """As where a container lets less be pinned than was asked for."""
    transfer, asked = benchmark("transfer"), []
    backend = backends.backend("cuda")
    monkeypatch.setattr(backend, "why_not", lambda place: None, raising=False)

    def prepare(case, place, arrays):
        asked.append(case.params["size"])
        if case.params["size"] > 4096:
            less = {65536: 8192, 16384: 4096, 8192: 4096}[case.params["size"]]
            raise Unavailable("so much cannot be pinned.", instead={"size": less})
        return Prepared(lambda: None, output=lambda: arrays["a"])

    monkeypatch.setattr(backend, "prepare", prepare, raising=False)
    planned = [
        Case("transfer", "cuda", "engine", "int32", {"size": size, "path": "h2d", "host": "pinned"})
        for size in (65536, 16384)
    ]
    found = list(run.run(transfer, planned, run.Options(), context(_Requests())))
    assert asked == [65536, 16384, 8192, 4096]
    assert [(r.outcome, r.params["size"]) for r in found] == [
        ("skipped", 65536),
        ("skipped", 16384),
        ("skipped", 8192),
        ("ok", 4096),
    ]
    asked.clear()
    planned.append(replace(planned[0], params={**planned[0].params, "size": 4096}))
    assert len(list(run.run(transfer, planned, run.Options(), context(_Requests())))) == 4
    assert asked == [65536, 16384, 4096, 8192]


def test_a_wrong_answer_elsewhere_than_in_the_operand_is_found(bench, monkeypatch):
    transfer, backend = benchmark("transfer"), backends.backend("cuda")
    monkeypatch.setattr(backend, "why_not", lambda place: None, raising=False)

    def prepare(case, place, arrays):
        arrays["c"][:] = arrays["a"]
        return Prepared(lambda: None, output=lambda: ~arrays["a"])

    monkeypatch.setattr(backend, "prepare", prepare, raising=False)
    case = Case(
        "transfer", "cuda", "engine", "int32", {"size": 64, "path": "d2h", "host": "pinned"}
    )
    (result,) = run.run(transfer, [case], run.Options(), context(_Requests()))
    assert (result.outcome, result.samples_s) == ("failed", ())
    assert "16 of 16 words differ" in result.reason


@pytest.mark.parametrize(
    ("preparing_s", "budget_s", "sustained"), [(100.0, 8.0, True), (0.0, 0.01, False)]
)
def test_only_sampling_draws_on_the_budget(preparing_s, budget_s, sustained, monkeypatch):
    powerful = replace(benchmark("launch"), draws_power=True)
    requests, backend = _Requests(), backends.backend("cuda")
    requests.clock = lambda wanted: requests.timer

    def prepare(*_):
        requests.timer.clock_s += preparing_s
        return Prepared(lambda: None)

    monkeypatch.setattr(backend, "why_not", lambda place: None, raising=False)
    monkeypatch.setattr(backend, "prepare", prepare, raising=False)
    params = {"call": "args0", "side": "device", "calls": 100}
    case = Case("launch", "cuda", "cpp", "int32", params)
    found = list(run.run(powerful, [case], run.Options(budget_s=budget_s), context(requests)))
    assert found[0].burst_s
    assert any(r.times_s for r in found) == sustained
