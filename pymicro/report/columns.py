"""The columns of a table of results: a title and a function each. A column is a row here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymicro import stats
from pymicro.analysis.collectives import bus_bytes_per_s
from pymicro.analysis.launches import is_noisy, noisy_runs, spread_of
from pymicro.analysis.verdict import Rate, Verdict, judge
from pymicro.dtypes import rate_unit
from pymicro.results import Result, summary
from pymicro.units import binary_bytes, percent, si

# Copies up to here say what a copy costs, not how fast the link is.
_LATENCY_BYTES = 4096
# Fewer samples bound nothing: their interval would be a claim that nobody checked.
_FEWEST_FOR_INTERVAL = 3
# One side of an interval over the other from which half its width would mislead.
_LOPSIDED = 2
# An interval that reaches no farther, relative, is short to either side.
_LITTLE = 0.01


@dataclass(frozen=True)
class Row:
    """A result, its verdict (None unless ok), the vendor's result on the same problem, and whether
    its run had a noisy host."""

    result: Result
    verdict: Verdict | None
    vendor: Result | None
    is_noisy: bool = False


@dataclass(frozen=True)
class Column:
    title: str
    text: Callable[[Row], str]
    is_number: bool = True
    # On a screen too narrow, columns with a rank leave, the lowest first; `once` may leave where
    # all rows agree.
    leaves: int | None = None
    once: bool = False


def rows(results: Sequence[Result]) -> list[Row]:
    """One row a result, with the yardstick of its problem: the fastest vendor library, among
    those that took turns under lasting load if any did."""
    vendors: dict[object, Result] = {}
    for result in results:
        if result.details.get("is_vendor") and result.outcome == "ok":
            best = vendors.get(problem(result))
            if best is None or _as_yardstick(result) < _as_yardstick(best):
                vendors[problem(result)] = result
    noisy = noisy_runs(results)
    return [
        Row(
            r,
            judge(r) if r.outcome == "ok" else None,
            vendors.get(problem(r)),
            is_noisy(r, noisy),
        )
        for r in results
    ]


def _as_yardstick(result: Result) -> tuple[bool, float]:
    return not result.times_s, stats.median(result.samples_s)


def problem(result: Result) -> tuple:
    """What two results must share to be compared."""
    shape = tuple((k, v) for k, v in sorted(result.params.items()) if k != "path")
    device = (result.device.get("kind"), result.device.get("name"))
    work = (result.benchmark, result.dtype, shape, result.fill, result.cache)
    return (*work, *device, result.run_id)


def shape(result: Result) -> str:
    """A problem in a few characters, with what is not usual: `8192³`, `4096×768×3072 nn zeros`."""
    unusual = [] if result.fill in ("normal", "") else [result.fill]
    if result.cache != _USUAL_CACHE.get(result.benchmark, result.cache):
        unusual.append(result.cache)
    return " ".join([_size(result), *unusual])


# What the suite measures unless told otherwise; tables say only what differs from it.
_USUAL_CACHE = {"gemm": "hot", "bandwidth": "cold"}


def _size(result: Result) -> str:
    p = result.params
    for names in _SIZES:
        if set(names) <= set(p):
            return "×".join(str(p[name]) for name in names) + " bias" * bool(p.get("has_bias"))
    if not {"m", "n", "k"} <= set(p):
        own = {k: v for k, v in p.items() if k in _SAID and (k, v) not in _UNSAID}
        if not _has_unusual_stride(result):
            own.pop("stride", None)
        return " ".join(_word(k, v) for k, v in own.items())
    cube = p["m"] == p["n"] == p["k"]
    size = f"{p['m']}³" if cube else f"{p['m']}×{p['n']}×{p['k']}"
    if "batch" in p:
        size = f"{p['batch']} of {size}"
    size = size if p.get("layout", "nt") == "nt" else f"{size} {p['layout']}"
    return f"{size} {p['flag']}" if "flag" in p else size


# What readiness measures beside products: an attention, a block of two layers.
_SIZES = (("batch", "heads", "queries", "keys", "width"), ("rows", "width", "inner"))


def _has_unusual_stride(result: Result) -> bool:
    """Whether a stride tells a row: of a chase not that of a cache line, of a stream a real one."""
    p = result.params
    if result.benchmark != "latency":
        return p.get("access") == "strided"
    line = 128 if result.device.get("kind") == "cuda" else 64
    return p.get("stride") != line and p.get("where") not in ("shared", "dsmem")


# Parameters of memory benchmarks that tell rows apart, and their ordinary values.
_SAID = (
    "unit", "op", "size", "stride", "level", "access", "where", "step", "pages",
    "call", "side", "path", "pair", "host", "node",
    "ranks", "link", "model", "batch", "length", "output", "beams",
)  # fmt: skip
_UNSAID = (
    ("level", "memory"),
    ("access", "sequential"),
    ("where", "memory"),
    ("step", "load"),
    ("side", "host"),
    ("output", 0),
    ("beams", 1),
)
# Bare numbers of these would not say what they count.
_NAMED = ("stride", "node", "ranks", "batch", "length", "output", "beams")


def _word(name: str, value: Any) -> str:
    if name in _NAMED:
        return f"{name} {value}"
    return binary_bytes(value) if name == "size" else str(value)


def unit(result: Result) -> str:
    if not (result.flop or result.bytes) or (result.steps and not result.bytes):
        return "s"
    if not result.flop:
        return "B/s"
    return rate_unit(result.dtype)


def with_interval(result: Result, rate: Rate | None) -> str:
    """`655.2 TFLOP/s ±0.4 %`: half the width of the 95 % interval, relative; of one that reaches
    much farther to one side, both ends."""
    if rate is None:
        return ""
    if rate.samples < _FEWEST_FOR_INTERVAL:
        return f"{si(rate.value, unit(result))} ({rate.samples} sample)"
    above, below = rate.high - rate.value, rate.value - rate.low
    farther = max(above, below)
    if farther > _LOPSIDED * min(above, below) and farther > _LITTLE * rate.value:
        low, high = (si(end, unit(result)) for end in (rate.low, rate.high))
        return f"{si(rate.value, unit(result))} ({low} to {high})"
    return f"{si(rate.value, unit(result))} ±{100 * (above + below) / 2 / rate.value:.1f} %"


def with_spread(row: Row) -> str:
    """Seconds of what is latency more than rate, and how far its samples lie apart: `2.510 µs
    ±1 %`; of a launch only the latter."""
    result = row.result
    if row.verdict is None:
        return ""
    if result.benchmark == "launch":
        noisy = " noisy host" if row.is_noisy else ""
        return f"±{100 * spread_of(result):.1f} %{noisy}"
    is_copy = result.benchmark in ("transfer", "collective")
    if not is_copy or result.params["size"] > _LATENCY_BYTES:
        return ""
    seconds = stats.median(result.samples_s)
    return f"{si(seconds, 's')} ±{100 * spread_of(result):.1f} %"


def _bus(row: Row) -> str:
    """Of a collective, what each rank's link carries."""
    if row.verdict is None or row.result.benchmark != "collective":
        return ""
    return si(bus_bytes_per_s(row.result), "B/s")


