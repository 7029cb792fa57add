"""The expected results of streams, gathers and on-chip reads, worked out on the host."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pymicro.dtypes import DTYPES, DType
from pymicro.errors import WrongResult
from pymicro.operands import decode, encode
from pymicro.streams import SCALARS, SUMS, shuffled
from pymicro.verify import Check

_CHUNK = 2**22


class Streamed:
    """c = s, a, s a, a + b or a + s b, every element of it.

    One rounding of the result is right and so are two, with the product rounded first: an error
    of twice the unit roundoff of |a| + |s b| covers both. Integers wrap and are exact, and so
    are copies.
    """

    def __init__(self, dtype: DType, op: str, a: np.ndarray | None, b: np.ndarray | None) -> None:
        self._dtype, self._op, self._a, self._b = dtype, op, a, b
        self._s = SCALARS[dtype.name]

    def check(self, c: np.ndarray) -> Check:
        """Compare stored bits of c.

        Raises:
            WrongResult: an element is beyond tolerance; the message has its index.
        """
        exact = self._dtype.is_integer or self._op in ("write", "copy")
        tolerance = 0.0 if exact else 2 * self._dtype.unit_roundoff
        worst = 0.0
        for part in _chunks(c.size):
            error = self._exact(c, part) if exact else self._relative(c, part)
            worst = max(worst, _largest(error, tolerance, part.start))
        return Check("elementwise", worst, tolerance)

    def _exact(self, c: np.ndarray, part: slice) -> np.ndarray:
        """1 where stored bits differ."""
        return (_bits(c[part]) != _bits(self._whole(part))).astype(np.float32)

    def _whole(self, part: slice) -> np.ndarray:
        a, b, storage = self._a, self._b, self._dtype.storage
        if self._op == "write":
            value = encode(np.full(1, self._s, np.float64), self._dtype).astype(storage)
            return np.broadcast_to(value, (part.stop - part.start,))
        assert a is not None
        s = np.array(self._s, storage)
        with np.errstate(over="ignore"):
            if self._op == "copy":
                return a[part]
            if self._op == "scale":
                return a[part] * s
            assert b is not None
            return a[part] + (b[part] if self._op == "add" else b[part] * s)

    def _relative(self, c: np.ndarray, part: slice) -> np.ndarray:
        assert self._a is not None
        wide = np.longdouble if self._dtype.name == "fp64" else np.float64
        a = decode(self._a[part], self._dtype).astype(wide)
        terms = [a * self._s] if self._op == "scale" else [a]
        if self._b is not None:
            b = decode(self._b[part], self._dtype).astype(wide)
            terms.append(b * self._s if self._op == "triad" else b)
        size = sum(np.abs(t) for t in terms) + np.finfo(np.float32).tiny
        got = decode(c[part], self._dtype).astype(wide)
        return np.abs(got - sum(terms)) / size


class Summed:
    """Partial sums of a or of a b, all entries together.

    A kernel adds some thousand terms in a row and rounds at each: errors of random sign and, at
    most, one unit of a sum of that length. A single missing element shows beside that as long as
    there are fewer than some 10^8 of them in fp32.
    """

    def __init__(self, dtype: DType, op: str, a: np.ndarray, b: np.ndarray | None) -> None:
        self._sums = DTYPES[SUMS[dtype.name]]
        self._count = a.size
        wide = np.int64 if dtype.is_integer else np.longdouble
        self._expected, self._squares = wide(0), 0.0
        for part in _chunks(a.size):
            terms = decode(a[part], dtype).astype(np.int64 if dtype.is_integer else np.float64)
            if op == "dot":
                assert b is not None
                terms = terms * decode(b[part], dtype)
            self._expected += terms.sum(dtype=wide)
            self._squares += float(np.square(terms, dtype=np.float64).sum())

    def check(self, c: np.ndarray) -> Check:
        """Compare the total.

        Raises:
            WrongResult: it is off by more than rounding.
        """
        if self._sums.is_integer:
            off = (int(c.astype(np.int64).sum()) - int(self._expected)) % 2**32
            if off:
                raise WrongResult(f"wrong result: the sum is off by {min(off, 2**32 - off)}.")
            return Check("sum modulo 2^32", 0.0, 0.0)
        scale = math.sqrt(self._squares) or 1.0
        error = abs(float(c.astype(np.longdouble).sum() - self._expected)) / scale
        # Terms a thread adds in a row are at most 2^17 here; an error of each is half a unit of a
        # running sum that grows like the square root.
        tolerance = self._sums.unit_roundoff * math.sqrt(min(self._count, 2**17)) * 2
        if not error <= tolerance:
            raise WrongResult(
                f"wrong result: the sum is off by {error:.3g} of the root of the summed squares, "
                f"tolerance {tolerance:.3g}."
            )
        return Check("sum in extended precision", error, tolerance)


class Gathered:
    """c[i] = a[i stride], or with no stride a[shuffled(i)]: bit for bit."""

    def __init__(self, a: np.ndarray, stride: int | None) -> None:
        self._a, self._stride = a, stride

    def check(self, c: np.ndarray) -> Check:
        """Compare every element.

        Raises:
            WrongResult: one differs; the message has its index.
        """
        for part in _chunks(c.size):
            differs = _bits(c[part]) != _bits(self._a[self._index(part)])
            _largest(differs.astype(np.float32), 0.0, part.start)
        return Check("elementwise", 0.0, 0.0)

    def _index(self, part: slice) -> np.ndarray:
        index = np.arange(part.start, part.stop)
        return index * self._stride if self._stride else shuffled(index, self._a.size)


class OnChip:
    """Sums modulo 2^32 of the words that each SM read; unused entries are zero."""

    def __init__(self, op: str, a: np.ndarray, passes: int, sms: int) -> None:
        words = a.view(np.uint32).astype(np.int64)
        if op == "read":
            self._expected = passes * int(words.sum()) % 2**32
        else:  # Every pack of 16 bytes ends as the last pass's number and three words of the first.
            packs = words.size // 4
            self._expected = packs * (passes - 1 + int(words[1:4].sum())) % 2**32
        self._sms = sms

    def check(self, c: np.ndarray) -> Check:
        """Compare each SM's sum.

        Raises:
            WrongResult: one differs.
        """
        got = c.view(np.uint32)
        wrong = np.flatnonzero(got[: self._sms] != self._expected)
        if wrong.size or got[self._sms :].any():
            where = int(wrong[0]) if wrong.size else "none"
            raise WrongResult(f"wrong result: {wrong.size} blocks read other words, first {where}.")
        return Check("sum modulo 2^32", 0.0, 0.0)


def _largest(error: np.ndarray, tolerance: float, first: int) -> float:
    """The largest error of a chunk that begins at element `first`.

    Raises:
        WrongResult: it is beyond tolerance, or not a number.
    """
    if (error <= tolerance).all():
        return float(error.max(initial=0.0))
    at = int(np.flatnonzero(~(error <= tolerance))[0])
    raise WrongResult(
        f"wrong result: element {first + at} is off by {float(error[at]):.3g}, "
        f"tolerance {tolerance:.3g}."
    )


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
