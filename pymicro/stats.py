"""Numbers in, numbers out: medians, intervals, drift. It knows no clocks, units or devices."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from functools import lru_cache

# Resamples for an interval: 1000 leaves the ends of a 95 % interval with 25 resamples each.
_RESAMPLES = 1000
# Beyond this many samples ranks give the same interval for the cost of sorting.
_MANY = 40


def median(samples: Sequence[float]) -> float:
    """The median; raises ValueError on no samples."""
    if not samples:
        raise ValueError("no samples")
    return float(statistics.median(samples))


def bootstrap_ci(samples: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """95 % percentile-bootstrap interval of the median (Efron and Tibshirani 1993, ch. 13).

    One sample has no interval; its value is returned twice. The seed makes it reproducible.
    """
    return _bootstrap(tuple(samples), seed)


@lru_cache(maxsize=256)
def _bootstrap(samples: tuple[float, ...], seed: int) -> tuple[float, float]:
    if not samples:
        raise ValueError("no samples")
    if len(samples) > _MANY:
        return _order_statistics(sorted(samples))
    draw = random.Random(seed)
    medians = sorted(
        statistics.median(draw.choices(samples, k=len(samples))) for _ in range(_RESAMPLES)
    )
    tail = round(0.025 * _RESAMPLES)
    return float(medians[tail]), float(medians[-tail - 1])


def _order_statistics(ordered: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a median by ranks (Conover 1999, ch. 3.2): n/2 ± 1.96·sqrt(n)/2.

    What the percentile bootstrap of a median tends to, without its cost.
    """
    middle, half = len(ordered) / 2, 0.98 * math.sqrt(len(ordered))
    return float(ordered[math.floor(middle - half)]), float(ordered[math.ceil(middle + half) - 1])


def drift(samples: Sequence[float]) -> float:
    """Relative change of the median from the first third of the samples to the last third."""
    third = len(samples) // 3
    if third == 0:
        return 0.0
    first, last = median(samples[:third]), median(samples[-third:])
    return (last - first) / first if first else math.inf


def is_steady(samples: Sequence[float], spread: float, drift_limit: float) -> bool:
    """Whether the interval of the median is within `spread` of it and nothing drifts."""
    middle = median(samples)
    low, high = bootstrap_ci(samples)
    return high - low <= 2 * spread * middle and abs(drift(samples)) <= drift_limit


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Median of theirs/ours over pairs with its 95 % interval: above 1 means ours is faster.

    Raises ValueError unless both have the same, positive number of samples.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError("pairs need the same number of samples on both sides")
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, high = bootstrap_ci(ratios)
    return median(ratios), low, high