def _rate(row: Row, *kinds: str) -> Rate | None:
    rates = row.verdict.rates if row.verdict else ()
    return next((r for r in rates if r.kind in kinds), None)


def against_vendor(row: Row) -> str:
    """Speed over the vendor's: from pairs of turns where both took turns, else from medians."""
    if row.verdict is None or row.vendor is None or row.vendor is row.result:
        return "yardstick" if row.vendor is row.result and row.verdict else ""
    ours, theirs = (x.details.get("block_means_s") for x in (row.result, row.vendor))
    pairs = [(a, b) for a, b in zip(ours or (), theirs or (), strict=False) if a and b]
    if pairs:
        ratio, low, high = stats.paired_ratio(*map(list, zip(*pairs, strict=True)))
        return f"{ratio:.3f} ({low:.3f}-{high:.3f})"
    a, b = (x.burst_s or x.times_s for x in (row.result, row.vendor))
    return f"{stats.median(b) / stats.median(a):.2f}" if a and b else ""


# Beside a rate that is a burst's, where the column of bursts has no room.
BURST_MARK = "*"


def bursts(row: Row) -> str:
    """The burst of a row, marked as one."""
    text = with_interval(row.result, _rate(row, "burst"))
    return text and text + BURST_MARK


def _percent(value: float | None) -> str:
    return percent(value) if value is not None else ""


