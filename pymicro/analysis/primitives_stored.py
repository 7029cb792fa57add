"""The primitives that stored results give: products by exact shape, streams by size, launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pymicro import stats
from pymicro.analysis.primitives import LARGE_SIDE, PATHS
from pymicro.analysis.values import Value
from pymicro.analysis.work import Product
from pymicro.results import Result

# A stream this large no cache holds.
_BEYOND_CACHES = 2**28
# Between runs of one device; the spread of the samples comes on top.
_LEAST = 0.02
# Smaller collectives are mostly their start.
_LARGE_COLLECTIVE = 2**28
# A launch returns this much before its kernel ends, at least.
_SHORTEST_GAP_S = 0.2e-6


@dataclass(frozen=True)
class Stored:
    """What the store knows of a device; None and empty where nothing was measured."""

    flop_per_s: Mapping[str, Value] = field(default_factory=dict)
    clock_share: Mapping[str, Value] = field(default_factory=dict)
    product_s: Mapping[tuple[str, Product], Value] = field(default_factory=dict)
    dram_bytes_per_s: Value | None = None
    l2_bytes_per_s: Value | None = None
    curve_bytes_per_s: tuple[tuple[float, float], ...] = ()
    floor_s: Value | None = None
    gap_s: Value | None = None
    graph_gap_s: Value | None = None
    link_bytes_per_s: Value | None = None
    link_start_s: Value | None = None
    allreduce_bytes_per_s: Mapping[str, Value] = field(default_factory=dict)


def of(results: Iterable[Result]) -> Stored:
    """The primitives in results of one device; later results of a case replace earlier ones."""
    good = [r for r in results if r.outcome == "ok"]
    products = [r for r in good if r.benchmark in ("gemm", "batched") and r.backend == "torch"]
    streams = [r for r in good if r.benchmark == "bandwidth" and r.backend == "torch"]
    copies = [r for r in streams if r.params.get("op") in ("copy", "triad", "add", "scale")]
    chain, graph = (_a_call(good, variants) for variants in (("op", "cpp"), ("graph",)))
    return Stored(
        flop_per_s=dict(_rates(products)),
        clock_share=dict(_clocks(products)),
        product_s={key: value for r in products for key, value in _product(r)},
        dram_bytes_per_s=_dram(copies),
        l2_bytes_per_s=_l2(copies),
        curve_bytes_per_s=_curve(copies),
        gap_s=_gap(chain),
        graph_gap_s=_gap(graph),
        link_bytes_per_s=_link(good),
        link_start_s=_link_start(good),
        allreduce_bytes_per_s=dict(_allreduce(good)),
    )


def _seconds(result: Result) -> Value:
    times = sorted(result.samples_s)
    middle = stats.median(times)
    low, high = times[len(times) // 10], times[-1 - len(times) // 10]
    text = f"stored {result.created_utc[:10]}: {result.benchmark} {result.backend}"
    return Value(
        middle, min(low, middle * (1 - _LEAST)), max(high, middle * (1 + _LEAST)), text, "measured"
    )


def _product(result: Result) -> Iterator[tuple[tuple[str, Product], Value]]:
    p = result.params
    if result.dtype not in PATHS:
        return
    shape = Product(max(p.get("batch", 1), 1), p["m"], p["n"], p["k"], p["layout"])
    yield (result.dtype, shape), _seconds(result)


def _fastest(products: Sequence[Result]) -> dict[str, Result]:
    """By path, the large product with the highest rate."""
    found: dict[str, tuple[float, Result]] = {}
    for r in products:
        if r.dtype in PATHS and min(r.params[x] for x in "mnk") >= LARGE_SIDE:
            rate = r.flop / _seconds(r).value
            if rate > found.get(r.dtype, (0.0, r))[0]:
                found[r.dtype] = (rate, r)
    return {path: found[path][1] for path in PATHS if path in found}


def _rates(products: Sequence[Result]) -> Iterator[tuple[str, Value]]:
    for path, r in _fastest(products).items():
        time = _seconds(r)
        ends = (r.flop / time.value, r.flop / time.high, r.flop / time.low)
        source = f"{time.source}, {'x'.join(str(r.params[x]) for x in 'mnk')}"
        yield path, Value(*ends, source, "measured")


def _clocks(products: Sequence[Result]) -> Iterator[tuple[str, Value]]:
    """Share of the nominal clock at which the rates were reached, by the very same samples.

    Another result's clock would not go with the rate: a burst runs faster than what lasts.
    """
    for path, r in _fastest(products).items():
        clocks = sorted(c for c in r.sample_sm_clock_hz or () if c)
        peak = r.device.get("peak_ops_per_s", {}).get(path)
        per_clk = r.device.get("ops_per_clk", {}).get(path)
        if clocks and peak and per_clk:
            middle, low, high = (
                clock / (peak / per_clk) for clock in (stats.median(clocks), clocks[0], clocks[-1])
            )
            yield path, Value(middle, low, high, "stored: SM clock beside the samples", "measured")


def _dram(copies: Sequence[Result]) -> Value | None:
    large = [r for r in copies if r.bytes >= _BEYOND_CACHES and r.cache == "cold"]
    return _bandwidth(max(large, key=lambda r: r.bytes)) if large else None


def _l2(copies: Sequence[Result]) -> Value | None:
    hot = [r for r in copies if r.cache == "hot"]
    rates = [b for r in hot if (b := _bandwidth(r))]
    best = max(rates, key=lambda v: v.value, default=None)
    dram = _dram(copies)
    return best if best and dram and best.value > 1.2 * dram.value else None


def _bandwidth(result: Result) -> Value:
    time = _seconds(result)
    ends = (result.bytes / time.value, result.bytes / time.high, result.bytes / time.low)
    return Value(*ends, time.source, "measured")


def _curve(copies: Sequence[Result]) -> tuple[tuple[float, float], ...]:
    hot = {float(r.bytes): _bandwidth(r).value for r in copies if r.cache == "hot"}
    return tuple(sorted(hot.items())) if len(hot) >= 4 else ()


def _a_call(results: Sequence[Result], variants: Sequence[str]) -> Value | None:
    """Seconds from one launch to the next while all are queued."""
    for variant in variants:
        for r in results:
            p = r.params
            if (
                (r.benchmark, r.variant) == ("launch", variant)
                and p.get("side") == "device"
                and p.get("call") in ("args3", "args0")
            ):
                return _seconds(r).times(1 / p["calls"])
    return None


def _gap(chain: Value | None) -> Value | None:
    """A launch's period without the kernel in it, which is nearly nothing: half of it at least."""
    if chain is None:
        return None
    half = chain.times(0.5)
    least = max(half.value, _SHORTEST_GAP_S)
    return Value(least, min(half.low, least), max(chain.high, least), chain.source, "measured")


