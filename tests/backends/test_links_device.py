"""Every launch and transfer that the GPU here can make: made, checked and timed once; skipped
without. Sampling would take minutes and say no more of whether they are right."""

from dataclasses import replace

import pytest

from pymicro import backends, calls, run
from pymicro.errors import Unavailable
from pymicro.paths import HOST_PATHS, PEER_PATHS
from pymicro.run.preparing import prepared
from pymicro.suite import benchmark
from pymicro.workbench import Workbench


@pytest.fixture(scope="module")
def bench():
    try:
        return Workbench("cuda")
    except Unavailable as reason:
        pytest.skip(str(reason))


def outcomes(bench, name, backend, points):
    """The results of all cases, without samples."""
    suite = benchmark(name)
    context = run.Context(bench, {"kind": "cuda", "name": "x"}, {}, "r", lambda windows: None)
    found = []
    for case in run.cases(suite, bench, [backend], ["int32"], points):
        measured = prepared(suite, case, run.Options(), context)
        found.append(measured.result)
        if measured.is_ready:
            timing = bench.clock(suite.clock(case.params)).time(measured.prepared.call, 2)
            assert 0 < timing.seconds < 1, case
            found[-1] = replace(found[-1], outcome="ok", reason=None, times_s=(timing.seconds,))
        measured.prepared.close()
    return found


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
@pytest.mark.parametrize("path", HOST_PATHS)
def test_every_copy_arrives(bench, path, host):
    sizes = (16, 4096, 3 * 2**20 + 16)
    points = [{"size": size, "path": path, "host": host} for size in sizes]
    found = outcomes(bench, "transfer", "cuda", points)
    assert found or (host == "pageable" and path not in ("h2d", "d2h"))
    for result in found:
        assert result.outcome == "ok", (result.variant, result.params, result.reason)


@pytest.mark.parametrize("path", ["h2d", "d2h", "d2d"])
def test_a_kernel_that_goes_round_several_times_copies_all(bench, path):
    """More than two blocks an SM hold in flight at once, and a rest."""
    points = [{"size": 100 * 2**20 + 16, "path": path, "host": "pinned"}]
    for result in outcomes(bench, "transfer", "cuda", points):
        assert result.outcome == "ok", (result.variant, result.params, result.reason)


def test_every_pair_of_gpus_copies_or_says_why_not(bench):
    points = [
        {"size": 2**20, "path": path, "pair": pair} for path in PEER_PATHS for pair in bench.pairs()
    ]
    alone = bench.pairs() == ("0-0",)
    for result in outcomes(bench, "transfer", "cuda", points):
        if alone:
            assert (result.outcome, "no peer" in result.reason) == ("skipped", True)
        else:
            direct = result.details.get("peer_access")
            assert result.outcome == "ok" or (result.variant == "sm" and not direct)


@pytest.mark.parametrize("size", [16, 3 * 2**20 + 16])
def test_inside_the_gpu(bench, size):
    for result in outcomes(bench, "transfer", "cuda", [{"size": size, "path": "d2d"}]):
        assert result.outcome == "ok", (result.variant, result.reason)