def _threads(row: Row) -> str:
    return str(row.result.params.get("threads", ""))


def _of_peak_probe(row: Row, key: str, scale: float) -> str:
    """A derived value of a probe of pure issue; other benchmarks keep it to their JSON."""
    if row.result.benchmark != "peak" or row.verdict is None:
        return ""
    value = summary(row.result)[key]
    return f"{value * scale:.4g}" if value else ""


def title(column: Column, table: Sequence[Row]) -> str:
    """Its title over these rows: a chase has no rate but the time of a step."""
    is_time = column.title == "rate" and all(r.result.benchmark == "latency" for r in table)
    return "time" if is_time and table else column.title


COLUMNS = (
    Column("backend", lambda r: r.result.backend, is_number=False),
    Column(
        "variant", lambda r: r.result.details.get("kernel") or r.result.variant, is_number=False
    ),
    Column("dtype", lambda r: r.result.dtype, is_number=False, once=True),
    Column("problem", lambda r: shape(r.result), is_number=False, once=True),
    Column("threads", _threads, once=True),
    Column("rate", lambda r: with_interval(r.result, _rate(r, "sustained", "steady"))),
    Column("bus bandwidth", _bus),
    Column("spread", with_spread, leaves=8),
    Column("burst", lambda r: with_interval(r.result, _rate(r, "burst")), leaves=3),
    Column(
        "of peak",
        lambda r: _percent(r.verdict.peak_fraction if r.verdict else None),
        leaves=5,
    ),
    Column(
        "at clock",
        lambda r: _percent(r.verdict.clock_peak_fraction if r.verdict else None),
        leaves=6,
    ),
    Column(
        "of ceiling",
        lambda r: _percent(r.verdict.ceiling_fraction if r.verdict else None),
        leaves=9,
    ),
    Column(
        "SM clock",
        lambda r: si(r.verdict.sm_clock_hz, "Hz") if r.verdict and r.verdict.sm_clock_hz else "",
        leaves=2,
    ),
    Column(
        "power",
        lambda r: f"{r.verdict.power_w:.0f} W" if r.verdict and r.verdict.power_w else "",
        leaves=1,
    ),
    Column("FLOP/clk/SM", lambda r: _of_peak_probe(r, "flop_per_clock_per_sm", 1.0)),
    Column("TFLOP/J", lambda r: _of_peak_probe(r, "flop_per_joule", 1e-12), leaves=4),
    Column("limit", lambda r: r.verdict.limit if r.verdict else "", is_number=False, leaves=7),
    Column("vs vendor", against_vendor),
)


def used(table: Sequence[Row]) -> list[Column]:
    """The columns that say something in at least one row."""
    return [c for c in COLUMNS if any(c.text(r) for r in table)]


def yielding(columns: Sequence[Column]) -> tuple[list[int], list[int]]:
    """Which of these give way on a narrow screen: the optional in order, and those said once."""
    ranked = sorted((c.leaves, i) for i, c in enumerate(columns) if c.leaves is not None)
    return [i for _, i in ranked], [i for i, c in enumerate(columns) if c.once]
