"""Readiness as a table on a screen, or as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pymicro.analysis.readiness import Readiness, Row
from pymicro.report import readiness_measured
from pymicro.report.terminal import Terminal
from pymicro.software.faults import Fault
from pymicro.software.versions import dotted


def to_json(readiness: Readiness, failures: Sequence[str] | None) -> dict[str, Any]:
    """Plain values; `failures` are the requirements that are not met, None if none were asked."""
    return {
        "device": readiness.device,
        "capability": dotted(readiness.capability),
        "verdict": readiness.verdict,
        "headline": readiness.headline,
        "score": dict(zip(("native", "of"), readiness.score, strict=True)),
        "rows": [asdict(row) for row in readiness.rows],
        "faults": [_fault(fault) for fault in readiness.faults],
        "measured": readiness_measured.to_json(readiness.measured, readiness.capability),
        "failures": None if failures is None else list(failures),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    names = ("id", "dated", "only_if", "seen", "cause", "do", "evidence", "affects", "sources")
    return {name: getattr(fault, name) for name in names}


def show(readiness: Readiness, terminal: Terminal | None = None) -> None:
    """Print the verdict, the rows, what was measured, and the known faults with their sources."""
    terminal = terminal or Terminal()
    chip = dotted(readiness.capability)
    terminal.say(f"{readiness.device}, compute capability {chip}: {readiness.headline}")
    rows = [[r.layer, r.version, r.kind, r.evidence, _seen(r)] for r in readiness.rows]
    if rows:
        titles = ("layer", "version", "code", "evidence", "what was seen")
        terminal.table(titles, rows, numbers=())
        native, judged = readiness.score
        terminal.say(f"score: {native} of {judged} layers run code made for this chip")
    readiness_measured.show(readiness.measured, readiness.capability, terminal)
    if readiness.faults:
        terminal.say("Known faults of this card with this software:")
    for fault in readiness.faults:
        when = f", {fault.dated}" if fault.dated else ""
        condition = f"if {fault.only_if}: " if fault.only_if else ""
        terminal.say(f"- {condition}{fault.seen} ({fault.evidence}{when}; {fault.id})")
        terminal.say(f"  cause: {fault.cause}")
        terminal.say(f"  -> {fault.do}; {' '.join(fault.sources)}")


def _seen(row: Row) -> str:
    return f"{row.seen}\n-> {row.do}" if row.do else row.seen
