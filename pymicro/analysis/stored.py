"""Lines of a comparison from stored results: joined on the full key, never by position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pymicro import stats
from pymicro.analysis.environments import at
from pymicro.analysis.figures import Figure, Line, Ratio, Subject, ratio
from pymicro.analysis.on_paper import topic_of
from pymicro.analysis.verdict import judge
from pymicro.dtypes import rate_unit
from pymicro.results import Result

# What the case is, and how it was measured: both must agree for a ratio.
_HOW = ("accumulate", "cache", "fill", "timer")
# Parameters that say how the work was done and not what it was.
_MEANS = ("threads", "path", "sms")
_UNITS = {"bytes_per_s": "B/s", "s_per_step": "s", "s": "s"}


@dataclass(frozen=True)
class Key:
    """What two results must share: the case, who ran it, the phase; and how it was measured."""

    benchmark: str
    who: str
    dtype: str
    params: str
    phase: str
    how: tuple[str, ...]

    @property
    def case(self) -> tuple[str, ...]:
        return (self.benchmark, self.who, self.dtype, self.params, self.phase)

    def differs(self, other: Key) -> list[str]:
        """In what two keys of one case were measured differently."""
        pairs = zip(_HOW, self.how, other.how, strict=True)
        return [f"different {word}: {a}, and {b}." for word, a, b in pairs if a != b]

    def __str__(self) -> str:
        words = (self.who, self.params, self.phase, *self.how[1:3])
        return " ".join(filter(None, words))


def topic(benchmark: str, dtype: str) -> str:
    return topic_of(dtype) if benchmark == "gemm" else benchmark


@dataclass(frozen=True)
class Entry:
    """A stored figure with its unit, and the kernel that made it."""

    figure: Figure
    unit: str
    kernel: str

    @property
    def better(self) -> Literal["more", "less"]:
        return "less" if self.unit == "s" else "more"


Table = dict[Key, Entry]


def lines(
    subjects: Sequence[Subject], rates: Mapping[str, str], force: bool = False
) -> Iterator[Line]:
    """A line a case that at least two subjects have.

    `rates` tells which rate is a benchmark's headline, as `Benchmark.rate` does. Cards are
    compared by the best of their backends as well, runs only case by case.
    """
    if not any(s.is_run for s in subjects):
        yield from _joined(subjects, [_best(s.results, rates) for s in subjects], force)
    yield from _joined(subjects, [_table(s.results, rates) for s in subjects], force)


def unmatched(subjects: Sequence[Subject], rates: Mapping[str, str]) -> list[str]:
    """A sentence for each stored case that no other subject has, with the nearest miss."""
    tables = [_table(s.results, rates) for s in subjects]
    said = []
    for place, (subject, table) in enumerate(zip(subjects, tables, strict=True)):
        others = [key for i, t in enumerate(tables) if i != place for key in t]
        for key in table:
            if key in others:
                continue
            near = [o for o in others if o.case == key.case]
            why = " ".join(key.differs(near[0])) if near else "no other side has it."
            said.append(f"only {subject.name}: {key.benchmark} {key.dtype} {key}: {why}")
    return said


def _table(results: Iterable[Result], rates: Mapping[str, str]) -> Table:
    """The newest entry of each key; a phase that was not sampled is not there."""
    table: Table = {}
    for result in results:
        for phase, times in _phases(result):
            table[_key(result, phase)] = _entry(result, times, _rate(result, rates))
    return table


def _best(results: Iterable[Result], rates: Mapping[str, str]) -> Table:
    """The best entry of each problem, whoever ran it."""
    table: Table = {}
    for result in results:
        for phase, times in _phases(result):
            key = _key(result, phase, _MEANS, "best backend")
            entry = _entry(result, times, _rate(result, rates))
            before = table.get(key)
            if before is None or _is_better(entry, before):
                table[key] = entry
    return table


def _is_better(entry: Entry, before: Entry) -> bool:
    less, more = sorted((entry, before), key=lambda e: e.figure.value)
    return (less if entry.better == "less" else more) is entry


def _phases(result: Result) -> Iterator[tuple[str, Sequence[float]]]:
    on_gpu = result.device.get("kind") == "cuda"
    yield from (
        (p, t)
        for p, t in (
            ("sustained" if on_gpu else "steady", result.times_s),
            ("burst", result.burst_s),
        )
        if t
    )


def _key(result: Result, phase: str, without: Sequence[str] = (), who: str = "") -> Key:
    p = {k: v for k, v in result.params.items() if k not in without}
    words = []
    if {"m", "n", "k"} <= p.keys():
        words.append("×".join(str(p.pop(side)) for side in ("m", "n", "k")))
    words += (f"{k}={v}" for k, v in sorted(p.items()))
    who = who or f"{result.backend} {result.variant}"
    how = tuple(str(getattr(result, name)) or "not told" for name in _HOW)
    return Key(result.benchmark, who, result.dtype, " ".join(words), phase, how)


def _rate(result: Result, rates: Mapping[str, str]) -> str:
    counted = {"flop_per_s": result.flop, "bytes_per_s": result.bytes, "s_per_step": result.steps}
    told = rates.get(result.benchmark, "")
    if counted.get(told):
        return told
    return next((name for name, count in counted.items() if count), "s")


def _entry(result: Result, times: Sequence[float], rate: str) -> Entry:
    middle, (low, high) = stats.median(times), stats.bootstrap_ci(times)
    work = {"flop_per_s": result.flop, "bytes_per_s": result.bytes}.get(rate)
    if work:
        values = (work / middle, work / high, work / low)
    else:
        steps = result.steps if rate == "s_per_step" else 1
        values = (middle / steps, low / steps, high / steps)
    kernel = str(result.details.get("kernel") or "")
    run = (result.run_id,) if result.run_id else ()
    doubt = judge(result).doubt
    figure = Figure(
        *values, len(times), sources=run, notes=(doubt,) if doubt else (),
        origin=(_origin(result, kernel),),
    )  # fmt: skip
    return Entry(figure, _UNITS.get(rate) or rate_unit(result.dtype), kernel)


def _origin(result: Result, kernel: str) -> str:
    node = result.environment.get("node") or "a machine without a name"
    driver = at(result.environment, ("driver", "version"))
    words = (
        f"run {result.run_id or 'without a name'} on {node}, {result.created_utc}",
        result.device.get("name"),
        f"{result.backend} {result.variant}",
        kernel and f"kernel {kernel}",
        driver and f"driver {driver}",
    )
    return ", ".join(filter(None, words))


def _joined(subjects: Sequence[Subject], tables: Sequence[Table], force: bool) -> Iterator[Line]:
    devices = [{r.device.get("name") for r in s.results} for s in subjects]
    done: set[Key] = set()
    for key in dict.fromkeys(key for table in tables for key in table):
        matches = [_match(key, table, force) for table in tables]
        if key in done or sum(m is not None for m in matches) < 2:
            continue
        done |= {m[0] for m in matches if m}
        yield _line(subjects, devices, key, matches, force)


def _match(key: Key, table: Table, force: bool) -> tuple[Key, Entry] | None:
    """The entry of this key; with force, else of the same case measured otherwise."""
    if key in table:
        return key, table[key]
    near = [k for k in table if k.case == key.case] if force else []
    return (near[0], table[near[0]]) if near else None


def _line(
    subjects: Sequence[Subject],
    devices: Sequence[set],
    key: Key,
    matches: Sequence[tuple[Key, Entry] | None],
    force: bool,
) -> Line:
    first = matches[0]
    why_not: list[str] = []
    ratios: list[Ratio | None] = []
    for place, match in enumerate(matches[1:], 1):
        if first is None or match is None:
            ratios.append(None)
            continue
        unlike = first[0].differs(match[0])
        if (subjects[0].is_run or subjects[place].is_run) and devices[0] != devices[place]:
            names = ", and ".join(
                " or ".join(map(str, sorted(d))) for d in (devices[0], devices[place])
            )
            unlike.append(f"different devices: {names}.")
        why_not += unlike
        made = ratio(first[1].figure, match[1].figure) if force or not unlike else None
        ratios.append(replace(made, forced=bool(unlike)) if made else None)
    entries = [m[1] if m else None for m in matches]
    entry = next(e for e in entries if e)
    kernels = dict.fromkeys(e.kernel for e in entries if e and e.kernel)
    notes = (f"different kernels: {', and '.join(kernels)}.",) if len(kernels) > 1 else ()
    return Line(
        topic=topic(key.benchmark, key.dtype),
        kind="measured",
        what=str(key),
        unit=entry.unit,
        better=entry.better,
        figures=tuple(e.figure if e else None for e in entries),
        ratios=tuple(ratios),
        why_not=tuple(dict.fromkeys(why_not)),
        notes=notes,
    )
