"""A comparison as plain data, in SI units without prefixes: JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pymicro.analysis.compare import Comparison
from pymicro.analysis.figures import Line
from pymicro.results import SCHEMA

_COLUMNS = (
    "topic", "kind", "quantity", "unit", "better", "subject", "value", "low", "high", "count",
    "ratio_first_over_this", "ratio_low", "ratio_high", "ratio_pairs", "ratio_forced",
    "why_not", "notes", "sources",
)  # fmt: skip


def as_json(found: Comparison) -> str:
    """One document; a ratio stands beside the subject that the first is divided by."""
    document = {
        "schema": SCHEMA,
        "comparison": {
            "metrics": found.metrics,
            "subjects": [_subject(s) for s in found.subjects],
            "lines": [_line(found, line) for line in found.lines],
            "absent": found.absent,
            "unmatched": found.unmatched,
        },
        "findings": [
            {"code": "environment-differs", "severity": "warning", "seen": said}
            for said in found.findings
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def as_csv(found: Comparison) -> str:
    """A row a figure, so that any number of subjects has the same columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line in found.lines:
        writer.writerows(_rows(found, line))
    return out.getvalue()


def _subject(subject: Any) -> dict[str, Any]:
    return {
        "name": subject.name,
        "key": subject.spec.key if subject.spec else None,
        "is_run": subject.is_run,
        "results": len(subject.results),
        "note": subject.note,
    }


def _line(found: Comparison, line: Line) -> dict[str, Any]:
    figures = [asdict(f) if f else None for f in line.figures]
    ratios = [asdict(r) if r else None for r in line.ratios]
    names = [s.name for s in found.subjects]
    return {
        "topic": line.topic,
        "kind": line.kind,
        "quantity": line.what,
        "definition": line.definition or None,
        "unit": line.unit,
        "better": line.better or None,
        "figures": dict(zip(names, figures, strict=True)),
        "ratios_of_first_over": dict(zip(names[1:], ratios, strict=True)),
        "why_not": line.why_not,
        "notes": line.notes,
        "is_alternative": line.alternative,
    }


def _rows(found: Comparison, line: Line) -> Iterator[dict[str, Any]]:
    ratios = (None, *line.ratios)
    for subject, figure, ratio in zip(found.subjects, line.figures, ratios, strict=True):
        row: dict[str, Any] = {
            "topic": line.topic, "kind": line.kind, "quantity": line.what, "unit": line.unit,
            "better": line.better, "subject": subject.name,
        }  # fmt: skip
        if figure is not None:
            row |= {"value": figure.value, "low": figure.low, "high": figure.high}
            row |= {"count": figure.count, "sources": " ".join(figure.sources)}
        if ratio is not None:
            row |= {"ratio_first_over_this": ratio.value, "ratio_low": ratio.low}
            row |= {"ratio_high": ratio.high, "ratio_pairs": ratio.pairs}
            row["ratio_forced"] = ratio.forced
        row["why_not"] = " ".join(line.why_not)
        row["notes"] = " ".join((*line.notes, *(figure.notes if figure else ())))
        yield row
