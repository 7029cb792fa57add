"""What follows from a result's samples: medians, intervals and rates. Computed, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymicro.results.record import Result


def summary(
    result: Result,
    *,
    peak_fraction: float | None = None,
    clock_peak_fraction: float | None = None,
) -> dict[str, Any]:
    """The derived values of a result; None where one does not apply or cannot be known.

    The shares of the peak need the catalogue and come from `analysis`. `flop_per_joule` takes
    the energy counter over the window of the telemetry, else the mean power, and assumes that
    the calls filled that window. A result that is not ok has no summary: an empty dict.
    """
    if result.outcome != "ok":
        return {}
    values = {"phase": result.phase, **_rates(result, result.samples_s)}
    values["flop_per_clock_per_sm"] = _per_clock(result, values["flop_per_s"])
    values["flop_per_joule"] = _per_joule(result, values["flop_per_s"])
    values["peak_fraction"] = peak_fraction
    values["clock_peak_fraction"] = clock_peak_fraction
    both = result.times_s and result.burst_s
    values["burst"] = _rates(result, result.burst_s) if both else None
    return values


def _rates(result: Result, samples_s: Sequence[float]) -> dict[str, Any]:
    from pymicro import stats

    median_s = float(stats.median(samples_s))
    low_s, high_s = stats.bootstrap_ci(samples_s)
    return {
        "median_s": median_s,
        "ci95_s": [float(low_s), float(high_s)],
        "flop_per_s": result.flop / median_s if result.flop else None,
        "bytes_per_s": result.bytes / median_s if result.bytes else None,
        "s_per_step": median_s / result.steps if result.steps else None,
    }


def _per_clock(result: Result, flop_per_s: float | None) -> float | None:
    """At the clock read on the device beside each sample; else at what the driver told, which
    also counts the pauses between samples."""
    from pymicro import stats

    read = [clock for clock in result.sample_sm_clock_hz or () if clock]
    told = result.telemetry and result.telemetry.sm_clock_hz
    clock_hz = stats.median(read) if read else told
    sm_count = result.params.get("sms") or result.device.get("sm_count")
    if not (flop_per_s and clock_hz and sm_count):
        return None
    return flop_per_s / clock_hz / sm_count


def _per_joule(result: Result, flop_per_s: float | None) -> float | None:
    seen = result.telemetry
    # A partition's power cannot be told from that of the others on its card.
    if not flop_per_s or seen is None or seen.whole_card:
        return None
    if seen.energy_j and seen.duration_s:
        return flop_per_s * seen.duration_s / seen.energy_j
    return flop_per_s / seen.power_w if seen.power_w else None
