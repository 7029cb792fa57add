"""The split of a job's steps as text: parts, kernels, ranks, and causes in words."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pymicro.analysis.profile import Profile, Split
from pymicro.analysis.profile.parts import UNEXPLAINED
from pymicro.report.findings import line
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA
from pymicro.units import percent, si

_TITLES = ("part", "a step", "of it", "number", "mostly")
_KERNEL_TITLES = ("kernels", "units", "a step", "number", "median",
                  "rate", "of peak", "longest in", "from")  # fmt: skip
_WORDS = {
    "host": "host launches too slowly",
    "synchronisation": "after the host waited",
    "copy-wait": "blocking copy",
    "input": "data loader",
    "outside": "no operator runs",
    "allocation": "memory from the driver",
    "start-up": "loading, compiling",
    "profiler": "the profiler itself",
    "device": "between queued kernels",
    "held": "queued but held back",
    "unexplained": "unexplained",
}
_MOST_KERNEL_ROWS, _MOST_OPERATOR = 12, 80
# Stamps in a trace are whole nanoseconds; below half of one is rounding.
_LEAST_S = 0.5e-9
_UNITS = {True: "tensor", False: "plain", None: ""}


def render(profile: Profile, format_: str) -> str:
    """The profile as text in one of the report's formats."""
    if format_ == "json":
        return _json(profile)
    if format_ == "csv":
        return _csv(profile)
    if format_ == "markdown":
        return _markdown(profile)
    out = io.StringIO()
    show(profile, Terminal(out, width=200))
    return out.getvalue()


def show(profile: Profile, terminal: Terminal | None = None) -> None:
    """Print the causes, then what they rest on."""
    terminal = terminal or Terminal()
    split = profile.shown.split
    terminal.say(_heading(profile))
    for said in _said(profile):
        terminal.say(said)
    terminal.table(_TITLES, list(part_rows(split)), numbers={1, 2, 3})
    rows = list(kernel_rows(split))
    if rows:
        titles, cells = _used(_KERNEL_TITLES, rows)
        leaving = [titles.index(title) for title in _LEAVING if title in titles]
        terminal.table(titles, cells, _numbers(rows), leaving)
    if len(profile.ranks) > 1:
        terminal.table(_RANK_TITLES, list(rank_rows(profile)), numbers={1, 2, 3, 4})


# What a narrow screen leaves out of the table of kernels first.
_LEAVING = ("from", "median", "units", "of peak")


