"""Plateaus in sweeps: drawn ones with known ends."""

import pytest

from pymicro.analysis.levels import agreements, levels

KIB, MIB = 2**10, 2**20


def sweep(steps, first=2**14, last=2**30, noise=(1.0,)):
    """Latency by ring size: `steps` are (largest size, seconds) from the fastest on."""
    points, size, index = [], first, 0
    while size <= last:
        seconds = next(s for limit, s in steps if size <= limit)
        points.append((size, seconds * noise[index % len(noise)]))
        size, index = size * 2, index + 1
    return points


def test_gpu_levels():
    """L1, L2 and memory as on an H200, with the shoulder where a ring is half in L2."""
    points = sweep([(128 * KIB, 17e-9), (32 * MIB, 143e-9), (64 * MIB, 240e-9), (2**40, 340e-9)])
    found = levels(points)
    assert [level.seconds for level in found] == [17e-9, 143e-9, 340e-9]
    assert [level.last_bytes for level in found] == [128 * KIB, 32 * MIB, 2**30]
    told = agreements(found, {"L1": 256 * KIB, "L2": 60 * MIB})
    assert [a.ends for a in told] == [(128 * KIB, 256 * KIB), (32 * MIB, 128 * MIB)]
    assert all(a.agrees for a in told)


def test_noise_makes_no_level():
    points = sweep([(32 * KIB, 1e-9), (2**40, 4e-9)], noise=(1.0, 1.08, 0.95))
    assert len(levels(points)) == 2


def test_a_slow_climb_is_no_plateau():
    points = [(2**n, 1.3**n) for n in range(14, 24)]
    assert levels(points) == []


def test_a_cache_that_does_not_show_is_said():
    found = levels(sweep([(2 * MIB, 1e-9), (2**40, 9e-9)]))
    (told,) = agreements(found, {"L3": 32 * MIB})
    assert not told.agrees
    assert told.ends == (2 * MIB, 4 * MIB)


@pytest.mark.parametrize(
    ("known", "agrees"),
    [
        *((16 * KIB, False), (29 * KIB, False), (30 * KIB, True), (32 * KIB, True)),
        *((48 * KIB, True), (64 * KIB, True), (72 * KIB, False), (128 * KIB, False)),
    ],
)
def test_a_cache_lies_between_what_it_holds_and_what_it_does_not(known, agrees):
    (told,) = agreements(levels(sweep([(32 * KIB, 1e-9), (2**40, 9e-9)])), {"L1": known})
    assert told.agrees == agrees


def test_sets_too_small_for_the_best_rate_belong_to_no_level():
    """A bandwidth sweep begins with sizes that are over before they are fast."""
    points = [(2**14, 9.0), (2**15, 4.0), *((2**n, 1.0) for n in range(16, 22)), (2**22, 3.0)]
    found = levels([*points, (2**23, 3.1)])
    assert [(level.first_bytes, level.last_bytes) for level in found] == [
        (2**16, 2**21), (2**22, 2**23),
    ]  # fmt: skip


def test_memory_is_no_cache_however_the_sweep_ends():
    found = levels(sweep([(2**40, 9e-9)], last=32 * MIB))
    (told,) = agreements(found, {"L3": 32 * MIB})
    assert told.ends is None
    assert not told.agrees


@pytest.mark.parametrize("order", [1, -1])
def test_points_may_come_in_any_order(order):
    points = sweep([(128 * KIB, 17e-9), (2**40, 340e-9)])[::order]
    assert [level.last_bytes for level in levels(points)] == [128 * KIB, 2**30]
