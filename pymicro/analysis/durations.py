"""How long one operator occupies a device, and what each part of that time is due to.

An operator takes its kernels' floor and, on top, the larger of arithmetic and memory. The parts
are found by taking one cause away after the other, always in the order of PARTS, so that they add
up to the whole.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pymicro.analysis import products
from pymicro.analysis.primitives import SHORT_PATHS, FusedAttention, Kernel, Primitives
from pymicro.analysis.work import Product, Work
from pymicro.dtypes import DTYPES
from pymicro.workloads.trace import ITEM_BYTES

# In the order in which causes are taken away. `ideal`: the best format at the paper rate, and
# every byte of that format at the paper bandwidth; nothing less is possible on this device.
PARTS = ("ideal", "format", "shape", "clock", "quality")
# The cache serves a working set up to this share of its size fully, and beyond twice its size not
# at all: replacement is not perfect.
_HELD, _LOST = 0.6, 2.0
# Shapes that differ by more than a factor of eight in all are no neighbours.
_NEAR = math.log(8.0)
# Numbers of a head, queries of a block below which it is a decode step's, and how sharp the turn is
# from one bound to the other.
_HEAD, _FEW_QUERIES, _SHARP = 64, 8, 2.5
# A row of this many columns is a vocabulary's.
_LONG = 8192
# Up to so many rows are selected one after another, at so many floors each.
_ONE_BY_ONE, _INDEX_FLOORS = 16, 0.31
# Below this many rows the gradient of an embedding takes a path without sorting, whose start and
# each row take so many floors; with sorting, each row of the table that is met does.
_FEW_ROWS, _UNSORTED, _SEGMENT_FLOORS = 3072, (2.0, 0.042), 0.0164


@dataclass(frozen=True)
class Duration:
    """Seconds of one operator by part; `compute_s` and `memory_s` say which of the two bounds it.

    Attributes:
        kernels: how many it launches. source: `measured` if its very shape was.
        path: of products and attention, whose units it is taken to run on.
    """

    parts: tuple[float, float, float, float, float]
    kernels: float
    compute_s: float
    memory_s: float
    source: str
    path: str = ""

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
        if work.host_bytes and self._p.link_start_s.value:
            seconds = p.link_start_s.value + work.host_bytes / p.link_bytes_per_s.value
            return Duration((seconds, 0, 0, 0, 0), 0.0, 0.0, seconds, p.link_bytes_per_s.source)
        kernel = kernel_of(work, p)
        if work.product or (work.kind == "attention" and work.flop):
            return self._product(work, kernel)
        start_s = kernel.start_floors * p.floor_s.value
        paper_s, real_s = (
            self._memory_s(work, dram) for dram in (p.paper_bytes_per_s, p.dram_bytes_per_s.value)
        )
        real_s = max(real_s, work.bytes / self._handled(work, kernel))
        lean_s = paper_s * self._leaner(work)
        parts = (lean_s, paper_s - lean_s, start_s, 0.0, real_s - paper_s)
        return Duration(parts, kernel.kernels, 0.0, real_s, p.dram_bytes_per_s.source)

    def _product(self, work: Work, kernel: Kernel) -> Duration:
        p = self._p
        # Fused attention in FP32 stays on the vector units, whatever TF32 allows products.
        path = p.path(work.dtype, self._tf32 and work.product is not None)
        if path != "tf32" or (path, work.product) in p.product_s:
            return self._on(path, work, kernel)
        # TF32 is allowed to the library and not ordered (cuBLAS, CUBLAS_COMPUTE_32F_FAST_TF32), so
        # that a unit which wins nothing is left alone; and a vector times a matrix is always read
        # by the kernels of FP32 (so were all 44 of the profiled, see benchmarks/reference).
        plain = self._on("fp32", work, kernel)
        if work.product and work.product.m == 1:
            return plain
        return min(self._on(path, work, kernel), plain, key=lambda d: d.seconds)

    def _on(self, path: str, work: Work, kernel: Kernel) -> Duration:
        """Arithmetic on a path against memory, cause by cause."""
        p = self._p
        unit, peak = p.library.units[products.unit_of(path)], p.peak_flop_per_s[path]
        paper_s, real_s = (
            self._memory_s(work, dram) for dram in (p.paper_bytes_per_s, p.dram_bytes_per_s.value)
        )
        clock = p.clock_share[path].value if path in p.clock_share else 1.0
        start_s = kernel.start_floors * p.floor_s.value
        if work.product:
            start_s = products.start_s(unit, p.floor_s.value)
        elif _is_decode(work):
            start_s = p.library.attention[unit.name].decode_floors * p.floor_s.value
        ideal_s = max(work.flop / p.peak_flop_per_s[self._best], paper_s * self._leaner(work))
        format_s = max(work.flop / peak, paper_s)
        shaped_s = start_s + max(self._compute_s(work, peak, unit), paper_s)
        clocked_s = start_s + max(self._compute_s(work, peak * clock, unit), paper_s)
        compute_s = self._compute_s(work, self._rate(work, path), unit)
        total_s = start_s + max(compute_s, real_s)
        known = p.product_s.get((path, work.product)) if work.product else None
        if known:
            total_s = known.value
            compute_s = max(compute_s, total_s - start_s if total_s > real_s else 0.0)
        elif work.product:
            total_s *= self._nearest(path, work)
        cuts = (0.0, ideal_s, format_s, shaped_s, clocked_s, total_s)
        parts = tuple(b - a for a, b in itertools.pairwise(cuts))
        source = known.source if known else p.flop_per_s[path].source
        return Duration(
            parts,  # type: ignore[arg-type]
            kernel.kernels,
            compute_s,
            real_s,
            source,
            path,
        )

    def _nearest(self, path: str, work: Work) -> float:
        """By how much the nearest measured shape differs from the model; 1 if none is near."""
        ours = work.product
        assert ours is not None
        best, found = _NEAR, None
        for (of_path, other), value in self._p.product_s.items():
            same = of_path == path and other.layout == ours.layout
            if same and (other.batch > 1) == (ours.batch > 1):
                far = _distance(ours, other)
                if far < best:
                    best, found = far, (other, value)
        if found is None:
            return 1.0
        shape, value = found
        width = DTYPES[path].itemsize_bytes
        size = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n
        there = replace(
            work, product=shape, flop=2 * shape.batch * shape.m * shape.n * shape.k,
            bytes=shape.batch * size * width,
        )  # fmt: skip
        unit, p = self._p.library.units[products.unit_of(path)], self._p
        compute_s = self._compute_s(there, self._rate(there, path), unit)
        model_s = products.start_s(unit, p.floor_s.value) + max(
            compute_s, self._memory_s(there, p.dram_bytes_per_s.value)
        )
        return value.value / model_s

    def _rate(self, work: Work, path: str) -> float:
        p = self._p
        rate = p.flop_per_s[path].value
        if work.product:
            turned = p.library.turned_flop_per_clk.get(path, {}).get(work.product.layout)
            if turned and p.sm_clock_hz:
                # Turning goes through shared memory, which all chips have alike: it costs a fast
                # unit most.
                turned *= p.sm_count * p.sm_clock_hz * p.library.speed.value
                rate = 1 / (1 / rate + 1 / turned)
        batched = p.batched_share.get(path)
        if batched and work.product and work.product.batch > 1:
            return rate * batched.value
        return rate

    def _compute_s(self, work: Work, rate: float, unit: products.Unit) -> float:
        p = self._p
        if work.product:
            return products.seconds(work.product, rate, p.sm_count, unit, p.floor_s.value)
        row = p.library.attention[unit.name]
        share = row.share * work.columns / (work.columns + row.half_at_keys)
        share *= (row.dropout if work.has_dropout else 1.0) * (row.mask if work.has_mask else 1.0)
        full_s = work.flop / (rate * share * p.library.speed.value)
        if not _is_decode(work):
            return max(full_s, work.columns * row.key_s)
        turns, rest = divmod(work.blocks / p.sm_count, row.at_once)
        return turns * _together_s(row, work.columns, row.at_once) + _together_s(
            row, work.columns, rest
        )

    def _handled(self, work: Work, kernel: Kernel) -> float:
        """Bytes a second that the operator's kernels themselves can handle."""
        p = self._p
        if not p.sm_clock_hz:
            return float("inf")
        is_narrow = work.dtype in SHORT_PATHS
        return kernel.bytes_per_clk[is_narrow] * p.sm_count * p.sm_clock_hz * p.library.speed.value

    def _memory_s(self, work: Work, dram: float) -> float:
        """Seconds for its bytes; weights come from DRAM, as others have passed since."""
        if work.product and work.product.batch == 1:
            return work.bytes / dram
        return work.bytes / bandwidth(self._p, work.bytes, dram) if work.bytes else 0.0

    def _leaner(self, work: Work) -> float:
        """Bytes in the best format, as a share of those in the one used."""
        used = ITEM_BYTES[work.dtype] if "float" in work.dtype else 0
        return min(1.0, DTYPES[self._best].itemsize_bytes / used) if used else 1.0


