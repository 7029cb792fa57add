"""The launch benchmark: which layer makes which call, that arguments arrive, and real CPU rows."""

import importlib.util
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from pymicro import backends, calls, run
from pymicro.backends.base import Place, Prepared, offered
from pymicro.benchmark import Case, Clock
from pymicro.cli import measure
from pymicro.errors import WrongResult
from pymicro.results import latest
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

LAUNCH = benchmark("launch")
HERE = {
    name
    for name, module in (("native", "pymicro._native"), ("torch", "torch"), ("numba", "numba"))
    if importlib.util.find_spec(module)
}
ON_CPU = [
    (row.backend, row.variant, call)
    for row in calls.ROWS
    if row.kind == "cpu" and row.backend in HERE
    for call in row.makes
]


def results(backend, variant, call, count=3):
    point = {"call": call, "calls": count}
    context = run.Context(
        Workbench("cpu"), {"kind": "cpu", "name": "x"}, {}, "r", lambda windows: None
    )
    case = Case("launch", backend, variant, "int32", point)
    return latest(run.run(LAUNCH, [case], run.Options(budget_s=0.01), context))


@pytest.mark.parametrize(("backend", "variant", "call"), ON_CPU)
def test_rows_run_on_the_cpu_and_say_so(backend, variant, call):
    (result,) = results(backend, variant, call)
    assert result.outcome == "ok", result.reason
    assert result.steps == 3
    assert result.details["ran_on"] == ["cpu"]
    assert (result.verified.reference == "sum of the arguments") == (call in ("args3", "args16"))


@pytest.mark.parametrize(
    ("backend", "variant", "call"), [row for row in ON_CPU if row[2] in ("args3", "args16")]
)
def test_an_argument_that_goes_astray_is_a_wrong_result(backend, variant, call, monkeypatch):
    shifted = (*calls._NUMBERS[1:], 23)
    right = calls.arguments
    numbers = shifted[: calls.LAUNCHES[call][1]]
    monkeypatch.setattr(
        calls, "arguments", lambda *given: (*right(*given)[: -len(numbers)], *numbers)
    )
    monkeypatch.setattr("pymicro.backends.torch_launch.calls.numbers", lambda call: numbers)
    monkeypatch.setattr(calls, "expected", lambda call, first: _expected(call, first))
    (result,) = results(backend, variant, call)
    assert result.outcome == "failed"
    assert "arguments sum to" in result.reason


def _expected(call, first):
    inputs, count = calls.LAUNCHES[call]
    return (inputs * first + sum(calls._NUMBERS[:count])) % 2**32


def test_a_call_is_made_as_often_as_it_says():
    made = []
    calls.repeated(lambda *given: made.append(given), 7, 1, "x")()
    assert made == [(1, "x")] * 7
    calls.repeated(lambda: made.append(None), 5)()
    assert made[7:] == [None] * 5


@pytest.mark.parametrize(("call", "count"), [("args0", 0), ("args3", 3), ("args16", 16)])
def test_launches_have_the_arguments_of_their_name(call, count):
    assert len(calls.arguments(call, "out", "in")) == count


def test_sums_wrap_like_the_kernels():
    a = np.array([2**32 - 1, 0], np.uint32).view(np.int32)
    reference = LAUNCH.reference("int32", {"call": "args16"}, {"a": a})
    total = 5 * (2**32 - 1) + sum(calls.numbers("args16"))
    reference.check(np.array([total % 2**32], np.uint32).view(np.int32))
    with pytest.raises(WrongResult, match="arguments sum to"):
        reference.check(np.array([total % 2**32 + 1], np.uint32).view(np.int32))


