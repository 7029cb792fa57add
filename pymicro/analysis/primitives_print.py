"""Primitives from print: what others published of a card, else its paper figure times a share.

The share of its paper peak that a card reaches is taken from cards of the same generation, or
from all, whose figures are in print; it is nobody's guess, and its spread is the interval.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

from pymicro import stats
from pymicro.analysis.assumed import figure, number
from pymicro.analysis.primitives import LARGE_SIDE, PATHS
from pymicro.analysis.values import Value, of_several, spread
from pymicro.devices.catalogue import catalogue
from pymicro.devices.cpu import CpuSpec
from pymicro.devices.peaks import Spec, peak_ops_per_s
from pymicro.devices.published import Published, published
from pymicro.devices.spec import DeviceSpec
from pymicro.devices.traps import spoilt
from pymicro.dtypes import DTYPES
from pymicro.workloads.precisions import runs_on_matrix_units

_COPIES = ("dram_memcpy_gbps", "dram_copy_gbps", "dram_read_gbps", "dram_scale_gbps",
           "dram_add_gbps", "dram_triad_gbps")  # fmt: skip
# Formats that run on the same units.
_MATRIX = tuple(path for path in PATHS if runs_on_matrix_units(path))
_KIN = {path: tuple(p for p in _MATRIX if p != path) for path in _MATRIX}
_NOT_THE_LIBRARY = ("hand-written", "own kernel", "cutlass", "user report")


# Products -------------------------------------------------------------------------------------


def rate(spec: Spec, path: str, peak: float) -> Value:
    own = _rates_in_print().get((spec.key, path), {})
    if own:
        ids = ", ".join(own)
        return of_several(own.values(), f"published: {ids}", "published", number("own_spread"))
    shares, whose = _shares(spec, path)
    if not shares:
        return figure("rate_share", peak)
    share = stats.median(sorted(shares))
    low, high = min(shares), max(shares)
    text = f"data sheet x {share:.2f}, {whose}"
    return Value(peak * share, peak * low, peak * high, text, "datasheet")


def _shares(spec: Spec, path: str) -> tuple[list[float], str]:
    """Shares of the paper peak that a card may reach on a path of which nothing is in print.

    Formats of one unit share its power and its clock: what the card reaches in one of them tells
    more of another than other cards do. Else cards of the same generation are taken, or all.
    """
    known = _shares_in_print()
    own = [s for other in _KIN.get(path, ()) if (s := known.get((spec.key, other)))]
    both = [
        share / of_kin
        for (key, of_path), share in known.items()
        for other in _KIN.get(path, ())
        if of_path == path and (of_kin := known.get((key, other)))
    ]
    if own and both:
        middle = stats.median(sorted(own))
        text = "its own share in kindred formats, as on cards with both in print"
        return [middle * ratio for ratio in both], text
    capability = getattr(spec, "capability", None)
    everywhere = {key: share for (key, of_path), share in known.items() if of_path == path}
    near = [s for key, s in everywhere.items() if catalogue()[key].capability == capability]
    if near:
        return near, "the median of its generation in print"
    return list(everywhere.values()), "the median of all cards in print"


@functools.cache
def _shares_in_print() -> Mapping[tuple[str, str], float]:
    """By card and path: the share of its paper peak that a card reaches in print."""
    return {
        (key, path): stats.median(sorted(figures.values())) / peak
        for (key, path), figures in _rates_in_print().items()
        if (spec := catalogue().get(key)) and (peak := peak_ops_per_s(spec, DTYPES[path]))
    }


@functools.cache
def _rates_in_print() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """By card and path: each source's best-supported figure of a large product."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in published():
        if row.metric.name == "gemm_tflops" and row.key and row.dtype in PATHS and _is_large(row):
            own = found.setdefault((row.key, row.dtype), {})
            own.setdefault(row.source.id, []).append(row.value)
    return {
        card: {source: stats.median(sorted(values)) for source, values in own.items()}
        for card, own in found.items()
    }


