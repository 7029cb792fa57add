"""Is the product right? A reference on the host in higher precision, made once for all backends.

Two looks at C = A·B. Some rows are computed in full, which gives the relative Frobenius error.
And every element is covered by a checksum: columns are summed with random signs in groups of
64, where one wrong element stands out of rounding noise for every format here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymicro.dtypes import DTYPES, DType
from pymicro.errors import WrongResult
from pymicro.operands import decode

_ROWS = 32
_GROUP = 64
# Rows of the largest temporary in float64 are bounded by this many bytes.
_SLAB_BYTES = 2**28


@dataclass(frozen=True)
class Check:
    """A passed check: what it was compared with, its relative error, and what was allowed."""

    reference: str
    error: float
    tolerance: float


def gemm_tolerance(dtype: DType, k: int) -> float:
    """Bound on the relative Frobenius error of a right product over `k` terms.

    Rounding the result costs the output's unit roundoff; summing `k` terms of random sign costs
    the accumulator's times sqrt(k) (Higham, Accuracy and Stability, ch. 2.8 and 4); tf32 also
    rounds, or on some paths truncates, both inputs to 11 bits. Integers are exact.
    """
    if dtype.is_integer:
        return 0.0
    output = DTYPES[dtype.output]
    bits = {"fp64": 51, "fp8_e4m3": 13}.get(dtype.name, 22)
    # fp8 matrix units keep about 14 bits of a running sum and align 32 products at a time.
    terms = k / 32 if dtype.name == "fp8_e4m3" else k
    inputs = 2.5 * 2.0**-10 if dtype.name == "tf32" else 0.0
    return output.unit_roundoff + inputs + 2.0**-bits * math.sqrt(max(terms, 1.0))


class GemmReference:
    """The expected product of A (m×k) and B, n×k (`nt`) or k×n (`nn`), given in stored bits."""

    def __init__(self, dtype: DType, layout: str, a: np.ndarray, b: np.ndarray) -> None:
        self._dtype, self._output = dtype, DTYPES[dtype.output]
        self._m, self._k = a.shape
        b = b.T if layout == "nn" else b
        self._n = b.shape[0]
        rng = np.random.default_rng(2)
        self._rows = _spread_rows(self._m, rng)
        self._columns = np.arange(self._n)
        if dtype.name == "fp64":  # Twice the precision has no BLAS: fewer elements, more bits.
            self._rows, self._columns = self._rows[:8], _spread_rows(self._n, rng)
        self._expected = self._product(a[self._rows], b)
        self._signs = rng.choice([-1.0, 1.0], self._n)
        self._sums = self._checksum_of_product(a, b)

    def check(self, c: np.ndarray) -> Check:
        """Compare stored bits of C (m×n) with the reference.

        Raises:
            WrongResult: beyond tolerance, or not a number; the message has the error.
        """
        tolerance = gemm_tolerance(self._dtype, self._k)
        got = decode(c[np.ix_(self._rows, self._columns)], self._output)
        scale = max(float(np.linalg.norm(self._expected)), np.finfo(float).tiny)
        error = float(np.linalg.norm(got.astype(self._expected.dtype) - self._expected)) / scale
        what = "float128" if self._dtype.name == "fp64" else "float64"
        if not error <= tolerance:
            raise WrongResult(
                f"wrong result: relative error {error:.3g} against {what} on sampled rows, "
                f"tolerance {tolerance:.3g}."
            )
        self._compare_checksums(c, tolerance, scale / math.sqrt(self._expected.size))
        return Check(what, error, tolerance)

    def _product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        wide: Any = np.longdouble if self._dtype.name == "fp64" else np.float64
        left = decode(a, self._dtype).astype(wide)
        parts = []
        for start, stop in _slabs(self._columns.size, self._k):
            right = decode(b[self._columns[start:stop]], self._dtype).astype(wide)
            parts.append(left @ right.T)
        return np.concatenate(parts, axis=1)

    def _checksum_of_product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        groups = np.zeros((-(-self._n // _GROUP), self._k))
        for group in range(groups.shape[0]):
            part = slice(group * _GROUP, min((group + 1) * _GROUP, self._n))
            groups[group] = self._signs[part] @ decode(b[part], self._dtype).astype(np.float64)
        sums = [
            decode(a[start:stop], self._dtype).astype(np.float64) @ groups.T
            for start, stop in _slabs(self._m, self._k)
        ]
        return np.concatenate(sums)

    def _compare_checksums(self, c: np.ndarray, tolerance: float, rms: float) -> None:
        starts = np.arange(0, self._n, _GROUP)
        width = math.sqrt(min(_GROUP, self._n))
        # The largest of 10^6 rounding errors is five times their root mean square, which itself
        # is under half of the tolerance for a right kernel.
        allowed = 3 * tolerance + (0 if self._dtype.is_integer else 1e-12)
        for start, stop in _slabs(self._m, self._n):
            values = decode(c[start:stop], self._output).astype(np.float64) * self._signs
            off = np.abs(np.add.reduceat(values, starts, axis=1) - self._sums[start:stop])
            worst = float(np.max(off)) / max(width * rms, np.finfo(float).tiny)
            if not worst <= allowed:
                row, group = np.unravel_index(int(np.nanargmax(_visible(off))), off.shape)
                raise WrongResult(
                    f"wrong result: the checksum of row {start + row}, columns from "
                    f"{group * _GROUP}, is off by {worst:.3g}, tolerance {allowed:.3g}."
                )


def _visible(off: np.ndarray) -> np.ndarray:
    """NaN counts as the worst."""
    return np.where(np.isnan(off), np.inf, off)


def _spread_rows(m: int, rng: np.random.Generator) -> np.ndarray:
    if m <= _ROWS:
        return np.arange(m)
    inner = rng.choice(m - 2, _ROWS - 2, replace=False) + 1
    return np.concatenate([[0, m - 1], np.sort(inner)])


def _slabs(rows: int, columns: int):
    step = max(1, _SLAB_BYTES // (8 * max(columns, 1)))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)
