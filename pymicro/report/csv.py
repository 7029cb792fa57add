"""Comma-separated values, one line a result, in SI units without prefixes."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pymicro.report.records import record
from pymicro.results import Finding, Result

_COLUMNS = (
    "benchmark", "backend", "variant", "dtype", "params", "outcome", "reason", "cache", "fill",
    "rate_kind", "median_s", "ci95_low_s", "ci95_high_s", "flop_per_s", "bytes_per_s",
    "peak_fraction", "clock_peak_fraction", "ceiling_fraction", "sm_clock_hz", "power_w", "limit",
    "error", "tolerance", "samples",
)  # fmt: skip


def render(results: Sequence[Result], findings: Sequence[Finding]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(record(result)) for result in results)
    return out.getvalue()


def _flat(full: dict) -> dict:
    summary, verified = full.get("summary") or {}, full.get("verified") or {}
    low, high = summary.get("ci95_s") or (None, None)
    params = " ".join(f"{k}={v}" for k, v in full["params"].items())
    own = {"params": params, "ci95_low_s": low, "ci95_high_s": high}
    own |= {"error": verified.get("error"), "tolerance": verified.get("tolerance")}
    own["samples"] = len(full["times_s"] or full["burst_s"])
    return {k: v for k, v in (full | summary | own).items() if v is not None}
