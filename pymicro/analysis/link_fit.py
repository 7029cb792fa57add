"""What a link costs: a fixed time for each transfer and a rate behind it, t = t0 + n/B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LinkFit:
    """Attributes:
    t0_s: what a transfer takes before its first byte.
    bytes_per_s: the rate B that large transfers tend to.
    worst: the largest relative distance of a measured time from the line.
    """

    t0_s: float
    bytes_per_s: float
    worst: float

    @property
    def half_bytes(self) -> float:
        """The size that moves at half of B: there n/B is as long as t0."""
        return self.t0_s * self.bytes_per_s

    def seconds(self, nbytes: float) -> float:
        return self.t0_s + nbytes / self.bytes_per_s


def fit(points: Sequence[tuple[int, float]]) -> LinkFit:
    """The line through (bytes, seconds), each point weighted by 1/seconds².

    Times span six decades and are known to a share of themselves, so relative errors are made
    small; unweighted, the largest transfer alone would decide and t0 could come out below zero.
    Where it still does, the link has no fixed cost that these sizes show: t0 is 0.

    Raises:
        ValueError: fewer than two sizes, a time that is not positive, or times that do not grow.
    """
    if len({n for n, _ in points}) < 2:
        raise ValueError("a line needs two sizes")
    if any(not t > 0 for _, t in points):
        raise ValueError("a transfer takes some time")
    weights = [1 / t**2 for _, t in points]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, points, strict=True)) / total
    mean_t = sum(w * t for w, (_, t) in zip(weights, points, strict=True)) / total
    along = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, points, strict=True))
    both = sum(w * (n - mean_n) * (t - mean_t) for w, (n, t) in zip(weights, points, strict=True))
    slope, start = both / along, mean_t - both / along * mean_n
    if start < 0:
        squares = sum(w * n * n for w, (n, _) in zip(weights, points, strict=True))
        slope = sum(w * n * t for w, (n, t) in zip(weights, points, strict=True)) / squares
        start = 0.0
    if slope <= 0:
        raise ValueError("larger transfers take no longer: nothing tells the rate")
    line = LinkFit(start, 1 / slope, 0.0)
    return LinkFit(start, 1 / slope, max(abs(line.seconds(n) / t - 1) for n, t in points))