def _is_large(row: Published) -> bool:
    """A whole product of the library, large enough, at the card's own power and no user's slip."""
    spec = catalogue().get(row.key or "")
    if spoilt(row, spec) or row.accumulate == "fp16" or row.fill == "zeros":
        return False
    if row.power_limit_w and spec and spec.tdp_w and row.power_limit_w < 0.95 * spec.tdp_w:
        return False
    if any(word in row.method.lower() for word in _NOT_THE_LIBRARY):
        return False
    if row.size.startswith(("best", "plateau")):
        return "shapes" not in row.size
    sides = row.size.split("x")
    return len(sides) == 3 and all(s.isdecimal() and int(s) >= LARGE_SIDE for s in sides)


# Memory ---------------------------------------------------------------------------------------


def dram(spec: Spec) -> Value:
    paper = spec.memory_bytes_per_s
    assert paper
    own = _copies_in_print().get(spec.key, {})
    if own:
        return of_several(
            own.values(), f"published: {', '.join(own)}", "published", number("own_spread")
        )
    shares = [
        stats.median(sorted(figures.values())) / other.memory_bytes_per_s
        for key, figures in _copies_in_print().items()
        if (other := catalogue().get(key)) and other.memory_bytes_per_s
    ]
    share = stats.median(sorted(shares))
    text = f"data sheet x {share:.2f}, the median of all cards in print"
    return Value(paper * share, paper * min(shares), paper * max(shares), text, "datasheet")


@functools.cache
def _copies_in_print() -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for row in published():
        spec = catalogue().get(row.key or "")
        if row.metric.name not in _COPIES or spec is None or spoilt(row, spec):
            continue
        share = row.value / spec.memory_bytes_per_s if spec.memory_bytes_per_s else 0.0
        if number("least_copy_share") < share <= 1:
            found.setdefault(spec.key, {}).setdefault(row.source.id, []).append(row.value)
    return {k: {s: stats.median(sorted(v)) for s, v in own.items()} for k, own in found.items()}


def l2(spec: Spec, dram: Value) -> Value:
    if own := _own(spec, "l2_read_gbps", "l2_spread"):
        return own
    if isinstance(spec, CpuSpec):
        return dram.times(number("cpu_cache_times"))
    # Bytes a clock and SM of all cards in print; the bus of an SM is 64 bytes wide.
    each = [
        r.value / (other.sm_count * other.boost_clock_hz)
        for r in published()
        if r.metric.name == "l2_read_gbps"
        and r.key
        and (other := catalogue().get(r.key))
        and other.sm_count
        and other.boost_clock_hz
    ]
    middle = stats.median(sorted(each))
    ours = (spec.sm_count or 1) * (spec.boost_clock_hz or 1e9)
    text = f"{middle:.0f} bytes a clock and SM, the median of all cards in print"
    return Value(ours * middle, ours * min(each), ours * max(each), text, "datasheet")


def _own(spec: Spec, metric: str, spread_of: str) -> Value | None:
    """What is in print of this very card; None if nothing is."""
    values = {
        r.source.id: r.value for r in _rows(metric) if r.key is not None and r.key == spec.key
    }
    if not values:
        return None
    text = f"published: {', '.join(values)}"
    return of_several(values.values(), text, "published", number(spread_of))


# Small costs and links ------------------------------------------------------------------------


def floor() -> Value:
    """The shortest kernel."""
    return _of_others(_rows("null_kernel_us"), "kernel_spread")


def gap() -> Value:
    """One more kernel in a busy stream, less the kernel itself."""
    half_s = floor().value / 2
    rows = (r for r in _rows("launch_us") if "extra kernel" in r.size)
    least_s = number("least_gap_s")
    return _of_others(rows, "launch_spread", lambda seconds: max(seconds - half_s, least_s))


def reach() -> Value:
    """From the call to the kernel's start, as profilers of several cards saw it."""
    return _of_others((r for r in _rows("launch_us") if r.size == "null kernel"), "launch_spread")


