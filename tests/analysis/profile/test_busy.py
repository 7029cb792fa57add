"""Each moment of the device has one owner: against a count of moments one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pymicro.analysis.profile import busy

INTERVAL = st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 2))


def by_hand(intervals, low, high):
    """The owner of each unit of time: the lowest layer, in it the first to begin."""
    own = [0] * len(intervals)
    for t in range(low, high):
        alive = [
            (layer, start, number)
            for number, (start, length, layer) in enumerate(intervals)
            if start <= t < start + length
        ]
        if alive:
            own[min(alive)[2]] += 1
    return own


@given(st.lists(INTERVAL, min_size=1, max_size=12), st.integers(0, 20), st.integers(21, 60))
def test_exclusive_time_is_what_a_count_by_hand_gives(intervals, low, high):
    # Beginnings are clipped to the span, where ties are broken by order: so let them differ.
    intervals = sorted(intervals, key=lambda i: i[0])
    start = np.array([float(i[0]) for i in intervals])
    end = start + np.array([float(i[1]) for i in intervals])
    own, covered = busy.exclusive(start, end, np.array([i[2] for i in intervals]), low, high)
    expected = by_hand(intervals, low, high)
    assert own.sum() == sum(expected)
    for layer in range(3):
        members = [n for n, i in enumerate(intervals) if i[2] == layer]
        assert own[members].sum() == sum(expected[n] for n in members)
    assert (covered.end_s - covered.start_s).sum() == sum(expected)
    a, b = covered.gaps(low, high)
    assert (b - a).sum() + sum(expected) == high - low
    assert (b > a).all()


def test_a_collective_behind_arithmetic_costs_nothing():
    start, end = np.array([0.0, 2.0, 8.0]), np.array([10.0, 12.0, 9.0])
    own, _ = busy.exclusive(start, end, np.array([0, 2, 1]), 0.0, 20.0)
    assert own.tolist() == [10.0, 2.0, 0.0]


def test_a_gap_shorter_than_a_stamp_is_none():
    covered = busy.union(np.array([0.0, 1.0 + 1e-9]), np.array([1.0, 2.0]))
    assert covered.gaps(0.0, 2.0)[0].tolist() == []
