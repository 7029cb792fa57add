"""Tiles cut along k, for products of too few tiles: into how many parts, and the work space.

A block leaves its sums there; the last of a tile to finish adds them up, in order, into C.
"""

from __future__ import annotations

import ctypes
import math

from pymicro import driver
from pymicro.backends.cuda.gemm_kernel import GemmKernel

_MOST_PARTS = 8
_LEAST_STAGES = 6  # of k in a part
# In stages of k of a 128x256 tile, 5.1 us on an H200, from its times of 4096x768x768, 4096x768x3072
# and 1024 cubed, whole and in four parts. In every round of blocks: filling the ring and storing C,
# or leaving sums; once: adding them up.
_ROUND_STAGES, _LEAVE_STAGES, _ADD_STAGES = 0.9, 1.6, 1.0
_WORTH = 0.95  # of the time of whole tiles


def best_parts(row: GemmKernel, m: int, n: int, k: int, sm_count: int) -> int:
    """Into how many parts of k the tiles of a product are best cut; 1 where whole ones are."""
    tiles, stages = _tiles(row, m, n), math.ceil(k / row.tile[2])

    def cost(parts: int) -> float:
        rounds = math.ceil(tiles * parts / sm_count)
        whole = rounds * (math.ceil(stages / parts) + _ROUND_STAGES)
        return whole if parts == 1 else whole + rounds * _LEAVE_STAGES + _ADD_STAGES

    options = range(1, max(1, min(_MOST_PARTS, stages // _LEAST_STAGES)) + 1)
    best = min(options, key=cost)
    return best if cost(best) <= _WORTH * cost(1) else 1


def fills(row: GemmKernel, m: int, n: int, k: int, sm_count: int) -> bool:
    """Whether cutting makes enough blocks of what are too few tiles."""
    parts = best_parts(row, m, n, k, sm_count)
    return parts > 1 and _tiles(row, m, n) * parts >= 0.7 * sm_count


def space(
    row: GemmKernel, m: int, n: int, k: int, sm_count: int
) -> tuple[int, driver.Buffer, list[driver.Argument]]:
    """Parts, their work space, and what the kernel is told of both.

    Layout: a counter for each tile, zero before and after a launch; then sums, 4 bytes each.
    """
    stages = math.ceil(k / row.tile[2])
    part_k = math.ceil(stages / best_parts(row, m, n, k, sm_count)) * row.tile[2]
    parts = max(1, math.ceil(k / part_k)) if part_k else 1
    tiles = _tiles(row, m, n)
    counter_bytes = math.ceil(tiles * 4 / 256) * 256
    buffer = driver.Buffer(
        (counter_bytes + tiles * parts * row.tile[0] * row.tile[1] * 4,), "uint8"
    )
    driver.check(driver.cuda().cuMemsetD8(buffer.ptr, 0, counter_bytes))
    driver.check(driver.cuda().cuCtxSynchronize())  # Streams of ours do not wait for a memset.
    arguments: list[driver.Argument] = [
        ctypes.c_uint64(buffer.ptr + counter_bytes),
        ctypes.c_uint64(buffer.ptr),
        ctypes.c_int(parts),
        ctypes.c_int(part_k),
    ]
    return parts, buffer, arguments


def _tiles(row: GemmKernel, m: int, n: int) -> int:
    return math.ceil(m / row.tile[0]) * math.ceil(n / row.tile[1])
