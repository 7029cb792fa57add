"""Lines of a comparison from published measurements: like with like, the rest with its reason.

Figures that were made alike share a line and have a ratio over all their pairs. Figures that no
other subject has a counterpart for share one line of their own, without a ratio.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from pymicro import stats
from pymicro.analysis.figures import Figure, Line, Ratio, Subject
from pymicro.analysis.on_paper import topic_of
from pymicro.devices.published import Published, published
from pymicro.devices.spec import DeviceSpec
from pymicro.devices.traps import (
    CHECKS,
    Unlike,
    counts_operations,
    differences,
    size_matters,
    spoilt,
)

# The catalogue of published figures writes the general name.
_FORMATS = {"fp8": "fp8_e4m3"}
_MOST_REASONS = 2
_UNIT = re.compile(r"_(gbps|tflops|cycles|ns|us|(bytes|flop)_per_clk(_per_sm)?)$")

Figures = Sequence[Published]


def lines(
    subjects: Sequence[Subject],
    groups: Sequence[str],
    topic: str,
    dtypes: Sequence[str] | None,
    force: bool = False,
) -> Iterator[Line]:
    """Lines of the metrics in `groups`; `dtypes` limits those whose format makes the figure."""
    by_quantity: dict[tuple, list[list[Published]]] = {}
    for place, subject in enumerate(subjects):
        for row in _of(subject, groups, dtypes):
            sides = by_quantity.setdefault(_quantity(row), [[] for _ in subjects])
            sides[place].append(row)
    for sides in by_quantity.values():
        yield from _lines(subjects, sides, topic, force)


def _of(
    subject: Subject, groups: Sequence[str], dtypes: Sequence[str] | None
) -> Iterator[Published]:
    key = subject.spec.key if subject.spec else None
    for row in published():
        if key and row.key == key and row.metric.group in groups:
            of_format = counts_operations(row) and row.dtype
            if dtypes is None or not of_format or _FORMATS.get(row.dtype, row.dtype) in dtypes:
                yield row


def _quantity(row: Published) -> tuple:
    """What a figure is of, apart from size and circumstances."""
    to_dram = row.metric.name.startswith("dram_") and row.metric.si_unit == "B/s"
    name = row.metric.counts if to_dram else row.metric.name
    return (name, row.dtype, row.accumulate) if counts_operations(row) else (name,)


def _lines(
    subjects: Sequence[Subject], sides: list[list[Published]], topic: str, force: bool
) -> Iterator[Line]:
    rest: list[list[Published]] = [[] for _ in subjects]
    for circumstances in _circumstances(sides):
        alike = [[r for r in side if _circumstance(r) == circumstances] for side in sides]
        if sum(map(bool, alike)) > 1:
            yield _line(subjects, alike, topic, circumstances[0], force)
        else:
            rest = [[*kept, *more] for kept, more in zip(rest, alike, strict=True)]
    if any(rest):
        # One-sided figures: the closest counterparts say why they have no ratio.
        yield _line(subjects, rest, topic, None, force, against=sides)


def _circumstances(sides: Iterable[Figures]) -> list[tuple]:
    return list(dict.fromkeys(_circumstance(r) for side in sides for r in side))


def _circumstance(row: Published) -> tuple[str, bool]:
    """What must be the same for a ratio: the size where it makes the figure, and the choice."""
    return (row.size if size_matters(row) else "", row.searched)


def _line(
    subjects: Sequence[Subject],
    sides: Sequence[Figures],
    topic: str,
    size: str | None,
    force: bool,
    against: Sequence[Figures] | None = None,
) -> Line:
    row = next(r for side in sides for r in side)
    figures = tuple(_figure(side, s) for side, s in zip(sides, subjects, strict=True))
    ratios, why_not, notes = [], [], []
    for place in range(1, len(sides)):
        first = against[0] if against and not sides[0] else sides[0]
        other = against[place] if against and not sides[place] else sides[place]
        made, reasons, said = _ratio(subjects, place, first, other, force)
        # A one-sided figure may be told apart from a counterpart, but its ratio stands elsewhere.
        ratios.append(made if sides[0] and sides[place] else None)
        why_not += reasons
        notes += said
    of_format = counts_operations(row) and row.dtype
    return Line(
        topic=topic_of(_FORMATS.get(row.dtype, row.dtype)) if of_format else topic,
        kind="published",
        what=_what(sides, row, size),
        unit=row.metric.si_unit,
        better=row.metric.better,
        figures=figures,
        ratios=tuple(ratios),
        why_not=tuple(dict.fromkeys(why_not)),
        notes=tuple(dict.fromkeys(notes)),
        definition=row.metric.counts,
    )


def _what(sides: Sequence[Figures], row: Published, size: str | None) -> str:
    names = dict.fromkeys(_UNIT.sub("", r.metric.name) for side in sides for r in side)
    text = ", ".join(names).replace("_", " ")
    if counts_operations(row) and row.accumulate:
        text += f", sums in {row.accumulate}"
    if size is None:
        several = len(_circumstances(sides)) > 1
        return f"{text}; several sizes or choices" if several else text
    return f"{text}; {size}" if size else text


def _figure(side: Figures, subject: Subject) -> Figure | None:
    if not side:
        return None
    values = [r.value for r in side]
    return Figure(
        value=stats.median(values),
        low=min(values),
        high=max(values),
        count=len(values),
        sources=tuple(dict.fromkeys(r.source.id for r in side)),
        notes=tuple(_traps(side, subject)),
        origin=tuple(_origin(r) for r in side),
    )


def _traps(side: Figures, subject: Subject) -> Iterator[str]:
    """A sentence a trap, with the sources that fall into it; of several the highest figure's."""
    spec = subject.spec if isinstance(subject.spec, DeviceSpec) else None
    for check in CHECKS:
        said = {r: text for r in side if (text := check(r, spec)) is not None}
        if said:
            ids = ", ".join(dict.fromkeys(r.source.id for r in said))
            several = " at most" if len(set(said.values())) > 1 else ""
            yield f"{ids}{several}: {said[max(said, key=lambda r: r.value)]}"


