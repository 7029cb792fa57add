"""How long a product of matrices takes on a device: measured at this shape, or by tiles and waves.

The model: the result is cut into tiles, each of which one SM works out; SMs take tiles in turns,
so a last turn that is not full wastes the rest. Small tiles read their operands more often and
are slower per operation; a long sum may be split over several SMs at the price of adding up.
The library is assumed to choose what is fastest.
"""

from __future__ import annotations

import math
from functools import cache

from pymicro.analysis.work import Product

# Tiles that vendor libraries have kernels for, by kind of unit: rows and columns of the result.
_TILES = {
    "tensor": ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32)),
    "vector": ((128, 128), (128, 64), (64, 128), (128, 32), (64, 64), (32, 128), (32, 32)),
}
# A tile of m by n reads m + n numbers for m·n products, so its seconds an operation grow by this
# much of (m + n) / (m·n). Assumed, with tensor cores eating a slice of k a few times as fast as
# vector units; checked against measured products in the study of operators, fitted to none.
_READING = {"tensor": 10, "vector": 4}
# Elements of k that pass before a tile's pipeline is full, and after it is empty.
_FILL_K = {"tensor": 96, "vector": 32}
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# A part of a split sum is no shorter than this, or there is nothing to overlap.
_SHORTEST_K = 128


@cache
def utilisation(product: Product, sm_count: int, unit: str) -> float:
    """Share of the rate of a large product that this shape can reach, at most 1; no memory."""
    return max(
        _share(product, sm_count, unit, tile, split)
        for tile in _TILES[unit]
        for split in _SPLITS
        if split == 1 or product.k // split >= _SHORTEST_K
    )


def _share(
    p: Product, sm_count: int, unit: str, tile: tuple[int, int], split: int
) -> float:
    rows, columns = tile
    tiles = p.batch * math.ceil(p.m / rows) * math.ceil(p.n / columns) * split
    turns = math.ceil(tiles / sm_count)
    k = p.k / split
    # Seconds of one tile relative to its operations at full rate.
    slow = (1 + _thinness(tile) * _READING[unit]) / _BEST[unit]
    one = rows * columns * (k + _FILL_K[unit]) * slow
    if split > 1:
        # Partial sums are written and read again: as long as some more of k.
        one += rows * columns * 2 * _FILL_K[unit]
    return p.batch * p.m * p.n * p.k / (turns * sm_count * one)


def _thinness(tile: tuple[int, int]) -> float:
    return sum(tile) / (tile[0] * tile[1])


_BEST = {
    unit: 1 + min(map(_thinness, tiles)) * _READING[unit] for unit, tiles in _TILES.items()
}


def unit_of(path: str) -> str:
    """The kind of unit that a path runs on."""
    return "vector" if path == "fp32" else "tensor"