def test_no_number_is_one_that_triton_would_compile_in():
    assert all(n != 1 and n % 16 for n in calls.numbers("args16"))
    assert all(b != a for a, b in pairwise(calls.numbers("args16")))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_rows_and_backends_name_the_same_variants(kind, monkeypatch):
    monkeypatch.setattr("pymicro.backends.base.find_spec", lambda name: object())
    monkeypatch.setattr(backends.backend("torch"), "why_not", lambda p: None, raising=False)
    place = Place(kind, 0, (9, 0) if kind == "cuda" else None, 132)
    for name in ("native", "cuda", "triton", "cupy", "numba", "torch"):
        if name in ("triton", "torch", "numba") and name not in {*HERE, "triton"}:
            continue
        variants, _ = offered(backends.backend(name), "launch", "int32", place)
        assert set(variants) == set(calls.variants_of(name, kind)), name


def test_only_calls_that_a_layer_makes_are_planned():
    bench = Workbench("cpu")
    points = [{"call": call, "calls": 10} for call in calls.CALLS]
    planned = run.cases(LAUNCH, bench, [*HERE, "cuda"], ("int32",), points)
    ours = {(c.backend, c.variant, c.params["call"]) for c in planned if c.variant}
    assert ours == set(ON_CPU)
    # One that cannot run here at all is listed, to be skipped with its reason.
    assert {c.backend for c in planned if not c.variant} == {"cuda"}


def test_the_device_is_asked_about_launches_only():
    on = {"side": "device"}
    assert calls.applies("bindings", {"call": "args3", **on})
    assert not calls.applies("bindings", {"call": "record", **on})
    assert calls.applies("bindings", {"call": "record", "side": "host"})
    assert calls.applies("somebody's", {"call": "args0", **on})


def test_clocks():
    assert LAUNCH.clock({"calls": 100}) == Clock("host", 100)
    assert LAUNCH.clock({"calls": 100, "side": "device"}) == Clock("device", 100)
    assert benchmark("gemm").clock({}) == Clock()


def test_a_wrong_item_gets_no_time(monkeypatch):
    torch = pytest.importorskip("torch")
    from pymicro.backends import torch_launch

    class Wrong:
        def __getitem__(self, at):
            return torch.tensor(5)

        def tolist(self):
            return [4]

    case = Case("launch", "torch", "tensor", "int32", {"call": "item", "calls": 1})
    with pytest.raises(WrongResult, match="item"):
        torch_launch.bind(torch, case, Wrong(), None)


def test_the_list_tells_what_never_ran():
    titles, rows = LAUNCH.kernels()
    assert titles[-1] == "has run on"
    for row, cells in zip(calls.ROWS, rows, strict=True):
        assert cells[-1] == (" ".join(row.ran_on) or "not yet run on hardware")


def test_prepared_is_what_backends_give():
    prepared = backends.backend("native").prepare(
        Case("launch", "native", "python", "int32", {"call": "args0", "calls": 2}),
        Place("cpu"),
        {"a": np.zeros(8, np.int32), "c": np.zeros(1, np.int32)},
    )
    assert isinstance(prepared, Prepared)
    prepared.call()


@pytest.mark.parametrize(("backend", "outcome"), [("all", "skipped"), ("native", "ok")])
def test_what_runs_on_request_is_skipped_with_the_reason_unless_its_backend_is_named(
    backend, outcome
):
    told = "takes long; --backend native measures it."
    command = measure.command(replace(LAUNCH, on_request={"ctypes": told}))
    words = ["--device", "cpu", "--call", "args0,args3", "--budget", "0.2", "--no-store"]
    done = CliRunner().invoke(
        command, [*words, "--format", "json", "--backend", backend], standalone_mode=False
    )
    assert done.return_value == 0, done.output
    found = [r for r in json.loads(done.stdout)["results"] if r["variant"] == "ctypes"]
    assert {r["outcome"] for r in found} == {outcome}
    if outcome == "skipped":
        assert [r["reason"] for r in found] == [told]


def test_the_layers_that_run_on_request_are_there():
    assert LAUNCH.on_request.keys() <= {row.variant for row in calls.ROWS}
