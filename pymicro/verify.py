"""Is the product right? A reference on the host in higher precision, made once for all backends.

Two looks at C = A·B. Some rows are computed in full, which gives the relative Frobenius error.
And every element is covered by a checksum: columns are summed with random weights in groups of
32, where one wrong element stands out of what rounding can do, for every format here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pymicro.devices.cpu import usable_cores
from pymicro.dtypes import DTYPES, DType
from pymicro.errors import Unavailable, WrongResult
from pymicro.operands import decode

_ROWS = 32
_GROUP = 32
# Longest side of the blocks in which operands are widened to float64, and their elements: 8 MiB
# each, one a thread.
_DEPTH, _CELLS = 4096, 2**20


@dataclass(frozen=True)
class Check:
    """A passed check: what it was compared with, its relative error, and what was allowed."""

    reference: str
    error: float
    tolerance: float


def summing_error(dtype: DType, k: int) -> float:
    """Error of a right sum of `k` products, relative to the root of their summed squares.

    Roundings of random sign grow with sqrt(k) (Higham, Accuracy and Stability, ch. 2.8 and 4).
    """
    if dtype.is_integer:
        return 0.0
    # Two inputs cut, not rounded, to the precision are off by up to twice their roundoff each.
    inputs = 5 * dtype.unit_roundoff if dtype.cuts_inputs else 0.0
    return inputs + 2.0**-dtype.sum_bits * math.sqrt(max(k / dtype.sum_step, 1.0))


class GemmReference:
    """The expected product of A, m×k or k×m (`tn`), and B, n×k (`nt`) or k×n, in stored bits."""

    def __init__(self, dtype: DType, layout: str, a: np.ndarray, b: np.ndarray) -> None:
        """Compute the reference.

        Raises:
            Unavailable: the true product does not fit the output's format.
        """
        self._dtype, self._output = dtype, DTYPES[dtype.output]
        a, b = (a.T if layout == "tn" else a), (b if layout == "nt" else b.T)
        (m, self._k), self._n = a.shape, b.shape[0]
        self._summing = summing_error(dtype, self._k)
        rng = np.random.default_rng(2)
        self._rows, self._columns = _spread(m, _ROWS, rng), np.arange(self._n)
        wide: Any = np.float64
        if dtype.name == "fp64":  # Twice the precision has no BLAS: fewer elements, more bits.
            self._rows, self._columns = _spread(m, 8, rng), _spread(self._n, _ROWS, rng)
            wide = np.longdouble
        left, right = a[self._rows], b[self._columns]
        self._expected, squares = _products(left, right, dtype, wide)
        # The size that rounding errors of the sum are relative to: root of the summed squares.
        self._spread = np.sqrt(squares)
        self._refuse_overflow()
        # Real weights: with signs alone, two swapped elements would often cancel.
        self._weights = rng.uniform(0.25, 1.75, self._n) * rng.choice([-1.0, 1.0], self._n)
        self._sums, squares = _checksums(a, b, self._weights, dtype)
        self._sum_spread = np.sqrt(squares)

    def check(self, c: np.ndarray) -> Check:
        """Compare stored bits of C (m×n) with the reference.

        Raises:
            WrongResult: beyond tolerance, or not a number; the message has the error.
        """
        got = decode(c[np.ix_(self._rows, self._columns)], self._output)
        scale = max(float(np.linalg.norm(self._expected)), np.finfo(float).tiny)
        spread = float(np.linalg.norm(self._spread))
        tolerance = self._output.unit_roundoff + self._summing * spread / scale
        off = got.astype(self._expected.dtype) - self._expected
        error = float(np.linalg.norm(off)) / scale
        bits = np.finfo(np.longdouble).nmant + 1
        what = f"longdouble ({bits} bits)" if self._dtype.name == "fp64" else "float64"
        if not error <= tolerance:
            raise WrongResult(
                f"wrong result: relative error {error:.3g} against {what} on sampled rows, "
                f"tolerance {tolerance:.3g}."
            )
        self._compare_checksums(c)
        return Check(what, error, tolerance)

    def _refuse_overflow(self) -> None:
        largest = float(np.max(np.abs(self._expected), initial=0))
        # Five times the root of the summed squares: elements that were not sampled.
        likely = max(largest, 5 * float(np.max(self._spread, initial=0)))
        if likely > self._output.largest:
            raise Unavailable(
                f"the product reaches {likely:.3g}, and {self._output.name} ends at "
                f"{self._output.largest:.0f}; take a smaller k or another fill."
            )

    def _compare_checksums(self, c: np.ndarray) -> None:
        starts = np.arange(0, self._n, _GROUP)
        margin = 6 * self._summing + 2.0**-48 * self._k**0.5
        usual = margin + 3 * self._output.unit_roundoff

        def compare(span: tuple[int, int]) -> str | None:
            start, stop = span
            values = decode(c[start:stop], self._output) * self._weights
            off = np.abs(np.add.reduceat(values, starts, axis=1) - self._sums[start:stop])
            spread = self._sum_spread[start:stop]
            # What rounding usually does is bounded cheaply; only rows beyond it are looked at.
            odd = np.flatnonzero(~np.all(off <= usual * spread, axis=1))
            allowed = self._allowed(values[odd], starts, margin * spread[odd])
            beyond = ~(np.isfinite(off[odd]) & (off[odd] <= allowed))
            if not beyond.any():
                return None
            row, group = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
            return (
                f"wrong result: the checksum of row {start + odd[row]}, columns from "
                f"{group * _GROUP}, is off by {off[odd[row], group]:.3g}, tolerance "
                f"{allowed[row, group]:.3g}."
            )

        spans = _spans(c.shape[0], max(1, _CELLS // max(self._n, 1)))
        for said in _in_parallel(compare, spans):
            if said is not None:
                raise WrongResult(said)

    def _allowed(self, values: np.ndarray, starts: np.ndarray, summing: np.ndarray) -> np.ndarray:
        """What rounding can do to the weighted sums of groups of `values`.

        Roundings of the output lie evenly within the unit roundoff u of an element, so four
        times the root of their summed squares is 4·sqrt(3) of their standard deviation; and the
        sum of all of them is a bound. `summing` is what errors of the sums over k may add.
        """
        sizes = np.add.reduceat(np.abs(values), starts, axis=1)
        if self._dtype.is_integer:
            return 2.0**-40 * sizes  # Exact but for the weights' own rounding.
        squares = np.add.reduceat(np.square(values), starts, axis=1)
        return np.fmin(sizes, 4 * np.sqrt(squares)) * self._output.unit_roundoff + summing


class BatchReference:
    """The expected products of several A and B, batch first, each against its own reference."""

    def __init__(self, dtype: DType, layout: str, a: np.ndarray, b: np.ndarray) -> None:
        """Compute the references.

        Raises:
            Unavailable: a true product does not fit the output's format.
        """
        self._products = [GemmReference(dtype, layout, *pair) for pair in zip(a, b, strict=True)]

    def check(self, c: np.ndarray) -> Check:
        """Compare all of C (batch×m×n); returns the check of the worst.

        Raises:
            WrongResult: one is beyond tolerance, or not a number.
        """
        checks = [one.check(of) for one, of in zip(self._products, c, strict=True)]
        return max(checks, key=lambda check: check.error)


def _products(
    left: np.ndarray, right: np.ndarray, dtype: DType, wide: Any
) -> tuple[np.ndarray, np.ndarray]:
    """left · rightᵀ in the type `wide`, and in float64 that of all squares, block by block."""
    out = np.zeros((left.shape[0], right.shape[0]), wide)
    squares = np.zeros(out.shape)
    for low, high in _spans(left.shape[1], _DEPTH):
        first = decode(left[:, low:high], dtype).astype(wide)
        first_squares = np.square(first.astype(np.float64))

        def multiply(span: tuple[int, int]) -> None:
            second = decode(right[slice(*span), low:high], dtype).astype(wide)  # noqa: B023
            out[:, slice(*span)] += first @ second.T  # noqa: B023
            second = np.square(second.astype(np.float64))
            squares[:, slice(*span)] += first_squares @ second.T  # noqa: B023

        _in_parallel(multiply, _spans(right.shape[0], max(1, _CELLS // (high - low))))
    return out, squares


def _checksums(
    a: np.ndarray, b: np.ndarray, weights: np.ndarray, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """A · (weighted sums of groups of rows of B)ᵀ, m × groups; and the same of all squares."""
    groups = -(-b.shape[0] // _GROUP)
    sums, squares = (np.zeros((a.shape[0], groups)) for _ in range(2))
    for low, high in _spans(a.shape[1], _DEPTH):
        summed, squared = (np.empty((groups, high - low)) for _ in range(2))

        def group(span: tuple[int, int]) -> None:
            first, last = span
            part = slice(first * _GROUP, min(last * _GROUP, b.shape[0]))
            numbers = decode(b[part, low:high], dtype) * weights[part, None]  # noqa: B023
            starts = np.arange(0, len(numbers), _GROUP)
            summed[first:last] = np.add.reduceat(numbers, starts)  # noqa: B023
            squared[first:last] = np.add.reduceat(np.square(numbers), starts)  # noqa: B023

        def multiply(span: tuple[int, int]) -> None:
            rows = decode(a[slice(*span), low:high], dtype).astype(np.float64)  # noqa: B023
            sums[slice(*span)] += rows @ summed.T  # noqa: B023
            squares[slice(*span)] += np.square(rows) @ squared.T  # noqa: B023

        depth = high - low
        _in_parallel(group, _spans(groups, max(1, _CELLS // (depth * _GROUP))))
        _in_parallel(multiply, _spans(a.shape[0], max(1, _CELLS // depth)))
    return sums, squares


def _in_parallel(work: Callable[[tuple[int, int]], Any], spans: Iterator[tuple[int, int]]) -> list:
    """Work on all spans; numpy leaves the interpreter lock while it computes.

    BLAS gets one thread each: with its usual one a core, sixteen cores fought over 256 threads.
    """
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(work, spans))


def _spread(count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of at most `most` of `count` rows, the first and last among them."""
    if count <= most:
        return np.arange(count)
    inner = rng.choice(count - 2, most - 2, replace=False) + 1
    return np.concatenate([[0, count - 1], np.sort(inner)])


def _spans(count: int, step: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + step, count)) for start in range(0, count, step))
