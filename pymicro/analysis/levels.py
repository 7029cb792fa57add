"""Cache levels from a sweep over sizes: plateaus of equal cost, found without being told where,
and whether the sizes at which they end agree with what the device's row says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pymicro import stats

# Neighbouring points of one level differ by less than this; the next level costs more.
SAME_LEVEL = 1.2
# A shoulder where a set fits two caches in part is steeper than a level and is none itself.
_FEWEST_POINTS = 2
# Sizes of rows and of sweeps are round numbers, in units of 1000 or 1024.
_ROUNDING = 1.1


@dataclass(frozen=True)
class Level:
    """A plateau: the smallest and largest set of bytes on it, and its median cost in seconds."""

    first_bytes: int
    last_bytes: int
    seconds: float


@dataclass(frozen=True)
class Agreement:
    """A cache of the device's row beside the levels of a sweep.

    `ends` is where the level ends that may be this cache: the last size that it still held, and
    the first size at which the next level is reached. None: the sweep has no end of a level.
    """

    name: str
    known_bytes: int
    ends: tuple[int, int] | None

    @property
    def agrees(self) -> bool:
        return self.ends is not None and _within(self.known_bytes, self.ends)


def levels(points: Sequence[tuple[int, float]], same: float = SAME_LEVEL) -> list[Level]:
    """The plateaus of a sweep of (bytes, seconds a step or byte), from the fastest on; within one
    a step costs less than `same` times the least.

    Sets too small to reach the best cost come first in a sweep of rates and belong to no level.
    """
    ordered = sorted(points)
    best = min((s for _, s in ordered), default=0.0)
    while ordered and ordered[0][1] > same * best:
        ordered.pop(0)
    found: list[list[tuple[int, float]]] = []
    run: list[tuple[int, float]] = []
    for size, seconds in ordered:
        if run and seconds > same * stats.median([s for _, s in run]):
            found.append(run)
            run = []
        run.append((size, seconds))
    found.append(run)
    return [
        Level(run[0][0], run[-1][0], stats.median([s for _, s in run]))
        for run in found
        if len(run) >= _FEWEST_POINTS
    ]


def agreements(found: Sequence[Level], caches: Mapping[str, int]) -> list[Agreement]:
    """Each known cache and the end of a level nearest to its size.

    A cache is somewhere between the largest set that it holds whole and the smallest that has the
    next level's cost. The last level is memory: it ends where the sweep did, which says nothing.
    """
    ends = [(a.last_bytes, b.first_bytes) for a, b in pairwise(found)]
    result = []
    for name, known in caches.items():
        nearest = min(ends, key=lambda pair: _distance(known, pair), default=None)
        result.append(Agreement(name, known, nearest))
    return result


def _within(known: int, ends: tuple[int, int]) -> bool:
    return ends[0] / _ROUNDING <= known <= ends[1] * _ROUNDING


def _distance(known: int, ends: tuple[int, int]) -> float:
    """Factor by which a size lies outside; between the two ends, how far from their middle."""
    low, high = ends
    outside = max(low / known, known / high, 1.0)
    return outside if outside > _ROUNDING else abs(known**2 / (low * high) - 1) * 1e-6