def _link(results: Sequence[Result]) -> Value | None:
    found = [r for r in results if _is_upload(r) and r.params.get("size", 0) >= 2**24]
    return _bandwidth(max(found, key=lambda r: r.params["size"])) if found else None


def _link_start(results: Sequence[Result]) -> Value | None:
    found = [r for r in results if _is_upload(r) and r.params.get("size", 0) <= 2**12]
    return _seconds(min(found, key=lambda r: r.params["size"])) if found else None


def _allreduce(results: Sequence[Result]) -> Iterator[tuple[str, Value]]:
    """Bus bandwidth by kind of link, of the largest all-reduce over as many GPUs as were tried."""
    found: dict[str, list[Result]] = {}
    for r in results:
        p = r.params
        if r.benchmark == "collective" and p.get("op") == "all-reduce" and _is_large(p):
            found.setdefault(p["link"], []).append(r)
    for link, over_it in found.items():
        best = max(over_it, key=lambda r: (r.params["ranks"], r.params["size"]))
        rate = _bandwidth(best).times(best.details["bus_factor"])
        yield link, replace(rate, source=f"{rate.source}, {best.params['ranks']} ranks")


def _is_large(params: Mapping[str, Any]) -> bool:
    """Whether a collective shows the link's rate, and over which one."""
    return params["size"] >= _LARGE_COLLECTIVE and params["link"] in ("nvlink", "pcie")


def _is_upload(r: Result) -> bool:
    wanted = {"path": "h2d", "host": "pinned"}
    return (
        r.benchmark == "transfer" and r.variant == "engine" and wanted.items() <= r.params.items()
    )
