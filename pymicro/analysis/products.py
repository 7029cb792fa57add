"""How long a product of matrices takes on a device whose large products reach a known rate.

The model: the result is cut into tiles, each of which one SM works out; SMs take tiles in turns,
so a last turn that is not full wastes the rest. Small tiles read their operands more often and
are slower per operation; a long sum may be split over several SMs at the price of adding up; and
however small a tile, its sum goes on step by step. The library is assumed to choose the fastest.

The constants are in data/operators.toml, found by benchmarks/fit_primitives.py from products timed
on one card and from no job; a test holds the median error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from pymicro.analysis.work import Product
from pymicro.workloads.precisions import runs_on_matrix_units


@dataclass(frozen=True)
class Unit:
    """What holds for one kind of unit.

    Attributes:
        name: `tensor` or `vector`.
        reading: a tile of m by n reads m + n numbers for m·n products: its seconds an operation
            grow by this much of (m + n) / (m·n).
        fill_k: elements of k that pass before a tile's pipeline is full and after it is empty.
        step_s: seconds of one element of k at least. start_floors, split_floors: shortest kernels
            before anything is computed, and for adding up the parts of a split sum.
    """

    name: str
    reading: float
    fill_k: float
    step_s: float
    start_floors: float
    split_floors: float

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        return TILES[self.name]


# Rows and columns of the result that vendor libraries have kernels for, by kind of unit.
TILES = {
    "tensor": ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32)),
    "vector": ((128, 128), (128, 64), (64, 128), (128, 32), (64, 64), (32, 128), (32, 32)),
}
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
# A part of a split sum is no shorter than this, or there is nothing to overlap.
_SHORTEST_K = 128


def unit_of(path: str) -> str:
    """The kind of unit that a path runs on."""
    return "tensor" if runs_on_matrix_units(path) else "vector"


@lru_cache(maxsize=100_000)
def seconds(product: Product, rate: float, sm_count: int, u: Unit, floor_s: float) -> float:
    """Seconds beyond the start of the kernel, memory apart.

    Args:
        rate: operations a second of a large product. floor_s: of the shortest kernel.
    """
    if product.m == 1 and u.name == "vector":
        return 0.0  # A vector times a matrix: libraries have kernels that only read.
    return min(
        _tiled(product, rate, sm_count, u, tile, split)
        + (u.split_floors * floor_s if split > 1 else 0)
        for tile in u.tiles
        for split in _SPLITS
        if split == 1 or product.k // split >= _SHORTEST_K
    )


def start_s(u: Unit, floor_s: float) -> float:
    """Seconds of a product's kernel around its computing."""
    return u.start_floors * floor_s


def _tiled(
    p: Product, rate: float, sm_count: int, u: Unit, tile: tuple[int, int], split: int
) -> float:
    rows, columns = tile
    tiles = p.batch * math.ceil(p.m / rows) * math.ceil(p.n / columns) * split
    turns = math.ceil(tiles / sm_count)
    k = p.k / split
    slow = (1 + _thinness(tile) * u.reading) / (1 + min(map(_thinness, u.tiles)) * u.reading)
    one_s = 2 * rows * columns * (k + u.fill_k) * slow * sm_count / rate
    return turns * max(one_s, k * u.step_s)


def _thinness(tile: tuple[int, int]) -> float:
    return sum(tile) / (tile[0] * tile[1])
