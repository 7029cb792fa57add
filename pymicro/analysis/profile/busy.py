"""Time of the device: each moment belongs to one operation, so that the parts add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]
# Stamps are rounded to nanoseconds: a shorter gap is none, a shorter overlap neither.
ROUNDING_S = 2e-9


@dataclass(frozen=True)
class Union:
    """Disjoint intervals in order."""

    start_s: Times
    end_s: Times

    def covered_s(self, at_s: Times | float) -> Times:
        """How much of the time before each moment is covered."""
        if not len(self.start_s):
            return np.zeros_like(np.asarray(at_s, dtype=float))
        knots = np.column_stack((self.start_s, self.end_s)).ravel()
        sums = np.concatenate(([0.0], np.cumsum(self.end_s - self.start_s)))
        values = np.column_stack((sums[:-1], sums[1:])).ravel()
        return np.asarray(np.interp(at_s, knots, values))

    def overlap_s(self, start_s: Times, end_s: Times) -> Times:
        """How much of each interval is covered."""
        return np.maximum(self.covered_s(end_s) - self.covered_s(start_s), 0)

    def gaps(self, begin_s: float, end_s: float) -> tuple[Times, Times]:
        """What is not covered between two moments."""
        low = np.concatenate(([begin_s], np.clip(self.end_s, begin_s, end_s)))
        high = np.concatenate((np.clip(self.start_s, begin_s, end_s), [end_s]))
        keep = high > low
        return low[keep], high[keep]


def union(start_s: Times, end_s: Times) -> Union:
    """The moments that any of the intervals covers."""
    if not len(start_s):
        return Union(start_s, end_s)
    order = np.argsort(start_s, kind="stable")
    start_s, end_s = start_s[order], np.maximum.accumulate(end_s[order])
    first = np.concatenate(([True], start_s[1:] > end_s[:-1] + ROUNDING_S))
    last = np.concatenate((first[1:], [True]))
    return Union(start_s[first], end_s[last])


def exclusive(
    start_s: Times, end_s: Times, layer: npt.NDArray[np.int64], begin_s: float, stop_s: float
) -> tuple[Times, Union]:
    """Seconds between two moments that belong to each operation alone, and the busy moments.

    Of operations that run at once the lower layer takes the time, and within a layer the one that
    began first: a collective or a copy that hides behind arithmetic costs nothing.

    Args:
        layer: 0 arithmetic, 1 copies, 2 collectives.
    """
    low, high = np.clip(start_s, begin_s, stop_s), np.clip(end_s, begin_s, stop_s)
    own = np.zeros_like(low)
    below = Union(np.empty(0), np.empty(0))
    for number in range(3):
        chosen = np.flatnonzero(layer == number)
        chosen = chosen[np.argsort(low[chosen], kind="stable")]
        if not len(chosen):
            continue
        reached = np.concatenate(([-np.inf], np.maximum.accumulate(high[chosen])[:-1]))
        a, b = np.maximum(low[chosen], reached), high[chosen]
        b = np.maximum(a, b)
        own[chosen] = (b - a) - below.overlap_s(a, b)
        both = (
            np.concatenate((below.start_s, low[chosen])),
            np.concatenate((below.end_s, high[chosen])),
        )
        below = union(*both)
    keep = below.end_s > below.start_s
    return np.maximum(own, 0), Union(below.start_s[keep], below.end_s[keep])
