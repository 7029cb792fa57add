"""The collectives that are timed: what each leaves behind, and how its time becomes a rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One collective.

    Attributes:
        bus: what makes bus bandwidth of algorithm bandwidth (size over time), given the number of
            ranks: the share of the size that crosses each rank's link, so that the product can be
            held against the link's own rate. As nccl-tests define it (doc/PERFORMANCE.md).
        size_is: what the size counts.
    """

    name: str
    does: str
    size_is: str
    bus: Callable[[int], float]


OPERATIONS = {
    o.name: o
    for o in (
        Operation(
            "all-reduce",
            "the sum of every rank's array, on every rank",
            "of each rank's array",
            lambda n: 2 * (n - 1) / n,
        ),
        Operation(
            "all-gather",
            "every rank's part, on every rank",
            "of all parts together",
            lambda n: (n - 1) / n,
        ),
        Operation(
            "reduce-scatter",
            "a part of the sum of every rank's array on each rank",
            "of each rank's array",
            lambda n: (n - 1) / n,
        ),
    )
}
# Format -> torch's name, and the prime below which whole inputs stay: with one more they are exact
# in it (fractions of 24, 11 and 8 bits).
FORMATS = {"fp32": ("float32", 1021), "fp16": ("float16", 1021), "bf16": ("bfloat16", 251)}
