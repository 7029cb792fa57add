"""The expected results of streams, gathers and on-chip reads, worked out on the host.

Inputs are given as one period of arrays that repeat themselves (`operands.period`), and results
are looked over where they lie (`outputs`): their first period against what the host expects, all
else against the period before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pymicro.dtypes import DTYPES, DType
from pymicro.errors import WrongResult
from pymicro.operands import decode, encode, period
from pymicro.outputs import HostOutput, Output, as_bits, chunks
from pymicro.streams import SCALARS, SUMS, shuffled
from pymicro.verify import Check

# A gather in random order repeats nothing: pieces of it are compared, spread over the whole.
_PIECES, _PIECE = 64, 4096


class _InPlace:
    """References that look at a result piece by piece."""

    def check(self, c: np.ndarray) -> Check:
        """Compare stored bits of c.

        Raises:
            WrongResult: an element is beyond tolerance; the message has its index.
        """
        return self.check_in_place(HostOutput(c))

    def check_in_place(self, c: Output) -> Check:
        """The same without a copy of c on the host."""
        raise NotImplementedError


class Streamed(_InPlace):
    """c = s, a, s a, a + b or a + s b, every element of it.

    One rounding of the result is right and so are two, with the product rounded first: an error
    of twice the unit roundoff of |a| + |s b| covers both, or of the smallest normal number where
    that is larger. Integers wrap and are exact, and so are copies.
    """

    def __init__(self, dtype: DType, op: str, a: np.ndarray | None, b: np.ndarray | None) -> None:
        self._dtype, self._op, self._a, self._b = dtype, op, a, b
        self._s = SCALARS[dtype.name]

    def check_in_place(self, c: Output) -> Check:
        exact = self._dtype.is_integer or self._op in ("write", "copy")
        tolerance = 0.0 if exact else 2 * self._dtype.unit_roundoff
        worst, first = 0.0, period(c.size)
        for part in chunks(first):
            got = c.part(part.start, part.stop)
            error = self._exact(got, part) if exact else self._relative(got, part)
            worst = max(worst, _largest(error, tolerance, part.start))
        _refuse_break(c, first)
        return Check("elementwise", worst, tolerance)

    def _exact(self, got: np.ndarray, part: slice) -> np.ndarray:
        """1 where stored bits differ."""
        return (as_bits(got) != as_bits(self._whole(part))).astype(np.float32)

    def _whole(self, part: slice) -> Any:
        a: Any = self._a
        b: Any = self._b
        storage = self._dtype.storage
        if self._op == "write":
            value = encode(np.full(1, self._s, np.float64), self._dtype).astype(storage)
            return np.broadcast_to(value, (part.stop - part.start,))
        s = np.array(self._s, storage)
        with np.errstate(over="ignore"):
            if self._op == "copy":
                return a[part]
            if self._op == "scale":
                return a[part] * s
            return a[part] + (b[part] if self._op == "add" else b[part] * s)

    def _relative(self, stored: np.ndarray, part: slice) -> Any:
        assert self._a is not None
        wide: Any = np.longdouble if self._dtype.name == "fp64" else np.float64
        a: Any = decode(self._a[part], self._dtype).astype(wide)
        terms = [a * self._s] if self._op == "scale" else [a]
        if self._b is not None:
            b: Any = decode(self._b[part], self._dtype).astype(wide)
            terms.append(b * self._s if self._op == "triad" else b)
        size = np.maximum(sum(np.abs(t) for t in terms), self._dtype.smallest_normal)
        got = decode(stored, self._dtype).astype(wide)
        return np.abs(got - sum(terms)) / size


class Summed:
    """Partial sums of a or of a b, all entries together.

    A kernel adds some thousand terms in a row and rounds at each: errors of random sign and, at
    most, one unit of a sum of that length. A single missing element shows beside that as long as
    there are fewer than some 10^8 of them in fp32.
    """

    def __init__(
        self, dtype: DType, op: str, count: int, a: np.ndarray, b: np.ndarray | None
    ) -> None:
        """`a` and `b` are a period of `count` elements."""
        self._sums = DTYPES[SUMS[dtype.name]]
        self._count = count
        wide: Any = np.int64 if dtype.is_integer else np.longdouble
        self._expected, self._squares = wide(0), 0.0
        times, rest = divmod(count, a.size)
        for elements, weight in ((a.size, times), (rest, 1)):
            for part in chunks(elements):
                terms = decode(a[part], dtype).astype(np.int64 if dtype.is_integer else np.float64)
                if op == "dot":
                    assert b is not None
                    terms = terms * decode(b[part], dtype)
                with np.errstate(over="ignore"):  # What counts of integers is modulo 2^32.
                    self._expected += wide(weight) * terms.sum(dtype=wide)
                self._squares += weight * float(np.square(terms, dtype=np.float64).sum())

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


class Gathered(_InPlace):
    """c[i] = a[i stride], or with no stride a[shuffled(i)]: bit for bit.

    With a stride c repeats itself as a does. In random order, each element of a once, c has the
    sum of a's bits: compared beside pieces of c, it shows whatever was left out.
    """

    def __init__(self, a: np.ndarray, count: int, stride: int | None) -> None:
        self._a, self._count, self._stride = a, count, stride

    def check_in_place(self, c: Output) -> Check:
        first = period(c.size)
        if self._stride or first == c.size:
            for part in chunks(first):
                self._compare(c, part)
            if self._stride:
                _refuse_break(c, first)
            return Check("elementwise", 0.0, 0.0)
        piece = min(_PIECE, c.size)
        for start in np.linspace(0, c.size - piece, _PIECES).astype(np.int64).tolist():
            self._compare(c, slice(start, start + piece))
        if (off := (c.bit_sum() - self._bit_sum()) % 2**64) != 0:
            raise WrongResult(f"wrong result: the sum of all elements' bits is off by {off}.")
        return Check("pieces, and the sum of all bits", 0.0, 0.0)

    def _compare(self, c: Output, part: slice) -> None:
        differs = as_bits(c.part(part.start, part.stop)) != as_bits(self._a[self._index(part)])
        _largest(differs.astype(np.float32), 0.0, part.start)

    def _bit_sum(self) -> int:
        times, rest = divmod(self._count, self._a.size)
        whole, cut = HostOutput(self._a), HostOutput(self._a[:rest])
        return (times * whole.bit_sum() + cut.bit_sum()) % 2**64

    def _index(self, part: slice) -> np.ndarray:
        index = np.arange(part.start, part.stop)
        index = index * self._stride if self._stride else shuffled(index, self._count)
        return index % self._a.size


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


def _refuse_break(c: Output, first: int) -> None:
    """Compare what follows the first period with the period before.

    Raises:
        WrongResult: an element differs; the message has its index.
    """
    if (at := c.first_break(first)) < c.size:
        raise WrongResult(
            f"wrong result: element {at} is not what the equal element {at - first} is."
        )
