"""A number that carries its interval, where it comes from, and how good that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

# From the best to the worst: measured here, printed by somebody who measured, the maker's paper
# times an efficiency that is stated, or neither.
Kind = Literal["measured", "published", "datasheet", "assumed"]
KINDS: tuple[Kind, ...] = ("measured", "published", "datasheet", "assumed")


@dataclass(frozen=True)
class Value:
    """A figure in SI units; `low` and `high` hold what the evidence leaves open."""

    value: float
    low: float
    high: float
    source: str
    kind: Kind

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} lies outside {self.low} to {self.high}")

    def times(self, factor: float) -> Value:
        """The same evidence for `factor` times the figure."""
        ends = sorted((self.low * factor, self.high * factor))
        return replace(self, value=self.value * factor, low=ends[0], high=ends[1])

    def only(self, value: float) -> Value:
        """This figure as if it were known to be `value`."""
        return replace(self, value=value, low=value, high=value)


def spread(value: float, share: float, source: str, kind: Kind) -> Value:
    """A figure with an interval of `share` to both sides."""
    return Value(value, value * (1 - share), value * (1 + share), source, kind)


def of_several(values: Iterable[float], source: str, kind: Kind, least: float = 0.0) -> Value:
    """The median of figures, with all of them in the interval and at least `least` to each side."""
    from pymicro import stats

    known = sorted(values)
    middle = stats.median(known)
    low = min(known[0], middle * (1 - least))
    return Value(middle, low, max(known[-1], middle * (1 + least)), source, kind)


def worst(values: Iterable[Value]) -> Kind:
    """The weakest evidence among several."""
    return max((v.kind for v in values), key=KINDS.index, default="assumed")
