"""Comparing cards, or stored runs: every metric in three kinds of number that never mix.

It measures nothing and reads no file itself: subjects come in, lines go out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pymicro.analysis import environments, in_print, on_paper, stored
from pymicro.analysis.figures import KINDS, Line, Subject
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError, unknown


@dataclass(frozen=True)
class Metric:
    """A word of `--metric`: what belongs to it among data sheets, papers and benchmarks."""

    name: str
    sheet: tuple[on_paper.Quantity, ...] = ()
    groups: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()


METRICS = {
    m.name: m
    for m in (
        Metric(
            "bandwidth", on_paper.BANDWIDTH, ("bandwidth", "cache bandwidth"), ("bandwidth",)
        ),
        Metric("gemm", (), ("gemm", "tensor loop", "vector"), ("gemm", "peak")),
        Metric("latency", (), ("latency",), ("latency",)),
        Metric(
            "transfer", on_paper.TRANSFER, ("transfer", "peer", "collective"),
            ("transfer", "collective"),
        ),
        Metric("launch", (), ("launch",), ("launch",)),
        Metric("jobs", (), (), ("e2e",)),
        Metric("power", on_paper.POWER),
        Metric("price"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """What was compared, line by line.

    Attributes:
        absent: a sentence for each kind of number that a metric has none of.
        findings: what differs between the subjects and bears on all measured lines.
        unmatched: stored cases that only one subject has.
    """

    subjects: tuple[Subject, ...]
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]
    absent: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()

    @property
    def has_ratio(self) -> bool:
        return any(r is not None for line in self.lines for r in line.ratios)


@dataclass(frozen=True)
class Wish:
    """What of a comparison is asked for.

    Attributes:
        dtypes: formats of matrix products; None means all.
        prices: the user's, one a subject, in one currency.
        force: make ratios of unlike things too; each is marked.
        rates: which rate is each benchmark's headline.
    """

    metrics: tuple[str, ...]
    dtypes: tuple[str, ...] | None = None
    prices: tuple[float, ...] = ()
    force: bool = False
    rates: Mapping[str, str] | None = None


def metrics(text: str) -> tuple[str, ...]:
    """The metrics of a comma-separated list, or `all`.

    Raises:
        UsageError: one is unknown.
    """
    words = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))
    if words == ("all",):
        return tuple(METRICS)
    for word in words:
        if word not in METRICS:
            raise unknown("metric", word, (*METRICS, "all"))
    return words


def compare(subjects: Sequence[Subject], wish: Wish) -> Comparison:
    """Compare two or more subjects.

    Raises:
        UsageError: fewer than two, one of them twice, or prices that do not fit.
    """
    _check(subjects, wish)
    on_store = list(_stored(subjects, wish))
    lines: list[Line] = []
    absent: list[str] = []
    for name in wish.metrics:
        own = [*_paper(subjects, METRICS[name], wish), *_print(subjects, METRICS[name], wish)]
        own += (line for line, benchmark in on_store if benchmark in METRICS[name].benchmarks)
        lines += sorted(own, key=lambda line: (_rank(line.topic), KINDS.index(line.kind)))
        absent += _absent(subjects, METRICS[name], own, wish)
    absent = absent or _nothing(subjects, lines)
    return Comparison(
        tuple(subjects),
        wish.metrics,
        tuple(lines),
        tuple(absent),
        tuple(environments.differences(subjects)),
        tuple(stored.unmatched([_limited(s, wish) for s in subjects], wish.rates or {})),
    )


def _check(subjects: Sequence[Subject], wish: Wish) -> None:
    if len(subjects) < 2:
        raise UsageError(
            "compare needs two or more cards or result files; `pymicro devices NAME` shows one."
        )
    for place, subject in enumerate(subjects):
        for other in subjects[:place]:
            if _same(subject, other):
                raise UsageError(
                    f"'{other.name}' is named twice; name two different cards or runs."
                )
    if wish.prices and len(wish.prices) != len(subjects):
        raise UsageError(
            f"{len(wish.prices)} prices for {len(subjects)} cards: give one for each, in order."
        )
    if "price" in wish.metrics and len(wish.metrics) == 1 and not wish.prices:
        raise UsageError(
            "the catalogue holds no prices, since they change daily; give yours, one a card: "
            "--prices 2.5,0.4"
        )


def _same(a: Subject, b: Subject) -> bool:
    if a.is_run or b.is_run:
        return (a.is_run, a.name) == (b.is_run, b.name)
    return a.spec is not None and b.spec is not None and a.spec.key == b.spec.key


def _cards_differ(subjects: Sequence[Subject]) -> bool:
    """Two runs of one card have one data sheet: there is nothing to compare on paper."""
    keys = {s.spec.key for s in subjects if s.spec}
    return len(keys) > 1


def _paper(subjects: Sequence[Subject], metric: Metric, wish: Wish) -> Iterator[Line]:
    if not _cards_differ(subjects):
        return
    sheet = metric.sheet
    if metric.name == "gemm":
        sheet = tuple(on_paper.peaks(wish.dtypes or tuple(DTYPES)))
    yield from on_paper.lines(subjects, sheet)
    if metric.name == "price" and wish.prices:
        yield from on_paper.prices(subjects, wish.prices)


def _print(subjects: Sequence[Subject], metric: Metric, wish: Wish) -> Iterator[Line]:
    if metric.groups and _cards_differ(subjects):
        yield from in_print.lines(subjects, metric.groups, metric.name, wish.dtypes, wish.force)


def _stored(subjects: Sequence[Subject], wish: Wish) -> Iterator[tuple[Line, str]]:
    limited = [_limited(s, wish) for s in subjects]
    for name in dict.fromkeys(r.benchmark for s in limited for r in s.results):
        of_one = [_only(s, name) for s in limited]
        for line in stored.lines(of_one, wish.rates or {}, wish.force):
            yield line, name


def _limited(subject: Subject, wish: Wish) -> Subject:
    """The subject with those results that were asked for."""
    benchmarks = {b for name in wish.metrics for b in METRICS[name].benchmarks}
    kept = tuple(
        r
        for r in subject.results
        if r.benchmark in benchmarks and (wish.dtypes is None or r.dtype in wish.dtypes)
    )
    return replace(subject, results=kept)


def _only(subject: Subject, benchmark: str) -> Subject:
    return replace(subject, results=tuple(r for r in subject.results if r.benchmark == benchmark))


def _rank(topic: str) -> tuple[int, str]:
    """Formats in the order of their table, other topics as they come."""
    name = topic.removeprefix("gemm ")
    return (list(DTYPES).index(name), "") if name in DTYPES else (len(DTYPES), topic)


def _nothing(subjects: Sequence[Subject], lines: Sequence[Line]) -> list[str]:
    names = " or ".join(s.name for s in subjects)
    return [] if lines else [f"no figure of this kind is known of {names}."]


def _absent(
    subjects: Sequence[Subject], metric: Metric, own: Sequence[Line], wish: Wish
) -> Iterator[str]:
    stored = any(r.benchmark in metric.benchmarks for s in subjects for r in s.results)
    if all(s.is_run for s in subjects) and not stored:
        return
    kinds = {line.kind for line in own}
    names = " or ".join(s.name for s in subjects)
    if "data sheet" not in kinds and _cards_differ(subjects) and metric.name != "price":
        yield f"{metric.name}: data sheets print no such figure."
    if "published" not in kinds and metric.groups and _cards_differ(subjects):
        yield f"{metric.name}: no published figure of {names} is known here."
    if metric.name == "price" and not wish.prices:
        yield "price: the catalogue holds none; give yours with --prices, one a card."
    if metric.benchmarks and "measured" not in kinds:
        has = [s.name for s in subjects if any(r.benchmark in metric.benchmarks for r in s.results)]
        if has:
            yield f"{metric.name}: measured on {', '.join(has)}, with no counterpart on another."
        else:
            yield f"{metric.name}: no stored measurement of {names}."
