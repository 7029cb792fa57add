"""A result as plain data with its derived figures under `summary`: what JSON and CSV write."""

from __future__ import annotations

from typing import Any

from pymicro.analysis.verdict import judge
from pymicro.results import Result, summary


def record(result: Result) -> dict[str, Any]:
    """All fields of a result, and `summary` if it is ok."""
    full = result.to_json()
    if result.outcome == "ok":
        verdict = judge(result)
        full["summary"] = summary(result) | {
            "rate_kind": verdict.rates[0].kind,
            "peak_fraction": verdict.peak_fraction,
            "clock_peak_fraction": verdict.clock_peak_fraction,
            "ceiling_fraction": verdict.ceiling_fraction,
            "sm_clock_hz": verdict.sm_clock_hz,
            "power_w": verdict.power_w,
            "limit": verdict.limit,
        }
    return full
