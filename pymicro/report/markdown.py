"""A markdown table, for issues and notes."""

from __future__ import annotations

from collections.abc import Sequence

from pymicro.report.columns import rows, title, used
from pymicro.results import Finding, Result


def render(results: Sequence[Result], findings: Sequence[Finding]) -> str:
    ok = [row for row in rows(results) if row.verdict]
    columns = used(ok)
    lines = []
    if ok:
        lines.append("| " + " | ".join(title(c, ok) for c in columns) + " |")
        lines.append("|" + "|".join("---:" if c.is_number else "---" for c in columns) + "|")
        lines += ["| " + " | ".join(_cell(c.text(r)) for c in columns) + " |" for r in ok]
    other = [r for r in results if r.outcome != "ok"]
    if other:
        lines += ["", *(f"- {r.backend} {r.dtype} {r.outcome}: {_cell(r.reason)}" for r in other)]
    if findings:
        lines += ["", *(f"- {f.severity}: {_cell(f.seen)} {_cell(f.do)}" for f in findings)]
    return "\n".join(lines).strip() + "\n"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")
