"""Results of one thing at several sizes as curves: bandwidth or latency against bytes touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pymicro.analysis.levels import SAME_LEVEL, Level, levels
from pymicro.analysis.verdict import judge
from pymicro.results import Result
from pymicro.streams import ON_CHIP, arrays_moved

# Fewer sizes make no curve in which a level could show.
FEWEST_SIZES = 5
# What a translation that is not at hand costs may be small beside the load: 0.12 of it where that
# was measured, and lines that are few lie nearer to an SM or farther by 0.05.
_PAGE_BYTES, _SAME_TRANSLATION = 4096, 1.08


@dataclass(frozen=True)
class Spot:
    """One size: bytes touched, and the median with its 95 % interval."""

    size_bytes: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """One kernel or chase over sizes, the smallest first.

    `unit` is `s` (a step) or `B/s`; `results` are those that the spots came from.
    """

    label: str
    unit: Literal["s", "B/s"]
    spots: tuple[Spot, ...]
    results: tuple[Result, ...]

    @property
    def levels(self) -> list[Level]:
        """Plateaus of seconds a step, or a byte."""
        is_rate = self.unit == "B/s"
        same = _SAME_TRANSLATION if self.is_of_pages else SAME_LEVEL
        points = [(s.size_bytes, 1 / s.value if is_rate else s.value) for s in self.spots]
        return levels(points, same)

    @property
    def is_of_pages(self) -> bool:
        """Whether the places of a chase lie a page or more apart."""
        first = self.results[0]
        return first.benchmark == "latency" and first.params.get("stride", 0) >= _PAGE_BYTES


def curves(results: Sequence[Result], fewest: int = FEWEST_SIZES) -> list[Curve]:
    """The curves of one run's results, in the order in which they began."""
    kinds: dict[tuple, dict[int, Result]] = {}
    for r in results:
        if r.outcome == "ok" and "size" in r.params and r.params.get("level") not in ON_CHIP:
            kinds.setdefault(_kind(r), {})[touched_bytes(r)] = r
    found = []
    for sizes in kinds.values():
        if len(sizes) >= fewest:
            ordered = sorted(sizes.items())
            spots = tuple(_spot(size, r) for size, r in ordered)
            own = tuple(r for _, r in ordered)
            unit: Literal["s", "B/s"] = "B/s" if own[0].bytes else "s"
            found.append(Curve(_label(own[0], list(kinds)), unit, spots, own))
    return found


def best_of(found: Sequence[Curve]) -> list[Curve]:
    """Of the curves of one operation and format, the fastest at every size, as one curve."""
    groups: dict[tuple, list[Curve]] = {}
    for curve in found:
        groups.setdefault(_what(curve.results[0]), []).append(curve)
    best = []
    for what, alike in groups.items():
        pairs = [pair for c in alike for pair in zip(c.spots, c.results, strict=True)]
        sizes = sorted({spot.size_bytes for spot, _ in pairs})
        sign = -1 if alike[0].unit == "B/s" else 1
        top = [
            min((p for p in pairs if p[0].size_bytes == size), key=lambda p: sign * p[0].value)
            for size in sizes
        ]
        label = " ".join(str(v) for k, v in what[1:] if k not in _UNSAID and v not in _USUAL)
        spots, results = zip(*top, strict=True)
        best.append(Curve(label, alike[0].unit, spots, results))
    return best


def touched_bytes(r: Result) -> int:
    """Bytes of all arrays of a case together, or of its ring."""
    if r.benchmark != "bandwidth" or r.params.get("access", "sequential") != "sequential":
        return int(r.params["size"])
    return int(arrays_moved(r.params["op"]) * r.params["size"])


def _spot(size: int, r: Result) -> Spot:
    rate = judge(r).rates[0]
    return Spot(size, rate.value, rate.low, rate.high)


# Words that a label of an operation goes without.
_UNSAID, _USUAL = ("stride", "threads", "sms"), ("", "sequential", "memory", "load")
# Parameters that make another curve, not another point of one.
_APART = ("op", "where", "step", "stride", "pages", "access", "threads", "sms")


def _what(r: Result) -> tuple[tuple[str, Any], ...]:
    """What was measured, by whomever."""
    named = tuple((k, r.params.get(k, "")) for k in _APART)
    kept: Mapping[str, Any] = dict(named)
    if r.benchmark == "bandwidth" and kept["access"] == "sequential":
        named = tuple((k, v) for k, v in named if k != "stride")
    # Pairs of SMs that ask for the same lines receive more than L2 sends: another curve.
    shared = (("by", "by pairs of SMs"),) if (r.backend, r.variant) == ("cuda", "shared") else ()
    return (("benchmark", r.benchmark), *named, *shared, ("dtype", r.dtype))


def _kind(r: Result) -> tuple:
    return (r.backend, r.variant, *_what(r))


def _label(r: Result, kinds: Sequence[tuple]) -> str:
    """Backend and variant, with the words in which the curves of this run differ."""
    words = [r.backend, r.variant]
    for name, value in _what(r):
        values = {dict(kind[2:]).get(name) for kind in kinds}
        if len(values) > 1:
            words.append(str(value))
    return " ".join(words)
