"""CPU backends through the whole run: every operation is right, and what is wrong has no time."""

import importlib.util
from dataclasses import replace

import pytest
from fakes import ScriptedTimer

from pymicro import backends, run
from pymicro.backends.base import Prepared
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

BANDWIDTH = benchmark("bandwidth")
RUN_HERE = [
    name
    for name, module in (("native", "pymicro._native"), ("torch", "torch"), ("numba", "numba"))
    if importlib.util.find_spec(module)
]
OPS = ("read", "write", "copy", "scale", "add", "triad", "dot")
# Torch is asked for arrays that no cache holds only; its calls are the same for every size.
POINT = {"size": 40_004, "access": "sequential", "stride": 8, "threads": 2}


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr("pymicro.backends.torch_memory.passes", lambda params: 1)
    monkeypatch.setattr("pymicro.streams._BYTES_A_CALL", {"cpu": 2**19})  # a few passes
    made = Workbench("cpu")
    made.timer = ScriptedTimer(lambda i: 1e-3)
    return made


def results(bench, name, dtype, **changes):
    context = run.Context(bench, {"kind": "cpu", "name": "x"}, {}, "r", lambda windows: None)
    planned = run.cases(BANDWIDTH, bench, [name], [dtype], [POINT | changes])
    return list(run.run(BANDWIDTH, planned, run.Options(budget_s=0.03), context))


@pytest.mark.parametrize("name", RUN_HERE)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", BANDWIDTH.dtypes)
def test_operations_are_right_or_skipped_with_a_reason(bench, name, op, dtype):
    found = results(bench, name, dtype, op=op)
    assert found
    for result in found:
        assert result.outcome in ("ok", "skipped"), result.reason
        assert result.outcome == "ok" or len(result.reason) > 20
    if dtype in ("fp64", "fp32"):
        ran = [result for result in found if result.outcome == "ok"]
        assert ran
        assert ran[0].bytes % POINT["size"] == 0


@pytest.mark.parametrize("access", ["strided", "random"])
@pytest.mark.parametrize("name", RUN_HERE)
def test_gathers_are_right_or_skipped(bench, name, access):
    for result in results(bench, name, "fp32", op="copy", access=access):
        assert result.outcome in ("ok", "skipped"), result.reason


@pytest.mark.parametrize("spoil", ["nothing written", "half of it", "one element"])
@pytest.mark.parametrize("op", ["write", "triad", "read"])
def test_a_kernel_that_does_less_is_failed(bench, op, spoil, monkeypatch):
    """What a compiler that removed the work, or a launch that missed data, would look like."""
    backend = backends.backend(RUN_HERE[0])
    right = backend.prepare

    def wrong(case, place, arrays):
        prepared = right(case, place, arrays)

        def call():
            before = arrays["c"].copy()
            prepared.call()
            kept = {"nothing written": slice(None), "half of it": slice(1, None, 2)}
            part = kept.get(spoil, slice(0, 1))
            arrays["c"][part] = before[part]

        return Prepared(call, prepared.notes, prepared.close)

    monkeypatch.setattr(backend, "prepare", wrong, raising=False)
    (result, *_) = results(bench, RUN_HERE[0], "fp32", op=op)
    assert result.outcome == "failed"
    assert "wrong result" in result.reason
    assert not result.samples_s
    assert replace(result, reason="x").times_s == ()


@pytest.mark.parametrize("name", [name for name in RUN_HERE if name != "torch"])
def test_arrays_that_fit_a_cache_are_hot(bench, name):
    ran = [r for r in results(bench, name, "fp32", op="copy") if r.outcome == "ok"]
    assert ran
    assert {r.cache for r in ran} == {"hot"}
