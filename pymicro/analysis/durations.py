"""How long one operator occupies a device, and what each part of that time is due to.

An operator takes its kernels' floor and, on top, the larger of arithmetic and memory. The parts
are found by taking one cause away after the other, always in the order of PARTS, so that they add
up to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pymicro.analysis import products
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.work import Work

# In the order in which causes are taken away. `ideal`: the best format at the paper rate, and
# every byte of that format at the paper bandwidth; nothing less is possible on this device.
PARTS = ("ideal", "format", "shape", "clock", "quality")
# The cache serves a working set up to this share of its size fully, and beyond twice its size not
# at all: replacement is not perfect.
_HELD, _LOST = 0.6, 2.0


@dataclass(frozen=True)
class Duration:
    """Seconds of one operator by part; `compute_s` and `memory_s` say which of the two bounds it.

    Attributes:
        kernels: how many it launches. source: `measured` if its very shape was.
    """

    parts: tuple[float, float, float, float, float]
    kernels: float
    compute_s: float
    memory_s: float
    source: str

    @property
    def seconds(self) -> float:
        return sum(self.parts)

    @property
    def bound(self) -> str:
        """`compute`, `memory` or `floor`: what most of the time is."""
        longest = max(self.compute_s, self.memory_s)
        if longest < self.seconds / 2:
            return "floor"
        return "compute" if self.compute_s >= self.memory_s else "memory"


class Clock:
    """Durations on one device; asks each kind of operator once."""

    def __init__(self, primitives: Primitives, tf32: bool = False) -> None:
        self._p, self._tf32 = primitives, tf32
        self._best = primitives.best_path()
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, work: Work) -> Duration:
        p = self._p
        if work.kind == "none":
            return Duration((0.0,) * 5, 0.0, 0.0, 0.0, "")  # type: ignore[arg-type]
        if work.host_bytes:
            seconds = p.link_s.value + work.host_bytes / p.link.value
            return Duration((seconds, 0, 0, 0, 0), 0.0, 0.0, seconds, p.link.source)
        kernels = kernels_of(work, p)
        floor_s = kernels * p.floor.value
        if work.kind in ("product", "attention"):
            return self._product(work, kernels, floor_s)
        paper_s, real_s = (self._memory_s(work, dram) for dram in (p.paper_dram, p.dram.value))
        efficiency = p.library.efficiency.get(work.kind)
        real_s = real_s / efficiency.value if efficiency else real_s
        lean_s = paper_s * self._leaner(work)
        parts = (lean_s, paper_s - lean_s, floor_s, 0.0, real_s - paper_s)
        return Duration(parts, kernels, 0.0, real_s, p.dram.source)

    def _product(self, work: Work, kernels: float, floor_s: float) -> Duration:
        p = self._p
        path = p.path(work.dtype, self._tf32)
        paper_s, real_s = (self._memory_s(work, dram) for dram in (p.paper_dram, p.dram.value))
        share = self._share(work, path)
        peak, clock = p.peaks[path], p.clock[path].value if path in p.clock else 1.0
        ideal_s = max(work.flop / p.peaks[self._best], paper_s * self._leaner(work))
        format_s = max(work.flop / peak, paper_s)
        shaped_s = floor_s + max(work.flop / (peak * share), paper_s)
        clocked_s = floor_s + max(work.flop / (peak * share * clock), paper_s)
        compute_s = work.flop / (self._rate(work, path) * share)
        known = p.products.get((path, work.product)) if work.product else None
        total_s = known.value if known else floor_s + max(compute_s, real_s)
        cuts = (0.0, ideal_s, format_s, shaped_s, clocked_s, total_s)
        parts = tuple(b - a for a, b in zip(cuts[:-1], cuts[1:], strict=True))
        source = known.source if known else p.rates[path].source
        return Duration(parts, kernels, compute_s, real_s, source)  # type: ignore[arg-type]

    def _rate(self, work: Work, path: str) -> float:
        rate = self._p.rates[path].value
        if work.kind == "attention":
            held = self._p.library.efficiency.get(f"attention {path}")
            return rate * (held.value if held else 0.5)
        batched = self._p.batched_share.get(path)
        if batched and work.product and work.product.batch > 1:
            return rate * batched.value
        return rate

    def _share(self, work: Work, path: str) -> float:
        """What tiles and waves leave of the rate of a large product."""
        if work.product is None or not work.flop:
            return 1.0
        return products.utilisation(work.product, self._p.sm_count, products.unit_of(path))

    def _memory_s(self, work: Work, dram: float) -> float:
        """Seconds for its bytes; weights come from DRAM, as others have passed since."""
        if work.product and work.product.batch == 1:
            return work.bytes / dram
        return work.bytes / bandwidth(self._p, work.bytes, dram) if work.bytes else 0.0

    def _leaner(self, work: Work) -> float:
        """Bytes in the best format, as a share of those in the one used."""
        wide = work.dtype in ("float32", "float64")
        return 0.5 if wide and self._best in ("fp16", "bf16") else 1.0


def kernels_of(work: Work, p: Primitives) -> float:
    """Kernels that an operator launches here."""
    table = p.library.kernels
    count = table.get(work.name, table.get(work.kind, 1.0))
    if work.tensors:
        return max(1.0, work.tensors / table.get("tensors a launch", 1.0))
    return count


def bandwidth(p: Primitives, size_bytes: float, dram: float | None = None) -> float:
    """Bytes a second of a stream over a working set of this size, at a given DRAM bandwidth."""
    slow = p.dram.value if dram is None else dram
    if p.curve and dram == p.dram.value and size_bytes <= p.curve[-1][0]:
        return _along(p.curve, size_bytes)
    if not p.l2_bytes or p.l2.value <= slow:
        return slow
    lost, held = _LOST * p.l2_bytes, _HELD * p.l2_bytes
    hit = min(1.0, max(0.0, (lost - size_bytes) / (lost - held)))
    return 1.0 / (hit / p.l2.value + (1 - hit) / slow)


def _along(curve: tuple[tuple[float, float], ...], size: float) -> float:
    """A measured curve between its points, in logarithms of the size."""
    import bisect
    import math

    place = bisect.bisect_left(curve, (size, 0.0))
    if place == 0:
        return curve[0][1]
    (a, low), (b, high) = curve[place - 1], curve[min(place, len(curve) - 1)]
    share = math.log(size / a) / math.log(b / a) if b > a else 0.0
    return low + (high - low) * share
