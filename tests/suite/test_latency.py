"""The latency benchmark: what a ring is, how long a walk, and where it must end."""

import importlib.util

import numpy as np
import pytest

from pymicro import chains, operands, run
from pymicro.benchmark import Case
from pymicro.errors import Unavailable, UsageError, WrongResult
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

LATENCY = benchmark("latency")


def point(**changes):
    return {"size": 2**16, "stride": 128, "where": "memory", "step": "load"} | changes


@pytest.mark.parametrize(
    ("changes", "places"),
    [({}, 512), ({"stride": 4096}, 16), ({"where": "shared"}, 2**14), ({"where": "dsmem"}, 2**13)],
)
def test_places_of_a_ring(changes, places):
    order, out = LATENCY.operands("int32", point(**changes))
    assert (order.shape, order.fill) == ((places,), "cycle")
    assert (out.shape, out.fill) == ((6,), "output")


def test_walks_are_whole_rounds_and_longest_where_the_cache_starts_empty():
    for where in ("memory", "shared", "dsmem", "host"):
        assert chains.steps(point(where=where)) % chains.STEPS_A_ROUND == 0
    small, large = (chains.steps(point(size=s)) for s in (2**16, 2**26))
    assert small > large > chains.steps(point(where="host"))
    # The first lap of the largest ring in L1 is lost among the later ones.
    assert chains.steps(point(size=2**18)) > 100 * chains.places(point(size=2**18))


def test_a_cycle_is_a_permutation_of_its_own_seed():
    first, again, other = (operands.cycle(1000, seed) for seed in (1, 1, 2))
    assert sorted(first.tolist()) == list(range(1000))
    assert first.dtype == np.int32
    assert (first == again).all()
    assert (first != other).any()


def test_a_walk_that_ends_elsewhere_is_wrong():
    p = point()
    order = operands.cycle(512, 3)
    reference = LATENCY.reference("int32", p, {"order": order})
    out = np.zeros(6, np.int32)
    out.view(np.int64)[2] = order[chains.steps(p) % 512] * 128
    assert reference.check(out).error == 0
    out.view(np.int64)[2] += 128
    with pytest.raises(WrongResult, match="the walk ended"):
        reference.check(out)


@pytest.mark.parametrize(
    ("changes", "said"), [({"size": 128}, "two places"), ({"stride": 12}, "multiple")]
)
def test_rings_that_cannot_be(changes, said):
    with pytest.raises(UsageError, match=said):
        LATENCY.operands("int32", point(**changes))


# Four SMs with eight lines each. Reading the clock costs 20 cycles of a single load.
STEADY = np.array([[272.0], [280.0], [284.0], [295.0]]) + np.zeros((4, 8))
HOMES_ARE_THERE = np.arange(8) % 2 == 0


def test_an_sm_of_the_other_part_pays_once_for_lines_at_home_there():
    from pymicro.backends.cuda.latency import distances

    seconds = STEADY + 20
    firsts = seconds.copy()
    firsts[2:, HOMES_ARE_THERE] += 176
    from_memory = np.where(HOMES_ARE_THERE, 736.0, 555.0) + np.zeros((4, 8))
    found = distances(from_memory, firsts, seconds, STEADY)
    assert found == pytest.approx(
        {
            "l2_cycles": 282.0,
            "l2_least_cycles": 272.0,
            "l2_most_cycles": 295.0,
            "l2_other_part_cycles": 282.0 + 176,
            "memory_near_cycles": 535.0,
            "memory_far_cycles": 716.0,
        }
    )


def test_one_line_that_waits_for_its_page_makes_no_second_part():
    from pymicro.backends.cuda.latency import distances

    firsts = STEADY + 20
    firsts[:, 0] += 400
    found = distances(firsts, firsts, STEADY + 20, STEADY)
    assert set(found) == {"l2_cycles", "l2_least_cycles", "l2_most_cycles"}


@pytest.mark.parametrize("pages", ["huge", "small"])
def test_the_cpu_walks_its_ring(pages):
    if importlib.util.find_spec("pymicro._native") is None:
        pytest.skip("the C++ module is not built")
    bench = Workbench("cpu")
    p = {"size": 2**20, "stride": 64, "pages": pages}
    case = Case("latency", "native", "chase", "int32", p)
    context = run.Context(bench, {"kind": "cpu", "name": "x"}, {}, "r", lambda windows: None)
    (result,) = run.run(LATENCY, [case], run.Options(budget_s=0.3), context)
    assert result.outcome == "ok", result.reason
    assert result.steps == chains.steps(p)


@pytest.mark.parametrize(
    ("changes", "kind", "memory", "least"),
    [
        ({}, "cuda", "cuda", 2**34),
        ({"where": "host"}, "cuda", "cpu", 2**34 + 2**27 * 4),
        ({"pages": "huge"}, "cpu", "cpu", 2**34 + 2**21),
        ({"pages": "small"}, "cpu", "cpu", 2**34 + 2**27 * 4),
        ({"where": "shared"}, "cuda", "cpu", 2**32 * 4),
    ],
)
def test_a_ring_counts_where_it_lies(changes, kind, memory, least):
    beside = LATENCY.beside(point(size=2**34, **changes), kind)
    assert least <= beside[memory] < 1.1 * least
    assert ("cuda" in beside) == (memory == "cuda")


def test_a_ring_too_large_is_refused_before_its_order_is_drawn(monkeypatch):
    monkeypatch.setattr(operands, "cycle", lambda *a: pytest.fail("the order was drawn"))
    monkeypatch.setattr("pymicro.workbench.free_memory_bytes", lambda kind: 23 * 2**30)
    case = Case("latency", "native", "chase", "int32", {"size": 100 * 2**30, "stride": 64,
                "pages": "huge"})  # fmt: skip
    with pytest.raises(Unavailable, match=r"size 100 GiB .* need 1.* GiB; 23 GiB of main memory"):
        Workbench("cpu").problem(LATENCY, case, "normal", 0)