def _is_decode(work: Work) -> bool:
    """Whether each block of fused attention goes through all keys for hardly a query."""
    queries = work.flop / max(4 * _HEAD * work.blocks * work.columns, 1)
    return work.kind == "attention" and bool(work.blocks) and queries <= _FEW_QUERIES


def _together_s(row: FusedAttention, keys: int, blocks: float) -> float:
    """Seconds of so many blocks an SM: one alone waits at each key, many keep the SM busy."""
    if not blocks:
        return 0.0
    alone_s, crowd_s = keys * row.key_s, blocks * (row.block_s + keys * row.block_key_s)
    return (alone_s**_SHARP + crowd_s**_SHARP) ** (1 / _SHARP)


def _distance(a: Product, b: Product) -> float:
    pairs = ((a.batch, b.batch), (a.m, b.m), (a.n, b.n), (a.k, b.k))
    return sum(abs(math.log(x / y)) for x, y in pairs)


def _named(work: Work, table: Mapping[str, Kernel]) -> Kernel:
    """The row of an operator: of a special form of it, of itself, or of its class.

    Forms are of what an operator works on: two formats, an operand that is read again, a source
    that does not lie in order, rows of a vocabulary; and of each the one in 2-byte formats.
    """
    special = "_strided" * work.is_strided + "_long" * (work.columns >= _LONG)
    special += "_mixed" * work.is_mixed + "_broadcast" * work.is_broadcast
    narrow = "_narrow" * (work.dtype in SHORT_PATHS)
    forms = (special + narrow, special, narrow, "")
    names = (base + form for form in forms for base in (work.name, work.kind))
    return next(table[name] for name in names if name in table)