def _used(
    titles: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The columns that have a value in some row."""
    keep = [i for i in range(len(titles)) if any(row[i] for row in rows)]
    return [titles[i] for i in keep], [[row[i] for i in keep] for row in rows]


def _numbers(rows: Sequence[Sequence[str]]) -> set[int]:
    """Indices of the numeric ones among the used columns of kernels."""
    keep = [i for i in range(len(_KERNEL_TITLES)) if any(row[i] for row in rows)]
    return {place for place, i in enumerate(keep) if 2 <= i <= 6}


def _heading(profile: Profile) -> str:
    split = profile.shown.split
    n = len(split.steps_s)
    shown = f"{profile.shown.name}: " if len(profile.ranks) > 1 else ""
    return (
        f"{shown}{split.device}, {n} step{'s' if n > 1 else ''} of {si(split.step_s, 's', 4)} "
        f"({split.how}); the GPU works {percent(split.busy_s / split.wall_s)} of the time"
    )


def _said(profile: Profile) -> Iterator[str]:
    if profile.verdict:
        yield profile.verdict
    for number, cause in enumerate(profile.causes, 1):
        yield f"{number}. {cause.code}: {cause.seen}."
        if cause.do:
            yield f"   -> {cause.do}"
    for finding in profile.findings:
        yield line(finding)


def _time(s: float) -> str:
    return si(s if abs(s) >= _LEAST_S else 0.0, "s", 3)


def part_rows(split: Split) -> Iterator[list[str]]:
    """Parts of a step; the last row is their sum."""
    n = len(split.steps_s)
    for part in split.parts:
        if abs(part.s) < _LEAST_S and part.code != UNEXPLAINED:
            continue
        word = f"GPU: {part.code}" if part.is_busy else f"idle: {_WORDS[part.code]}"
        mostly = ", ".join(f"{name} ({_time(s / n)})" for name, s in part.owners[:2])
        yield [
            word, _time(part.s / n), percent(part.s / split.wall_s),
            f"{part.count / n:,.4g}" if part.count else "", mostly,
        ]  # fmt: skip
    yield ["sum", si(split.step_s, "s", 3), percent(1.0), "", ""]


def kernel_rows(split: Split) -> Iterator[list[str]]:
    n = len(split.steps_s)
    for row in split.kernels[:_MOST_KERNEL_ROWS]:
        operator = f"{row.operator} ({row.shapes})" if row.shapes else row.operator
        operator = operator if len(operator) <= _MOST_OPERATOR else f"{operator[:_MOST_OPERATOR]}…"
        yield [
            f"{row.kind.group} {row.dtype}".strip(),
            f"{_UNITS[row.kind.on_tensor_cores]} {row.kind.generation}".strip(),
            _time(row.s / n), f"{row.count / n:,.4g}", si(row.median_s, "s", 3),
            si(row.flop / row.total_s, "FLOP/s", 3) if row.flop and row.total_s else "",
            percent(row.peak_fraction) if row.peak_fraction else "", row.name, operator,
        ]  # fmt: skip


_RANK_TITLES = ("rank", "a step", "GPU works", "collectives", "waiting in them", "first cause")


def rank_rows(profile: Profile) -> Iterator[list[str]]:
    from pymicro.analysis.profile.causes import ranked

    for number, rank in enumerate(profile.ranks):
        split, n = rank.split, len(rank.split.steps_s)
        waiting = profile.waiting_s[number] if profile.waiting_s else None
        yield [
            rank.name, si(split.step_s, "s", 4), percent(split.busy_s / split.wall_s),
            si(split.part("collective").s / n, "s", 3),
            si(waiting, "s", 3) if waiting is not None else "", ranked(split)[0].code,
        ]  # fmt: skip


def _json(profile: Profile) -> str:
    document = {
        "schema": SCHEMA,
        "profile": {
            "verdict": profile.verdict or None,
            "causes": [asdict(c) for c in profile.causes],
            "ranks": [{"name": r.name, **_plain(r.split)} for r in profile.ranks],
            "waiting_s": profile.waiting_s,
        },
        "findings": [f.to_json() for f in profile.findings],
    }
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(split: Split) -> dict[str, Any]:
    own = asdict(split)
    del own["collectives"]
    return own | {"wall_s": split.wall_s, "step_s": split.step_s, "busy_s": split.busy_s}


def _csv(profile: Profile) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("rank", "part", "is_busy", "step_s", "share", "count", "mostly"))
    for rank in profile.ranks:
        n, wall_s = len(rank.split.steps_s), rank.split.wall_s
        for p in rank.split.parts:
            mostly = p.owners[0][0] if p.owners else ""
            row = (rank.name, p.code, p.is_busy, p.s / n, p.s / wall_s, p.count / n, mostly)
            writer.writerow(row)
    return out.getvalue()


def _markdown(profile: Profile) -> str:
    split = profile.shown.split
    lines = [f"## {_heading(profile)}", "", *(_escaped(s) for s in _said(profile)), ""]
    lines += _table(_TITLES, part_rows(split))
    lines += ["", *_table(_KERNEL_TITLES, kernel_rows(split))]
    if len(profile.ranks) > 1:
        lines += ["", *_table(_RANK_TITLES, rank_rows(profile))]
    return "\n".join(lines) + "\n"


def _table(titles: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    head = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return head + ["| " + " | ".join(map(_escaped, row)) + " |" for row in rows]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")
