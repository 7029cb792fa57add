"""Findings on a screen: what was seen, and under it why it matters and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from pymicro.report.terminal import Terminal
from pymicro.results import Finding

_WORDS = {"info": "ok", "warning": "warning", "error": "ERROR"}


def show(findings: Sequence[Finding], terminal: Terminal | None = None) -> None:
    """Print findings in their order, then how many there are of each kind."""
    terminal = terminal or Terminal()
    rows = [[_word(f), _text(f)] for f in findings]
    if rows:
        terminal.table(None, rows, numbers=())
    words = [_word(f) for f in findings]
    counts = {"ok": words.count("ok"), "to know": words.count("-")}
    counts |= {w.lower(): words.count(w) for s, w in _WORDS.items() if s != "info"}
    told = [
        f"{n} {word}{'s' if n > 1 and word in ('warning', 'error') else ''}"
        for word, n in counts.items()
        if n
    ]
    terminal.say(", ".join(told) or "nothing to report")


def _word(finding: Finding) -> str:
    """`ok` for what is in order; a remedy beside it, and it is only to be known: `-`."""
    return "-" if finding.severity == "info" and finding.do else _WORDS[finding.severity]


def _text(finding: Finding) -> str:
    lines = [finding.seen]
    if finding.why:
        lines.append(f"  {finding.why}")
    if finding.do:
        lines.append(f"  -> {finding.do}")
    return "\n".join(lines)


def line(finding: Finding) -> str:
    """A finding as sentences in a line: what was seen, why it matters, what to do."""
    told = f"{finding.severity}: {finding.seen.strip()}"
    for part in filter(None, (finding.why.strip(), finding.do.strip())):
        ends = told.endswith((".", "!", "?"))
        told += f" {part[0].upper()}{part[1:]}" if ends else f"; {part}"
    return told
