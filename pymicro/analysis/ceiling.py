"""The power-limited ceiling: what arithmetic units kept up under lasting load, from stored probes.

A card at its power limit reaches neither its data sheet nor the peak of its clock: the clock is
what the energy of each operation leaves. The probes of `pymicro peak` show that without a product's
bookkeeping. Where operands that arrive as a product's do (`issue.FEEDS`) were measured, those
count; else the issue alone, which no product reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pymicro import stats
from pymicro.analysis.environments import at
from pymicro.issue import FEEDS, PROBES
from pymicro.results import Finding, Result

_FROM_MEMORY = tuple(unit for unit, feed in FEEDS.items() if feed.panels > 1)


def stored(
    results: Iterable[Result], device: Mapping[str, Any], environment: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """By format: the best rate of a probe on this kind of device at this power limit, which probe
    and which run it was, and whether its operands were fed."""
    found: dict[str, dict[str, Any]] = {}
    for result in results:
        if not _counts(result, device, environment):
            continue
        unit = result.params["unit"]
        best = {
            "flop_per_s": result.flop / stats.median(result.times_s),
            "unit": unit,
            "is_fed": unit in _FROM_MEMORY,
            "run_id": result.run_id,
        }
        before = found.get(result.dtype)
        if before is None or _rank(best) > _rank(before):
            found[result.dtype] = best
    return found


def _rank(row: Mapping[str, Any]) -> tuple[bool, float]:
    return row["is_fed"], row["flop_per_s"]


def _counts(result: Result, device: Mapping[str, Any], environment: Mapping[str, Any]) -> bool:
    """Whether a probe ran on such a device, all of it, under lasting load, on ordinary numbers.

    Operands in the second-level cache alone are what no large product has.
    """
    if result.benchmark != "peak" or result.outcome != "ok" or not result.times_s:
        return False
    if device.get("kind") != "cuda" or result.device.get("name") != device.get("name"):
        return False
    limits = [at(e, ("gpu", "power_limit_w")) for e in (result.environment, environment)]
    whole = result.params.get("sms") == result.device.get("sm_count")
    other = result.params["unit"] in FEEDS and result.params["unit"] not in _FROM_MEMORY
    return whole and not other and result.fill == "normal" and limits[0] == limits[1]


def of(result: Result) -> float | None:
    """The ceiling that was kept with a product, in operations a second."""
    kept = (result.device.get("ceilings") or {}).get(result.dtype)
    return kept["flop_per_s"] if kept and result.benchmark == "gemm" else None


def findings(results: Sequence[Result]) -> list[Finding]:
    """Which ceiling a product was held against, or how to measure it."""
    said: dict[str, Finding] = {}
    for result in results:
        if result.outcome == "ok" and result.device.get("kind") == "cuda" and result.times_s:
            said.setdefault(result.dtype, _finding(result))
    return list(said.values())


def _finding(result: Result) -> Finding:
    dtype = result.dtype
    kept = (result.device.get("ceilings") or {}).get(dtype)
    if kept is None:
        fed = [u for u in _FROM_MEMORY if (u, dtype) in PROBES and _has_wgmma(result)]
        unit = f" --unit {','.join(fed)}" if fed else ""
        return Finding(
            "gemm-no-ceiling",
            "info",
            f"{dtype}: what this device's power allows is not known.",
            do=f"`pymicro peak --dtype {dtype}{unit}` measures it, for this command to print.",
        )
    how = "operands moved as a product's" if kept["is_fed"] else "issue alone, no operands moved"
    rate = kept["flop_per_s"] / 1e12
    return Finding(
        "gemm-ceiling",
        "info",
        f"{dtype}: of ceiling is of {rate:.1f} T{'' if dtype.startswith('int') else 'FL'}OP/s, "
        f"what {kept['unit']} kept up here ({how}; run {kept['run_id']}).",
    )


def _has_wgmma(result: Result) -> bool:
    return result.device.get("capability") == "9.0"
