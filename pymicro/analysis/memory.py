"""What is said under tables of bandwidth and latency: the levels that a sweep found, whether they
agree with the device's row, and why memory is slower than it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pymicro import stats
from pymicro.analysis.levels import Agreement, Level, agreements
from pymicro.analysis.sweeps import Curve, best_of, curves
from pymicro.analysis.verdict import is_from_memory, judge
from pymicro.results import Finding, Result
from pymicro.units import binary_bytes, percent, si

# What streams of long arrays reach of the bus: published copies and triads 0.83 to 0.93, reads
# 0.87 to 0.98 (data/published.csv, `dram_*`, the best row of each card).
_REACHABLE = 0.90
_SLOW = 0.85
# A call as short as this is in part its launch, and the arrays may fit a cache.
_SHORT_S = 100e-6
_CLOCK_LOW = 0.98
_LINE_BYTES, _LONGEST_LINE_BYTES = 128, 256


def latency_findings(results: Sequence[Result]) -> list[Finding]:
    """The levels of each sweep, where they disagree with the caches of the device's row, and how
    far the partitions of L2 are."""
    said = [finding for curve in curves(results) for finding in _of_sweep(curve)]
    return [*said, *_partitions(results)]


def bandwidth_findings(results: Sequence[Result]) -> list[Finding]:
    """The levels of each operation's sweep, then memory that is slower than it should be."""
    said = [finding for curve in best_of(curves(results)) for finding in _of_sweep(curve)]
    return [*said, *_slow(results)]


def _partitions(results: Sequence[Result]) -> Iterator[Finding]:
    """L2 lies in parts on large chips, and an SM is nearer to one than to the other."""
    probed = [r for r in results if r.outcome == "ok" and "l2_cycles" in r.details]
    if not probed:
        return
    seen = {k: v for k, v in probed[0].details.items() if k.endswith("_cycles")}
    text = (
        f"L2 hits take {seen['l2_cycles']:.0f} cycles, {seen['l2_least_cycles']:.0f} to "
        f"{seen['l2_most_cycles']:.0f} from SM to SM"
    )
    if "l2_other_part_cycles" in seen:
        text += (
            f"; {seen['l2_other_part_cycles']:.0f} where only the other part of L2 has the line. "
            f"Memory takes {seen['memory_near_cycles']:.0f} cycles behind an SM's own part and "
            f"{seen['memory_far_cycles']:.0f} behind the other"
        )
    yield Finding("latency-l2-partitions", "info", f"{text}.")


def _of_sweep(curve: Curve) -> Iterator[Finding]:
    found = curve.levels
    if not found:
        return
    clock = judge(curve.results[0]).sm_clock_hz
    name = curve.results[0].benchmark
    texts = [_level(curve, level, clock) for level in found]
    yield Finding(f"{name}-levels", "info", f"{curve.label}: {'; '.join(texts)}.")
    if curve.is_of_pages:
        yield from _translations(curve, found)
    told = agreements(found, _caches(curve))
    if told and all(agreement.ends is None for agreement in told):
        yield Finding(
            f"{name}-cache",
            "info",
            f"{curve.label}: the sweep shows no end of a level.",
            do="take more sizes, or sizes closer together.",
        )
        return
    for agreement in told:
        yield _agreement(name, curve, agreement)


def _translations(curve: Curve, found: Sequence[Level]) -> Iterator[Finding]:
    """Where a load begins to wait for its page's translation, of places that all fit L2."""
    if len(found) < 2:
        return
    before, after = found[:2]
    first = curve.results[0]
    l2_bytes = max((first.device.get("caches") or {}).values(), default=0)
    if after.first_bytes // first.params["stride"] * _LINE_BYTES > l2_bytes / 2:
        return
    yield Finding(
        "latency-translations",
        "info",
        f"{curve.label}: translations of {binary_bytes(before.last_bytes)} are at hand; from "
        f"{binary_bytes(after.first_bytes)} on a load takes "
        f"{si(after.seconds - before.seconds, 's')} longer.",
    )


def _caches(curve: Curve) -> dict[str, int]:
    """Caches whose end a sweep may show: of a chase in memory all; of streams that every core or
    SM takes part in, the one that all share."""
    first = curve.results[0]
    known = dict(first.device.get("caches") or {})
    if first.params.get("where", "memory") != "memory":
        return {}
    if first.benchmark == "latency" and first.params.get("stride", 0) > _LONGEST_LINE_BYTES:
        return {}  # Places further apart than lines: pages are what counts.
    if first.params.get("step", "load") == "atomic":
        known.pop("L1", None)  # Atomics are done in L2.
    if first.benchmark == "bandwidth":
        known = dict(list(known.items())[-1:])
    return known


