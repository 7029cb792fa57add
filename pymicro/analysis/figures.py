"""The values of a comparison: who is compared, lines of figures side by side, and their ratios.

A line holds figures of one kind only (data sheet, published or measured), so kinds never mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pymicro.devices.peaks import Spec
from pymicro.results import Result

Kind = Literal["data sheet", "published", "measured"]
Better = Literal["more", "less", ""]
KINDS: tuple[Kind, ...] = ("data sheet", "published", "measured")


@dataclass(frozen=True)
class Subject:
    """One side of a comparison: a card, or results that were stored.

    Attributes:
        name: as the table's head shows it.
        spec: the card's paper figures, None where the results tell no known device.
        results: ok results of it, one a case.
        is_run: it was named as a file, a run or a label, not as a card.
        note: how the word was understood, where it left a choice among `alternatives`.
    """

    name: str
    spec: Spec | None = None
    results: tuple[Result, ...] = ()
    is_run: bool = False
    note: str | None = None
    alternatives: tuple[Spec, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure in SI units with its range or interval, and where it comes from.

    `count` figures lie between `low` and `high`; a measured one has its 95 % interval there.
    """

    value: float
    low: float
    high: float
    count: int = 1
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ratio:
    """The first subject's figure over another's.

    `low` and `high` span all comparable pairs of published figures, or follow from the ends of
    both intervals of measured ones; both are `value` for data sheets, which print no interval.
    """

    value: float
    low: float
    high: float
    pairs: int = 1
    forced: bool = False


@dataclass(frozen=True)
class Line:
    """One quantity, of one kind, for every subject.

    Attributes:
        topic: the heading under which it stands.
        ratios: the first subject over each of the others, None where there is none.
        why_not: why a ratio is missing, or what was overlooked to make a forced one.
        notes: what to know of the pairs that the ratio rests on.
        definition: what is counted, in words.
        alternative: it stands for another variant of a card whose name left a choice.
    """

    topic: str
    kind: Kind
    what: str
    unit: str
    better: Better
    figures: tuple[Figure | None, ...]
    ratios: tuple[Ratio | None, ...]
    why_not: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    definition: str = ""
    alternative: bool = False


def exact(value: float, origin: tuple[str, ...], notes: tuple[str, ...] = ()) -> Figure:
    """A figure without an interval."""
    return Figure(value, value, value, notes=notes, origin=origin)


def ratio(a: Figure | None, b: Figure | None) -> Ratio | None:
    """a over b; the interval holds every ratio of a value of a's to one of b's."""
    if a is None or b is None or not (b.low and b.value and b.high):
        return None
    return Ratio(a.value / b.value, a.low / b.high, a.high / b.low)


def ratios(figures: Sequence[Figure | None]) -> tuple[Ratio | None, ...]:
    """The first over each of the others."""
    return tuple(ratio(figures[0], other) for other in figures[1:])
