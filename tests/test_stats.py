import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro import stats


def test_median_of_known_samples():
    assert stats.median([3, 1, 2]) == 2.0
    assert stats.median([4, 1, 2, 3]) == 2.5


@pytest.mark.parametrize("function", [stats.median, stats.bootstrap_ci])
def test_no_samples_is_an_error(function):
    with pytest.raises(ValueError, match="no samples"):
        function([])


def test_bootstrap_covers_the_true_median_about_as_often_as_it_says():
    draw = random.Random(1)
    hits = 0
    for trial in range(100):
        low, high = stats.bootstrap_ci([draw.gauss(10, 1) for _ in range(40)], seed=trial)
        hits += low <= 10 <= high
    assert 88 <= hits <= 100


def test_bootstrap_is_reproducible_and_narrows_with_samples():
    draw = random.Random(2)
    many = [draw.gauss(1, 0.1) for _ in range(400)]
    assert stats.bootstrap_ci(many, 3) == stats.bootstrap_ci(many, 3)

    def width(samples):
        low, high = stats.bootstrap_ci(samples)
        return high - low

    assert width(many) < width(many[:20])


@given(st.lists(st.floats(min_value=1e-9, max_value=1e3), min_size=1, max_size=30))
def test_interval_lies_within_the_samples(samples):
    low, high = stats.bootstrap_ci(samples)
    assert min(samples) <= low <= high <= max(samples)


def test_drift_sees_a_slope_but_no_noise():
    assert stats.drift([1.0] * 10) == 0.0
    assert stats.drift([1.0, 1.1, 1.2, 1.3, 1.4, 1.5]) == pytest.approx(1.45 / 1.05 - 1)
    assert stats.drift([1.0, 2.0]) == 0.0


def test_drifting_samples_are_never_steady():
    assert not stats.is_steady([1 + 0.01 * i for i in range(30)], spread=0.5, drift_limit=0.02)
    assert stats.is_steady([1.0, 1.001] * 10, spread=0.005, drift_limit=0.02)


def test_paired_ratio_cancels_common_drift():
    base = [1 + 0.1 * i for i in range(10)]
    ratio, low, high = stats.paired_ratio(base, [1.05 * b for b in base])
    assert (ratio, low, high) == pytest.approx((1.05, 1.05, 1.05))
    with pytest.raises(ValueError):
        stats.paired_ratio([1.0], [1.0, 2.0])
