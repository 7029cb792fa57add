"""Operands of a case: drawn from a seed, stored in the bits of their format, decoded for checks.

Drawn on the host, so every backend, device and language gets the same bits for the same seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from pymicro.dtypes import DType
from pymicro.errors import UsageError

# Chunks are the unit of seeding, so the bits do not depend on the number of threads.
_CHUNK = 2**20
# Prime, so that no kernel that goes wrong by tiles, vectors or powers of two meets equal elements;
# and some MiB, so that nothing short of DRAM holds a whole period many times over.
_PERIOD = 4_194_301
FILLS = ("normal", "uniform", "integers", "zeros")


def cycle(count: int, seed: int) -> np.ndarray:
    """The numbers below `count` in random order, as int32: a ring through that many places."""
    return np.random.default_rng(seed).permutation(np.arange(count, dtype=np.int32))


def draw(shape: tuple[int, ...], dtype: DType, fill: str, seed: int) -> np.ndarray:
    """An array of `shape` in the storage of `dtype`.

    `normal` is N(0,1), `uniform` is U(-1,1), `integers` are whole numbers from -8 to 8; for
    integer formats `normal` and `uniform` both mean uniform over the whole range of the format.
    Few-bit values and zeros draw less power and so flatter a power-limited device.
    """
    if fill not in FILLS:
        raise UsageError(f"unknown fill '{fill}'; known: {', '.join(FILLS)}.")
    out = np.zeros(shape, dtype.storage)
    if fill == "zeros":
        return out
    flat = out.reshape(-1)
    starts = range(0, flat.size, _CHUNK)
    seeds = np.random.SeedSequence(seed).spawn(len(starts))
    pick = _integers if dtype.is_integer else _FLOATS[fill]

    def one(start: int, child: np.random.SeedSequence) -> None:
        part = flat[start : start + _CHUNK]
        part[:] = pick(np.random.Generator(np.random.SFC64(child)), part.size, dtype, fill)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(one, starts, seeds))
    return out


def period(count: int) -> int:
    """After how many elements an array of `count` that is filled by `repeat` begins again."""
    return min(count, _PERIOD)


def repeat(out: np.ndarray, block: np.ndarray) -> None:
    """Fill `out` with copies of `block`, the last one cut short."""
    done = min(block.size, out.size)
    out[:done] = block[:done]
    while done < out.size:
        count = min(done, out.size - done)
        out[done : done + count] = out[:count]
        done += count


def _integers(rng: np.random.Generator, count: int, dtype: DType, fill: str) -> np.ndarray:
    if fill == "integers":
        return rng.integers(-8, 9, count, dtype=dtype.storage)
    bounds = np.iinfo(dtype.storage)
    return rng.integers(bounds.min, bounds.max, count, dtype=dtype.storage, endpoint=True)


_Float = Callable[[np.random.Generator, int, DType, str], np.ndarray]
_FLOATS: dict[str, _Float] = {
    "normal": lambda rng, n, d, _: encode(rng.standard_normal(n, _working(d)), d),
    "uniform": lambda rng, n, d, _: encode(rng.random(n, _working(d)) * 2 - 1, d),
    "integers": lambda rng, n, d, _: encode(rng.integers(-8, 9, n).astype(_working(d)), d),
}


def _working(dtype: DType) -> Any:
    return np.float64 if dtype.name == "fp64" else np.float32


def encode(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Round float32 or float64 values to the nearest number of `dtype`, ties to even."""
    if dtype.name == "bf16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
        return (rounded >> np.uint32(16)).astype(np.uint16)
    if dtype.name == "fp8_e4m3":
        return _encode_e4m3(np.asarray(values, np.float32))
    return values.astype(dtype.storage, copy=False)


def decode(raw: np.ndarray, dtype: DType) -> np.ndarray:
    """The numbers that stored bits mean, as float32 (float64 for fp64; integers as they are)."""
    if dtype.name == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.name == "fp8_e4m3":
        return _e4m3_values()[raw]
    if dtype.name == "fp16":
        return raw.astype(np.float32)
    return raw


@cache
def _e4m3_values() -> np.ndarray:
    """The 256 numbers of E4M3 (OCP 8-bit floating point, 2023): bias 7, no infinity, two NaNs."""
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent, fraction = (code >> 3) & 15, code & 7
    value = np.where(
        exponent == 0, fraction * 2.0**-9, (1 + fraction / 8) * 2.0 ** (exponent - 7.0)
    )
    value[(code & 0x7F) == 0x7F] = np.nan
    return (sign * value).astype(np.float32)


def _encode_e4m3(values: np.ndarray) -> np.ndarray:
    positive = _e4m3_values()[:127].astype(np.float32)  # 0 ... 448, ascending
    middles = (positive[1:] + positive[:-1]) / 2
    magnitude = np.abs(values)
    code = np.searchsorted(middles, magnitude, side="left").astype(np.uint8)
    # A tie lies on a middle; side="left" rounds it down, which is odd for odd codes.
    tie = (code < 126) & (magnitude == middles[np.minimum(code, 125)]) & (code % 2 == 1)
    code = code + tie.astype(np.uint8)
    code[np.isnan(values)] = 0x7F
    return code | (np.signbit(values).astype(np.uint8) << 7)


def poison(dtype: DType) -> int:
    """The byte that, repeated, is NaN in every float format here and far off in integers."""
    return 0x7F if dtype.is_integer else 0xFF
