"""Cache levels from a latency sweep: plateaus of equal latency, found without being told where,
and whether the sizes at which they end agree with what the device's row says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pymicro import stats

# Neighbouring points of one level differ by less than this; the next level costs more.
_SAME_LEVEL = 1.2
# A shoulder where a ring fits two caches in part is steeper than a level and is none itself.
_FEWEST_POINTS = 2
# A cache is shared with page tables, code and others' data, and rings double from point to point.
_AGREES = 2.0


@dataclass(frozen=True)
class Level:
    """A plateau: the smallest and largest ring on it, and its median latency."""

    first_bytes: int
    last_bytes: int
    seconds: float


@dataclass(frozen=True)
class Agreement:
    """A cache of the device's row beside the plateau that ends nearest to it, None if none does."""

    name: str
    known_bytes: int
    found_bytes: int | None

    @property
    def agrees(self) -> bool:
        return self.found_bytes is not None


def levels(points: Sequence[tuple[int, float]]) -> list[Level]:
    """The plateaus of a sweep of (ring bytes, seconds a step), from the fastest on."""
    found: list[list[tuple[int, float]]] = []
    run: list[tuple[int, float]] = []
    for size, seconds in sorted(points):
        if run and seconds > _SAME_LEVEL * stats.median([s for _, s in run]):
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
    """Each known cache and the plateau that ends within a factor of two of its size.

    The last plateau is memory: it ends where the sweep did, which says nothing.
    """
    ends = [level.last_bytes for level in found[:-1]]
    result = []
    for name, known in caches.items():
        near = [end for end in ends if known / _AGREES <= end <= known * _AGREES]
        best = min(near, key=lambda end: abs(end - known), default=None)
        result.append(Agreement(name, known, best))
    return result
