"""The line through transfer times."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.analysis.link_fit import fit

SIZES = [4 * 4**k for k in range(15)]


@given(st.floats(1e-7, 1e-4), st.floats(1e8, 1e12))
def test_a_line_is_found_exactly(t0_s, bytes_per_s):
    found = fit([(n, t0_s + n / bytes_per_s) for n in SIZES])
    assert found.t0_s == pytest.approx(t0_s, rel=1e-6)
    assert found.bytes_per_s == pytest.approx(bytes_per_s, rel=1e-6)
    assert found.half_bytes == pytest.approx(t0_s * bytes_per_s, rel=1e-5)
    assert found.worst < 1e-6


def test_half_of_the_rate_is_reached_at_half_bytes():
    found = fit([(n, 2e-6 + n / 55e9) for n in SIZES])
    n = found.half_bytes
    assert n / found.seconds(n) == pytest.approx(found.bytes_per_s / 2)


def test_noise_of_a_share_moves_both_by_no_more():
    rng = random.Random(0)
    found = fit([(n, (2e-6 + n / 55e9) * rng.uniform(0.98, 1.02)) for n in SIZES])
    assert found.t0_s == pytest.approx(2e-6, rel=0.02)
    assert found.bytes_per_s == pytest.approx(55e9, rel=0.02)
    assert 0 < found.worst < 0.05


def test_a_time_below_zero_is_no_fixed_cost():
    found = fit([(1000, 1e-6), (2000, 3e-6)])
    assert found.t0_s == 0
    assert found.worst > 0.1


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([], "two sizes"),
        ([(4, 1e-6), (4, 2e-6)], "two sizes"),
        ([(4, 1e-6), (8, 0.0)], "some time"),
        ([(4, 1e-6), (8, float("nan"))], "some time"),
        ([(4, 1e-6), (8, 1e-6)], "no longer"),
        ([(4, 2e-6), (8, 1e-6)], "no longer"),
    ],
)
def test_what_is_no_line_is_refused(points, said):
    with pytest.raises(ValueError, match=said):
        fit(points)
