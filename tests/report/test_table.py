"""The table of results, of records that are not the suite's own."""

import pytest
from fakes import H200, gemm_result

from pymicro.report import render, table
from pymicro.report.columns import shape
from pymicro.results import Result


@pytest.mark.parametrize("format_", ["table", "json", "csv", "markdown"])
def test_a_result_that_counts_no_work_is_shown_by_its_seconds(format_):
    """A plugin's or a probe's: neither operations nor bytes nor steps. It used to end in a
    division by zero."""
    result = Result("mine", "torch", "v", "fp16", device=H200, times_s=(2e-3,) * 5)
    assert "torch" in render([result], [], format_)
    if format_ == "table":
        assert "2.000 ms" in render([result], [], format_)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"batch": 8, "heads": 16, "queries": 1, "keys": 512, "width": 64, "has_bias": True},
         "8×16×1×512×64 bias"),
        ({"rows": 4096, "width": 768, "inner": 3072}, "4096×768×3072"),
        ({"m": 8, "n": 8, "k": 8, "flag": "use_fast_accum"}, "8³ use_fast_accum"),
        ({"m": 8, "n": 8, "k": 8, "layout": "nn"}, "8³ nn"),
    ],
    ids=str,
)  # fmt: skip
def test_problems_of_readiness_can_be_told_apart(params, text):
    assert shape(gemm_result(params=params)) == text


def chase(seconds, **params):
    params = {"size": 2**20, "stride": 64, "step": "load", "pages": "huge"} | params
    return gemm_result(
        benchmark="latency", backend="native", variant="chase", dtype="int32", flop=0, bytes=0,
        steps=1, params=params, device={"kind": "cpu", "name": "a CPU"}, times_s=seconds,
    )  # fmt: skip


def test_a_chase_has_a_time_and_shows_a_stride_that_was_asked_for():
    shown = table.render([chase((5e-9,) * 20), chase((5e-9,) * 20, stride=4096)], ())
    assert "time" in shown.splitlines()[0] + shown.splitlines()[1]
    assert "rate" not in shown
    assert "stride 4096" in shown
    assert "stride 64" not in shown


def test_an_interval_that_leans_prints_both_ends():
    leaning = (5e-9,) * 11 + (9e-9,) * 9
    shown = table.render([chase(leaning)], ())
    assert "5.000 ns (5.000 ns to 9.000 ns)" in shown
    assert "±" in table.render([chase((4e-9, 5e-9, 6e-9) * 7)], ())