def kernel_of(work: Work, p: Primitives) -> Kernel:
    """What an operator launches here."""
    table = p.library.kernels
    found = _named(work, table)
    if work.tensors:
        launches = max(1.0, work.tensors / p.library.tensors_a_launch)
        return replace(found, kernels=launches, start_floors=found.start_floors * launches)
    if work.name == "index_select":
        rows = min(work.gathered, _ONE_BY_ONE)
        return replace(found, start_floors=found.start_floors + rows * _INDEX_FLOORS)
    if work.name == "mean" and work.flop == 1:
        # A single row needs no second round.
        return replace(found, start_floors=found.start_floors / 2)
    if work.name == "embedding_dense_backward":
        if work.gathered < _FEW_ROWS:
            start = _UNSORTED[0] + work.gathered * _UNSORTED[1]
            return replace(found, kernels=2.0, start_floors=start)
        return replace(found, start_floors=found.start_floors + work.distinct * _SEGMENT_FLOORS)
    return found


def bandwidth(p: Primitives, size_bytes: float, dram: float | None = None) -> float:
    """Bytes a second of a stream over a working set of this size, at a given DRAM bandwidth."""
    slow = p.dram_bytes_per_s.value if dram is None else dram
    if (
        p.curve_bytes_per_s
        and dram == p.dram_bytes_per_s.value
        and size_bytes <= p.curve_bytes_per_s[-1][0]
    ):
        return _along(p.curve_bytes_per_s, size_bytes)
    if not p.l2_bytes or p.l2_bytes_per_s.value <= slow:
        return slow
    lost, held = _LOST * p.l2_bytes, _HELD * p.l2_bytes
    hit = min(1.0, max(0.0, (lost - size_bytes) / (lost - held)))
    return 1.0 / (hit / p.l2_bytes_per_s.value + (1 - hit) / slow)


def _along(curve: tuple[tuple[float, float], ...], size: float) -> float:
    """A measured curve between its points, in logarithms of the size."""
    place = bisect.bisect_left(curve, (size, 0.0))
    if place == 0:
        return curve[0][1]
    (a, low), (b, high) = curve[place - 1], curve[min(place, len(curve) - 1)]
    share = math.log(size / a) / math.log(b / a) if b > a else 0.0
    return low + (high - low) * share