def _level(curve: Curve, level: Level, clock_hz: float | None) -> str:
    if curve.unit == "B/s":
        cost = si(1 / level.seconds, "B/s")
    else:
        cost = si(level.seconds, "s")
        if clock_hz:
            cost += f" ({level.seconds * clock_hz:.1f} cycles)"
    return f"{cost} from {binary_bytes(level.first_bytes)} to {binary_bytes(level.last_bytes)}"


def _agreement(name: str, curve: Curve, told: Agreement) -> Finding:
    cache = f"{told.name} of {binary_bytes(told.known_bytes)}"
    assert told.ends is not None
    low, high = map(binary_bytes, told.ends)
    if told.agrees:
        return Finding(
            f"{name}-cache",
            "info",
            f"{curve.label}: {cache} agrees: a level ends between {low} and {high}.",
        )
    return Finding(
        f"{name}-cache-differs",
        "warning",
        f"{curve.label}: {cache} does not show: the nearest level ends between {low} and {high}.",
        "work that should fit this cache may not.",
        "others may share it, pages may be small, or the device's row is wrong.",
    )


# --- slower than it should be ---------------------------------------------------------------------


def _slow(results: Sequence[Result]) -> list[Finding]:
    """For each operation the fastest result from memory, if it is below what should be reached."""
    best: dict[str, tuple[float, Result]] = {}
    for r in results:
        peak = r.device.get("memory_bytes_per_s")
        plain = r.params.get("access", "sequential") == "sequential"
        if r.outcome == "ok" and peak and plain and is_from_memory(r):
            fraction = judge(r).rates[0].value / peak
            if fraction > best.get(r.params["op"], (0.0, r))[0]:
                best[r.params["op"]] = (fraction, r)
    limit = _SLOW * _REACHABLE
    return [_slow_finding(op, f, r) for op, (f, r) in best.items() if f < limit]


def _slow_finding(op: str, fraction: float, r: Result) -> Finding:
    causes = [said for look in _CAUSES if (said := look(r)) is not None]
    return Finding(
        "bandwidth-slow",
        "warning",
        f"{op}: {percent(fraction)} of the bus, where {percent(_REACHABLE)} is usual."
        + (f" Seen: {'; '.join(causes)}." if causes else " No cause was seen."),
        "everything that waits for memory is as much slower.",
        ""
        if causes
        else "compare `pymicro bandwidth --backend all`; run `pymicro doctor`; try larger arrays.",
    )


def _memory_clock(r: Result) -> str | None:
    now = r.telemetry.memory_clock_hz if r.telemetry else None
    most = _gpu(r).get("max_memory_clock_hz")
    if now and most and now < _CLOCK_LOW * most:
        return f"the memory clock was {si(now, 'Hz')} of {si(most, 'Hz')}"
    return None


def _limits(r: Result) -> str | None:
    limits = (r.telemetry.limits if r.telemetry else None) or ()
    words = {"power_cap": "a power cap", "thermal": "a thermal slowdown"}
    named = [words.get(name, name.replace("_", " ")) for name in limits]
    return f"{' and '.join(named)} held the clock down" if named else None


def _ecc(r: Result) -> str | None:
    """ECC of GDDR lives in the same chips and takes part of their bandwidth; HBM has room of its
    own for it."""
    kind = str(r.device.get("memory_type") or "")
    if _gpu(r).get("is_ecc_enabled") and kind.startswith("GDDR"):
        return f"ECC is on, and {kind} keeps its bits in the same chips"
    return None


def _size(r: Result) -> str | None:
    cache = max((r.device.get("caches") or {}).values(), default=0)
    if stats.median(r.samples_s) < _SHORT_S:
        return f"a call took only {si(stats.median(r.samples_s), 's')}, part of it the launch"
    if cache and r.params["size"] < 2 * cache:
        return f"arrays of {binary_bytes(r.params['size'])} fit the cache in part"
    return None


def _others(r: Result) -> str | None:
    count = _gpu(r).get("other_processes")
    return f"{count} other process(es) on the GPU" if count else None


def _slice(r: Result) -> str | None:
    facts = _gpu(r)
    if facts.get("is_mig_partition"):
        return "this is a MIG partition, with part of the card's memory bus"
    if str(facts.get("virtualization") or "none") not in ("none", "passthrough"):
        return f"this is a slice of a card ({facts['virtualization']})"
    return None


def _few_sms(r: Result) -> str | None:
    sms, all_sms = r.params.get("sms"), r.device.get("sm_count")
    return f"only {sms} of {all_sms} SMs took part" if sms and all_sms and sms < all_sms else None


_CAUSES: tuple[Callable[[Result], str | None], ...] = (
    _memory_clock, _limits, _ecc, _size, _others, _slice, _few_sms,
)  # fmt: skip


def _gpu(r: Result) -> dict:
    return dict(r.environment.get("gpu") or {})
