"""Every launch and transfer that the GPU here can make, through the whole run; skipped without."""

import pytest

from pymicro import backends, calls, run
from pymicro.errors import Unavailable
from pymicro.suite import benchmark
from pymicro.workbench import Workbench


@pytest.fixture(scope="module")
def bench():
    try:
        return Workbench("cuda")
    except Unavailable as reason:
        pytest.skip(str(reason))


def outcomes(bench, name, backend, points):
    suite = benchmark(name)
    context = run.Context(bench, {"kind": "cuda", "name": "x"}, {}, "r", lambda windows: None)
    planned = run.cases(suite, bench, [backend], ["int32"], points)
    options = run.Options(sustained="none", budget_s=0.3 * len(planned))
    return list(run.run(suite, planned, options, context))


@pytest.mark.parametrize("side", ["host", "device"])
@pytest.mark.parametrize("backend", ["cuda", "triton", "cupy", "numba", "torch"])
def test_every_layer_makes_its_calls(bench, backend, side):
    reason = backends.backend(backend).why_not(bench.place)
    if reason is not None:
        pytest.skip(reason)
    points = [{"call": call, "side": side, "calls": 20} for call in calls.CALLS]
    for result in outcomes(bench, "launch", backend, points):
        assert result.outcome == "ok", (result.variant, result.params, result.reason)


@pytest.mark.parametrize("host", ["pinned", "combined", "pageable", "registered"])
@pytest.mark.parametrize("path", ["h2d", "d2h", "both", "d2d"])
@pytest.mark.parametrize("size", [16, 4096, 3 * 2**20 + 16])
def test_every_copy_arrives(bench, path, host, size):
    for result in outcomes(bench, "transfer", "cuda", [{"path": path, "host": host, "size": size}]):
        assert result.outcome == "ok", (result.variant, result.reason)