def graph_gap() -> Value:
    """One more node in a graph, less its kernel."""
    node_s, least_s = number("node_kernel_s"), number("least_node_gap_s")
    rows = _rows("graph_node_us")
    return _of_others(rows, "graph_spread", lambda seconds: max(seconds - node_s, least_s))


def _rows(metric: str) -> Iterator[Published]:
    return (r for r in published() if r.metric.name == metric)


def _of_others(
    rows: Iterable[Published], spread_of: str, cost: Callable[[float], float] = lambda s: s
) -> Value:
    """What figures of whichever cards say; `cost` is made of each."""
    found = list(rows)
    ids = ", ".join(dict.fromkeys(r.source.id for r in found))
    costs = [cost(r.value) for r in found]
    return of_several(costs, f"published, other cards: {ids}", "published", number(spread_of))


def link(spec: Spec) -> Value:
    if own := _own(spec, "h2d_gbps", "own_spread"):
        return own
    paper = getattr(spec, "pcie_bytes_per_s", None)
    if not paper:
        return figure("link_bytes_per_s")
    shares = _links_in_print()
    share = stats.median(sorted(shares))
    text = f"data sheet x {share:.2f}, the median of cards in print"
    return Value(paper * share, paper * min(shares), paper * max(shares), text, "datasheet")


@functools.cache
def _links_in_print() -> tuple[float, ...]:
    """By card: the share of PCI Express on paper that copies from the host reach in print."""
    found: dict[str, list[float]] = {}
    for row in published():
        spec = catalogue().get(row.key or "")
        if row.metric.name == "h2d_gbps" and spec and spec.pcie_bytes_per_s:
            share = row.value / spec.pcie_bytes_per_s
            if share <= 1:  # More comes over another link.
                found.setdefault(spec.key, []).append(share)
    return tuple(stats.median(sorted(shares)) for shares in found.values())


def link_start() -> Value:
    """From the call of a small copy until its byte is there; nobody's figures are in print yet."""
    return figure("link_start_s")


def allreduce(spec: Spec) -> Iterator[tuple[str, Value]]:
    """Bus bandwidth over NVLink and over PCI Express for large messages."""
    large = [
        r
        for r in published()
        if r.metric.name == "allreduce_busbw_gbps"
        and r.size.startswith(("1 GiB", "4 GiB", "8 GiB", "16 GiB", "8 GB"))
    ]
    own = [r for r in large if r.key == spec.key]
    has_nvlink = bool(getattr(spec, "nvlink_bytes_per_s", 0))
    if own:
        kind = "nvlink" if has_nvlink else "pcie"
        ids = ", ".join(dict.fromkeys(r.source.id for r in own))
        yield (
            kind,
            of_several(
                [r.value for r in own], f"published: {ids}", "published", number("allreduce_spread")
            ),
        )
    elif has_nvlink and isinstance(spec, DeviceSpec):
        shares = [
            r.value / (other.nvlink_bytes_per_s / 2)
            for r in large
            if (other := catalogue().get(r.key or "")) and other.nvlink_bytes_per_s
        ]
        share, one_way = stats.median(sorted(shares)), (spec.nvlink_bytes_per_s or 0) / 2
        text = f"data sheet x {share:.2f}, the median of cards in print"
        yield (
            "nvlink",
            Value(one_way * share, one_way * min(shares), one_way * max(shares), text, "datasheet"),
        )
    if not own or has_nvlink:
        paper = getattr(spec, "pcie_bytes_per_s", None) or 0.0
        shares = [
            r.value / (other.pcie_bytes_per_s or 1)
            for r in large
            if (other := catalogue().get(r.key or "")) and not other.nvlink_bytes_per_s
        ]
        if paper and shares:
            share = stats.median(sorted(shares))
            text = f"data sheet x {share:.2f}, cards without NVLink in print"
            yield "pcie", spread(paper * share, number("pcie_allreduce_spread"), text, "datasheet")
