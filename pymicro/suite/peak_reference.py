"""What the probes of pure issue must leave behind, worked out on the host in higher precision.

Every thread reports the trips that it made, which must be exact, and sums that must be those of
so many trips: a loop that was shortened, removed or counted wrongly is found by either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymicro.dtypes import DTYPES, DType
from pymicro.errors import WrongResult
from pymicro.issue import (
    CONTRACTING,
    FEEDS,
    MATRICES_A,
    OUT_HEADER,
    TURNS,
    WGMMA_STEPS,
    CpuProbe,
    Probe,
)
from pymicro.operands import decode
from pymicro.verify import Check


class Issued:
    """Trips and sums of every thread of a GPU: two planes of sms × threads doubles."""

    def __init__(self, trips: int, sums: np.ndarray, allowed: np.ndarray, tolerance: float) -> None:
        """`sums` are those of the threads of any block, or of every block's; `allowed` is the
        absolute error that `tolerance` makes of each."""
        self._trips, self._sums = trips, sums
        self._allowed, self._tolerance = allowed, tolerance

    def check(self, out: np.ndarray) -> Check:
        """Compare all threads.

        Raises:
            WrongResult: a thread made fewer or more trips, or its sum is wrong.
        """
        done, sums = out
        if not np.all(done == self._trips):
            wrong = done[done != self._trips][0]
            raise WrongResult(f"wrong result: a loop of {self._trips} trips made {wrong:.0f}.")
        off = np.abs(sums - self._sums)
        if not np.all(off <= self._allowed):
            sm, thread = np.argwhere(~(off <= self._allowed))[0]
            raise WrongResult(
                f"wrong result: thread {thread} of block {sm} has {sums[sm, thread]:.9g}, not "
                f"{np.broadcast_to(self._sums, sums.shape)[sm, thread]:.9g}."
            )
        scale = np.maximum(np.linalg.norm(self._sums, axis=-1), np.finfo(float).tiny)
        error = float(np.max(np.linalg.norm(off, axis=1) / scale, initial=0))
        return Check("trips and sums, float64", error, self._tolerance)


class IssuedOnCpu:
    """Blocks of turns and the raw sums of the last block, thread by thread."""

    def __init__(self, probe: CpuProbe, sums: np.ndarray, spread: np.ndarray) -> None:
        self._probe, self._sums, self._spread = probe, sums, spread

    def check(self, out: np.ndarray) -> Check:
        """Compare all chains of all threads.

        Raises:
            WrongResult: a thread made fewer or more blocks of turns, or a sum is wrong.
        """
        row = DTYPES[self._probe.dtype]
        done = out[:, 0]
        if not np.all(done == self._probe.blocks):
            wrong = done[done != self._probe.blocks][0]
            raise WrongResult(
                f"wrong result: a loop of {self._probe.blocks} blocks of turns made {wrong}."
            )
        got = np.ascontiguousarray(out[:, OUT_HEADER:]).view(DTYPES[row.accumulate].storage)
        got = got.reshape(-1, self._probe.lanes)
        tolerance = _roundings(row, TURNS, self._probe.terms)
        if row.is_integer:
            off = np.abs(got.astype(np.int64) - self._sums)
        else:
            off = np.abs(got.astype(np.float64) - self._sums)
        if not np.all(off <= tolerance * self._spread):
            chain, lane = np.argwhere(~(off <= tolerance * self._spread))[0]
            raise WrongResult(
                f"wrong result: lane {lane} of chain {chain} has {got[chain, lane]:.9g}, not "
                f"{self._sums[lane]:.9g}."
            )
        scale = max(float(np.linalg.norm(self._sums)), np.finfo(float).tiny)
        error = float(np.max(np.linalg.norm(off, axis=1), initial=0)) / scale
        return Check("turns and sums, float64", error, tolerance)


def vector(probe: Probe, pairs: np.ndarray) -> Issued:
    """Of `pairs`, threads × chains × (a, b) × elements of a register."""
    row = DTYPES[probe.dtype]
    a, b = (_wide(pairs[:, :, side], row) for side in (0, 1))
    if probe.unit == "imad":
        sums = _multiplied_chains(probe, a[..., 0], b[..., 0])
        return Issued(probe.trips, sums, np.zeros(sums.shape), 0.0)
    if probe.unit in CONTRACTING:
        return _contracted(probe, row, pairs)
    products = [[_dot(a[:, i], b[:, j]) for j in range(probe.chains)] for i in range(probe.chains)]
    chains = [
        sum(products[step % probe.chains][(chain + step) % probe.chains] for step in _steps(probe))
        for chain in range(probe.chains)
    ]
    spread = sum(np.abs(p) for line in products for p in line) * (probe.steps // probe.chains)
    return _repeated(probe, row, np.stack(chains, 1), spread)


def matrix(probe: Probe, a: np.ndarray, b: np.ndarray) -> Issued:
    """Of matrices of a warp or of one wgmma, `m` × k and n × k, several of them for a warp."""
    row = DTYPES[probe.dtype]
    a, b = _as_multiplied(a, row), _as_multiplied(b, row)
    if probe.unit == "wgmma":
        per_trip = probe.steps // WGMMA_STEPS
        chains = per_trip * (a @ b.T)[None]
        squares = per_trip * np.sqrt(np.square(a) @ np.square(b).T)[None]
    else:
        indices = [
            [(s % MATRICES_A, (c + s) % probe.chains) for s in _steps(probe)]
            for c in range(probe.chains)
        ]
        chains = np.stack([sum(a[i] @ b[j].T for i, j in line) for line in indices])
        squares = np.stack(
            [sum(np.sqrt(np.square(a[i]) @ np.square(b[j]).T) for i, j in line) for line in indices]
        )
    spread = _lanes(np.abs(chains) + squares).sum(axis=1)
    repeats = probe.threads // spread.size
    return _repeated(probe, row, np.tile(_lanes(chains), (repeats, 1)), np.tile(spread, repeats))


def fed(probe: Probe, sms: int, a: np.ndarray, b: np.ndarray) -> Issued:
    """Of all rows of A and of a panel of B: a trip makes each block's tile of the product anew."""
    feed, row = FEEDS[probe.unit], DTYPES[probe.dtype]
    a, b = _as_multiplied(a, row), _as_multiplied(b, row)
    (block_m, block_n), (m, n) = feed.tile, feed.cluster

    def by_block(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Of every pair of rows and columns that a lane holds, blocks × threads."""
        lanes = rows.reshape(-1, 2, 8, rows.shape[1]).sum(1).reshape(-1, rows.shape[1])
        fours = columns.reshape(-1, block_n // 8, 4, 2, columns.shape[1]).sum((1, 3))
        tiles = lanes @ fours.reshape(-1, fours.shape[2]).T
        tiles = tiles.reshape(-1, block_m // 2, len(fours), 4).transpose(0, 2, 1, 3)
        cluster, rank = np.divmod(np.arange(sms), m * n)
        across, down = np.divmod(cluster, feed.grid(sms)[0])
        tiles = tiles[down * m + rank % m, across * n + rank // m]
        return tiles.reshape(sms, probe.threads)

    # A sum of k products of numbers without order is about as large as its factors' rows suggest.
    spread = by_block(*(np.linalg.norm(x, axis=1)[:, None] for x in (a, b))) * 2 / a.shape[1] ** 0.5
    tolerance = _roundings(row, probe.steps, 32)
    return Issued(probe.trips, by_block(a, b).astype(float), tolerance * spread, tolerance)


def cpu(probe: CpuProbe, a: np.ndarray, b: np.ndarray) -> IssuedOnCpu:
    """Of one register each, or one tile each, b with the terms of a sum beside each other."""
    row = DTYPES[probe.dtype]
    if probe.unit.endswith("vnni"):
        a = a.view(np.uint8)  # Its bytes count as unsigned.
    wide: Any = np.int64 if row.is_integer else np.float64
    x, y = decode(a, row).astype(wide), decode(b, row).astype(wide)
    if probe.unit == "amx":
        per = probe.terms // 16
        x, y = x.reshape(16, 16, per), y.reshape(16, 16, per)
        sums, sizes = (np.einsum("mrp,rnp->mn", *xy).ravel() for xy in ((x, y), (abs(x), abs(y))))
    else:
        sums, sizes = (p.reshape(probe.lanes, -1).sum(1) for p in (x * y, np.abs(x * y)))
    return IssuedOnCpu(probe, _wrapped(TURNS * sums, row), TURNS * sizes)


def _repeated(probe: Probe, row: DType, sums: np.ndarray, spread: np.ndarray) -> Issued:
    """Of the sums of one trip, a line of them a thread; all trips add up or the last one counts."""
    times = 1 if probe.restarts else probe.trips
    totals = _wrapped(times * sums, row).sum(axis=1).astype(np.float64)
    tolerance = _roundings(row, times * probe.steps, 1 if probe.lanes == 1 else 32)
    return Issued(probe.trips, totals, tolerance * times * spread.astype(np.float64), tolerance)


def _roundings(row: DType, additions: int, terms: int) -> float:
    """What so many additions of `terms` products may do to a sum, relative to its size.

    A matrix unit cuts where a vector unit rounds, and keeps 14 bits or so of fp8 sums.
    """
    if row.is_integer:
        return 0.0
    bits = {"fp64": 53, "fp8_e4m3": 13}.get(row.name, 24 if terms == 1 else 22)
    return (additions + 4 * terms) * 2.0**-bits


def _wrapped(sums: np.ndarray, row: DType) -> np.ndarray:
    """Integer sums as 32 bits hold them."""
    return sums.astype(np.int64).astype(np.int32).astype(np.int64) if row.is_integer else sums


# A tamed factor: which bits stay (sign and fraction), and which exponent it gets.
_TAMED: dict[str, tuple[Any, int, int]] = {
    "fp16": (np.uint16, 0x83FF, 0x3800),
    "bf16": (np.uint16, 0x807F, 0x3F00),
    "fp32": (np.uint32, 0x807FFFFF, 0x3F000000),
    "fp64": (np.uint64, 0x800FFFFFFFFFFFFF, (1023 - 30) << 52),
}


def _contracted(probe: Probe, row: DType, pairs: np.ndarray) -> Issued:
    """Chains that begin with the terms of their pairs and are multiplied by the first one's."""
    word, kept, exponent = _TAMED[row.name]
    first = np.ascontiguousarray(pairs[:, 0, 0]).view(word)
    a = _wide(((first & word(kept)) | word(exponent)).view(pairs.dtype), row)[:, None]
    x, b = _wide(pairs[:, :, 1], row), _wide(pairs[:, :1, 1], row)
    narrow: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "fp16": lambda y: y.astype(np.float16).astype(np.float64),
        "bf16": lambda y: _to_bits(y, 8),
        "fp32": lambda y: y.astype(np.float32).astype(np.float64),
    }
    rounded = narrow.get(row.name, lambda y: y)
    for _ in range(probe.steps * probe.trips):
        x, before = rounded(x * a + (x if row.name == "fp64" else b)), x
        if np.array_equal(x, before):
            break
    # Two roundings here for the unit's one; an error is multiplied by the factor from step to step.
    steps = probe.steps * probe.trips if row.name == "fp64" else 4 / (1 - np.abs(a).max())
    tolerance = float(steps) * 2.0 ** -{"fp16": 11, "bf16": 8, "fp32": 24, "fp64": 52}[row.name]
    tolerance = 0.0 if row.itemsize_bytes == 2 else tolerance
    sums = x.reshape(len(pairs), -1)
    allowed = tolerance * (np.abs(sums).sum(1) + float(np.finfo(np.float32).tiny))
    return Issued(probe.trips, sums.sum(1), allowed, tolerance)


