"""Verdicts on bytes and steps: what counts against the memory bus, and what cannot be."""

import pytest

from pymicro.analysis.verdict import judge
from pymicro.results import Result

BUS = 4.814e12


def result(seconds, **changes):
    device = {"kind": "cuda", "memory_bytes_per_s": BUS}
    values = {"device": device, "bytes": 2**31, "times_s": (seconds,) * 5}
    return Result("bandwidth", "cuda", "fastest", "fp32", outcome="ok", **(values | changes))


def test_bytes_are_judged_by_the_bus():
    verdict = judge(result(2**31 / 4.3e12))
    assert verdict.rates[0].value == pytest.approx(4.3e12)
    assert verdict.peak_fraction == pytest.approx(4.3 / 4.814)
    assert verdict.doubt is None


def test_more_than_the_bus_carries_is_doubted():
    assert "106 %" in judge(result(2**31 / (1.06 * BUS))).doubt
    assert judge(result(2**31 / (1.01 * BUS))).doubt is None


@pytest.mark.parametrize(
    "changes", [{"params": {"level": "shared"}}, {"details": {"passes": 8}}], ids=str
)
def test_what_never_crossed_the_bus_is_not_judged_by_it(changes):
    verdict = judge(result(2**31 / 30e12, **changes))
    assert verdict.peak_fraction is None
    assert verdict.doubt is None


def test_a_step_is_judged_by_its_time_alone():
    verdict = judge(result(1e-3, bytes=0, steps=65536))
    assert verdict.rates[0].value == pytest.approx(1e-3 / 65536)
    assert verdict.peak_fraction is None
