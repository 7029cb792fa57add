"""The table of results: what ran, what did not and why, and findings."""

from __future__ import annotations

import io
from collections.abc import Sequence

from pymicro.report.columns import BURST_MARK, Row, bursts, rows, title, used, yielding
from pymicro.report.findings import line
from pymicro.report.terminal import Terminal
from pymicro.results import Finding, Result


def render(results: Sequence[Result], findings: Sequence[Finding]) -> str:
    out = io.StringIO()
    show(results, findings, Terminal(out, width=200))
    return out.getvalue()


def show(
    results: Sequence[Result],
    findings: Sequence[Finding] = (),
    terminal: Terminal | None = None,
    heading: str = "",
) -> None:
    """Print what ran as a table, then what did not run and why, then findings."""
    terminal = terminal or Terminal()
    if heading:
        terminal.say(heading)
    table = [row for row in rows(results) if row.verdict]
    if table:
        _draw(table, terminal)
    for row in table:
        if row.verdict and row.verdict.doubt:
            terminal.say(f"doubt: {row.result.backend} {row.result.dtype}: {row.verdict.doubt}")
    for note in dict.fromkeys(note for r in results for note in r.notes):
        terminal.say(f"note: {note}")
    for said in not_run(results):
        terminal.say(said)
    for finding in findings:
        terminal.say(line(finding))


def _draw(table: Sequence[Row], terminal: Terminal) -> None:
    columns = used(table)
    titles = [title(column, table) for column in columns]
    numbers = {i for i, column in enumerate(columns) if column.is_number}
    cells = [[column.text(row) for column in columns] for row in table]
    _, lost = terminal.leaving(titles, cells, numbers, *yielding(columns))
    lone = "burst" in (titles[i] for i in lost)
    if lone:  # A row that has no other rate would be left without any.
        place = titles.index("rate" if "rate" in titles else "burst")
        for row, texts in zip(table, cells, strict=True):
            texts[place] = texts[place] or bursts(row)
    terminal.table(titles, cells, numbers, *yielding(columns))
    if lone and any(cell.endswith(BURST_MARK) for texts in cells for cell in texts):
        terminal.say(f"{BURST_MARK} burst: the first 20 ms of work after a rest.")


def not_run(results: Sequence[Result]) -> list[str]:
    """A line for each outcome and reason, naming all cases that share it."""
    lines: dict[tuple[str, str], dict[str, list[str]]] = {}
    for r in results:
        if r.outcome != "ok":
            who = r.backend if r.variant == "none" else f"{r.backend} {r.variant}"
            dtypes = lines.setdefault((r.outcome, r.reason or ""), {}).setdefault(who, [])
            if r.dtype not in dtypes:
                dtypes.append(r.dtype)
    return [f"{outcome}: {_named(who)}: {reason}" for (outcome, reason), who in lines.items()]


def _named(who: dict[str, list[str]]) -> str:
    return ", ".join(f"{name} ({' '.join(dtypes)})" for name, dtypes in who.items())