def _to_bits(x: np.ndarray, bits: int) -> np.ndarray:
    """Rounded to so many bits of significand, ties to even."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)


def _multiplied_chains(probe: Probe, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x = x a + b for all steps of all trips, modulo 2³²: one trip is such a map as well."""
    a, b = a.astype(np.uint32), b.astype(np.uint32)
    total = np.zeros(a.shape[0])
    for chain in range(probe.chains):
        factor, term = np.ones(a.shape[0], np.uint32), np.zeros(a.shape[0], np.uint32)
        for step in _steps(probe):
            by = a[:, step % probe.chains]
            factor, term = factor * by, term * by + b[:, (chain + step) % probe.chains]
        x = np.zeros_like(term)
        for _ in range(probe.trips):
            x = x * factor + term
        total += x.view(np.int32)
    return total


def _steps(probe: Probe) -> range:
    return range(probe.steps)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=-1)


def _wide(raw: np.ndarray, row: DType) -> np.ndarray:
    wide: Any = np.int64 if row.is_integer else np.float64
    return decode(np.ascontiguousarray(raw), row).astype(wide)


def _as_multiplied(raw: np.ndarray, row: DType) -> np.ndarray:
    """The numbers that a matrix unit multiplies: tf32 is rounded to 11 bits, ties away from 0."""
    if row.name == "tf32":
        raw = ((raw.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return _wide(raw, row)


def _lanes(tiles: np.ndarray) -> np.ndarray:
    """Sums that each lane holds of tiles of 16 (or four times 16, a quarter a warp) rows.

    Lane 4g + t holds rows g and g + 8 and, of every eight columns, 2t and 2t + 1.
    """
    chains, m, n = tiles.shape
    split = tiles.reshape(chains, m // 16, 2, 8, n // 8, 4, 2)
    by_lane = split.transpose(1, 3, 5, 0, 2, 4, 6)  # warp, g, t, then what the lane has
    return by_lane.reshape(m * 2, -1)
