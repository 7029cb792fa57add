"""Results: checked at birth, equal after a round trip, summed up from their samples."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.results import (
    SCHEMA,
    Finding,
    Result,
    Verified,
    latest,
    new_run_id,
    now_utc,
    summary,
)
from pymicro.telemetry import Telemetry

SEEN = Telemetry(sm_clock_hz=1.4e9, power_w=700.0, limits=("power_cap",), pcie=(5, 16), samples=40)


def full(**changes):
    """A result with every field set."""
    values = {
        "benchmark": "gemm",
        "backend": "cuda",
        "variant": "hopper",
        "dtype": "fp16",
        "accumulate": "fp32",
        "params": {"m": 8192, "n": 8192, "k": 8192, "layout": "nt"},
        "device": {"name": "NVIDIA H200", "sm_count": 132},
        "environment": {"driver": "580.95.05", "versions": {"torch": None}},
        "verified": Verified("fp64", 1e-4, 1e-3),
        "flop": 2 * 8192**3,
        "bytes": 3 * 2 * 8192**2,
        "times_s": (0.002, 0.0021, 0.0019),
        "burst_s": (0.0015, 0.0016),
        "sample_sm_clock_hz": (1.4e9, None, 1.39e9),
        "telemetry": SEEN,
        "burst_telemetry": Telemetry(absent={"power_w": "too short"}),
        "cache": "hot",
        "fill": "normal",
        "seed": 7,
        "timer": "events",
        "notes": ("unaligned",),
        "created_utc": "2026-12-01T09:30:00Z",
        "run_id": "abc",
    }
    return Result(**(values | changes))


def test_round_trip_through_json_is_equal():
    result = full()
    text = json.dumps(result.to_json(), allow_nan=False)
    assert Result.from_json(json.loads(text)) == result
    assert json.loads(text)["schema"] == SCHEMA


@pytest.mark.parametrize("outcome", ["skipped", "failed"])
def test_round_trip_without_times(outcome):
    verified = Verified("fp64", math.nan, 1e-3)
    result = Result("gemm", "numba", "tiled", "fp8_e4m3", outcome=outcome, reason="no hardware")
    result = replace(result, verified=verified)
    assert Result.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result
    assert summary(result) == {}


BAD = [
    ({"times_s": (), "burst_s": (), "sample_sm_clock_hz": None}, "needs times"),
    ({"times_s": (0.0, 1.0, 1.0)}, "finite positive"),
    ({"times_s": (-1e-3, 1.0, 1.0)}, "finite positive"),
    ({"times_s": (math.nan, 1.0, 1.0)}, "finite positive"),
    ({"times_s": (math.inf, 1.0, 1.0)}, "finite positive"),
    ({"times_s": (10**400, 1.0, 1.0)}, "finite positive"),
    ({"notes": "one"}, "sentences"),
    ({"times_s": (True, 1.0, 1.0)}, "finite positive"),
    ({"times_s": ("1", 1.0, 1.0)}, "finite positive"),
    ({"burst_s": (0.0,)}, "finite positive"),
    ({"reason": "slow"}, "has no reason"),
    ({"outcome": "failed", "reason": "wrong"}, "carries no times"),
    ({"outcome": "skipped", "reason": "", "times_s": (), "burst_s": ()}, "needs a reason"),
    ({"outcome": "error"}, "none of"),
    ({"cache": "warm"}, "none of"),
    ({"flop": -1}, "not a count"),
    ({"bytes": 1.5}, "not a count"),
    ({"verified": Verified("fp64", 0.1, 1e-3)}, "wrong answer"),
    ({"verified": Verified("fp64", math.nan, 1e-3)}, "wrong answer"),
    ({"sample_sm_clock_hz": (1e9,)}, "one entry"),
    ({"sample_sm_clock_hz": (1e9, 0, None)}, "clock or None"),
    ({"params": {"m": math.nan}}, "plain JSON"),
    ({"device": {"handle": object()}}, "plain JSON"),
    ({"benchmark": ""}, "benchmark"),
    ({"backend": None}, "backend"),
]


@pytest.mark.parametrize(("change", "words"), BAD)
def test_what_cannot_be_is_refused_at_birth(change, words):
    with pytest.raises(ValueError, match=words):
        full(**change)


def test_a_result_does_not_change():
    params = {"m": 1}
    result = full(params=params)
    params["m"] = 2
    assert result.params == {"m": 1}
    with pytest.raises(FrozenInstanceError):
        result.flop = 1


@pytest.mark.parametrize("name", ["benchmark", "backend", "variant", "dtype", "outcome"])
def test_a_record_that_lost_a_field_or_its_type_is_no_result(name):
    record = full().to_json()
    with pytest.raises(ValueError):
        Result.from_json(record | {name: 3})


@pytest.mark.parametrize("name", ["telemetry", "verified", "params", "times_s", "notes"])
def test_a_field_of_another_kind_is_a_value_error(name):
    with pytest.raises(ValueError):
        Result.from_json(full().to_json() | {name: 3})


def test_unknown_fields_are_written_back():
    record = full().to_json() | {"colour": {"of": ["the", "card"]}}
    assert Result.from_json(record).to_json() == record


def test_summary_of_a_reader_is_not_taken_for_data():
    record = full().to_json() | {"summary": {"median_s": 1.0}}
    assert Result.from_json(record) == full()


@pytest.fixture
def stats(monkeypatch):
    """`pymicro.stats` reduced to what is easily told: the middle, the least and the largest."""
    stand_in = SimpleNamespace(
        median=lambda xs: sorted(xs)[len(xs) // 2],
        bootstrap_ci=lambda xs, seed=0: (min(xs), max(xs)),
    )
    import pymicro

    monkeypatch.setitem(sys.modules, "pymicro.stats", stand_in)
    monkeypatch.setattr(pymicro, "stats", stand_in, raising=False)


@pytest.mark.usefixtures("stats")
def test_summary_to_the_digit():
    got = summary(full(), peak_fraction=0.5)
    rate = 2 * 8192**3 / 0.002
    assert got["phase"] == "steady"
    assert (got["median_s"], got["ci95_s"]) == (0.002, [0.0019, 0.0021])
    assert got["flop_per_s"] == rate
    assert got["bytes_per_s"] == 3 * 2 * 8192**2 / 0.002
    assert got["s_per_step"] is None
    assert got["flop_per_clock_per_sm"] == rate / 1.4e9 / 132
    assert got["flop_per_joule"] == rate / 700.0
    assert (got["peak_fraction"], got["clock_peak_fraction"]) == (0.5, None)
    assert got["burst"]["median_s"] == 0.0016
    json.dumps(got, allow_nan=False)


@pytest.mark.usefixtures("stats")
def test_the_clock_read_on_the_device_counts_before_the_drivers():
    """What the driver tells is sampled between the samples too, where the clock is higher."""
    got = summary(full(sample_sm_clock_hz=(1.2e9, None, 1.3e9)))
    assert got["flop_per_clock_per_sm"] == got["flop_per_s"] / 1.3e9 / 132
    got = summary(full(sample_sm_clock_hz=None))
    assert got["flop_per_clock_per_sm"] == got["flop_per_s"] / SEEN.sm_clock_hz / 132


@pytest.mark.usefixtures("stats")
def test_energy_counter_is_preferred_to_power():
    seen = replace(SEEN, energy_j=1200.0, duration_s=2.0)
    got = summary(full(telemetry=seen))
    assert got["flop_per_joule"] == pytest.approx(got["flop_per_s"] / 600.0)


@pytest.mark.usefixtures("stats")
@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"telemetry": None}, {"flop_per_joule"}),
        (
            {"telemetry": None, "sample_sm_clock_hz": None},
            {"flop_per_joule", "flop_per_clock_per_sm"},
        ),
        ({"device": {"name": "x"}}, {"flop_per_clock_per_sm"}),
        (
            {
                "telemetry": replace(SEEN, sm_clock_hz=None),
                "sample_sm_clock_hz": (None, None, None),
            },
            {"flop_per_clock_per_sm"},
        ),
        ({"telemetry": replace(SEEN, power_w=None)}, {"flop_per_joule"}),
        ({"telemetry": replace(SEEN, whole_card=True)}, {"flop_per_joule"}),
        ({"flop": 0}, {"flop_per_s", "flop_per_joule", "flop_per_clock_per_sm"}),
        ({"bytes": 0}, {"bytes_per_s"}),
        ({"burst_s": ()}, {"burst"}),
    ],
)
def test_what_cannot_be_derived_is_none(change, missing):
    always = {"s_per_step", "peak_fraction", "clock_peak_fraction"}
    got = summary(full(**change))
    assert {name for name, value in got.items() if value is None} == always | missing


@pytest.mark.usefixtures("stats")
def test_burst_alone_is_the_headline_and_says_so():
    got = summary(full(times_s=(), sample_sm_clock_hz=None, steps=4))
    assert (got["phase"], got["median_s"], got["burst"]) == ("burst", 0.0016, None)
    assert got["s_per_step"] == 0.0004


TIMES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20)


@given(TIMES)
def test_every_sample_survives_in_order_and_to_the_bit(times):
    result = Result("launch", "cuda", "empty", "fp32", times_s=tuple(times))
    assert Result.from_json(json.loads(json.dumps(result.to_json()))).times_s == tuple(times)


def test_finding_round_trip_and_refusals():
    finding = Finding("hot", "warning", "91 C", "it throttles", "clean the fan")
    assert Finding.from_json(finding.to_json() | {"new": 1}) == finding
    with pytest.raises(ValueError, match="severity"):
        Finding("hot", "fatal", "91 C")
    with pytest.raises(ValueError, match="what was seen"):
        Finding("hot", "info", "")


def test_identifiers_and_times_say_nothing_of_the_machine():
    assert new_run_id() != new_run_id()
    assert now_utc().endswith("Z")


def test_summary_with_our_own_statistics_is_reproducible():
    times = tuple(1e-3 * (1 + (i * 7919 % 101) / 1000) for i in range(101))
    got = summary(full(times_s=times, sample_sm_clock_hz=None))
    low_s, high_s = got["ci95_s"]
    assert low_s <= got["median_s"] == sorted(times)[50] <= high_s
    assert got == summary(full(times_s=times, sample_sm_clock_hz=None))


def test_the_latest_of_a_case_is_that_of_its_own_device():
    first, again = full(), full(times_s=(0.001,), sample_sm_clock_hz=None)
    other = full(device={"name": "NVIDIA L4", "sm_count": 58})
    there = full(environment={"node": "there"})
    assert latest([first, other, again, there]) == [again, other, there]