def _origin(row: Published) -> str:
    words = " ".join(filter(None, (row.dtype, row.size)))
    return f"{row.source.id}: {row.device}, {row.value:.4g} {row.metric.si_unit}, " + "; ".join(
        filter(None, (words, row.method))
    )


def _ratio(
    subjects: Sequence[Subject], place: int, first: Figures, other: Figures, force: bool
) -> tuple[Ratio | None, list[str], list[str]]:
    """The ratio over all comparable pairs, why there is none, and what to know of the pairs."""
    if not first or not other:
        missing = [s.name for s, f in ((subjects[0], first), (subjects[place], other)) if not f]
        return None, [f"no published figure of {' or '.join(missing)}."], []
    reasons: list[str] = []
    details: list[Unlike] = []
    values, forced = [], []
    for a, b in product(first, other):
        unlike = differences(a, b)
        against = [d.text for d in unlike if d.decisive]
        against += filter(None, (_spoilt(a, subjects[0]), _spoilt(b, subjects[place])))
        if against:
            reasons += against
            forced.append(a.value / b.value)
        else:
            details += unlike
            values.append(a.value / b.value)
    if values:
        return _span(values), [], _details(details)
    return (_span(forced, True) if force else None), _few(reasons), []


def _spoilt(row: Published, subject: Subject) -> str | None:
    return spoilt(row, subject.spec if isinstance(subject.spec, DeviceSpec) else None)


def _details(unlike: Iterable[Unlike]) -> list[str]:
    """What forbids no ratio and yet should be known: one sentence for all pairs."""
    values: dict[str, dict[str, None]] = {}
    for u in unlike:
        values.setdefault(u.word or u.text, {}).update(dict.fromkeys(u.values))
    named = [f"{word} ({', '.join(sorted(v))})" for word, v in values.items() if v]
    differing = [f"not the same in all pairs: {'; '.join(named)}."] if named else []
    return differing + [text for text, v in values.items() if not v]


def _span(values: Sequence[float], forced: bool = False) -> Ratio:
    return Ratio(stats.median(values), min(values), max(values), len(values), forced)


def _few(sentences: Iterable[str]) -> list[str]:
    """The most frequent first, and how many were left out."""
    counts: dict[str, int] = {}
    for said in sentences:
        counts[said] = counts.get(said, 0) + 1
    ranked = sorted(counts, key=lambda s: -counts[s])
    more = len(ranked) - _MOST_REASONS
    if more <= 0:
        return ranked
    return [*ranked[:_MOST_REASONS], f"and {more} further difference{'s' if more > 1 else ''}."]
