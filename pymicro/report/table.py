"""Tables for a terminal, by rich; plain ASCII where the terminal can do no more."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from pymicro.report.columns import Row, rows, used
from pymicro.results import Finding, Result

_ASCII = str.maketrans({"±": "+-", "³": "^3", "×": "x", "·": "*", "µ": "u", "–": "-", "…": "..."})


def render(results: Sequence[Result], findings: Sequence[Finding]) -> str:
    out = io.StringIO()
    show(results, findings, out, width=200)
    return out.getvalue()


def show(
    results: Sequence[Result],
    findings: Sequence[Finding],
    out: TextIO | None = None,
    width: int | None = None,
) -> None:
    """Print the table of what ran, then what did not and why, then findings."""
    console, ascii_only = _console(out, width)
    table = [row for row in rows(results) if row.verdict]

    def say(text: str) -> str:
        return text.translate(_ASCII) if ascii_only else text

    if table:
        console.print(_table(table, say, ascii_only))
    for result in results:
        if result.outcome != "ok":
            variant = f" {result.variant}" if result.variant else ""
            head = f"{result.backend}{variant} {result.dtype}"
            console.print(say(f"{result.outcome}: {head}: {result.reason}"), highlight=False)
    for row in table:
        if row.verdict and row.verdict.doubt:
            console.print(say(f"doubt: {row.result.backend}: {row.verdict.doubt}"))
    for finding in findings:
        console.print(
            say(f"{finding.severity}: {finding.seen} {finding.why} {finding.do}"), highlight=False
        )


def _table(table: Sequence[Row], say, ascii_only: bool) -> Any:
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.ASCII if ascii_only else box.SIMPLE_HEAD, pad_edge=False)
    columns = used(table)
    for column in columns:
        drawn.add_column(
            say(column.title), justify="right" if column.is_number else "left", overflow="fold"
        )
    for row in table:
        drawn.add_row(*(say(c.text(row)) for c in columns))
    return drawn


def _console(out: TextIO | None, width: int | None) -> tuple[Any, bool]:
    from rich.console import Console

    stream = out or sys.stdout
    ascii_only = not _can_encode(stream)
    return Console(file=stream, width=width, soft_wrap=False, markup=False), ascii_only


def _can_encode(stream: TextIO) -> bool:
    try:
        "±³×·µ─│".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
