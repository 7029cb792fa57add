"""One JSON document: `{"schema": 1, "results": [...], "findings": [...]}`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from pymicro.report.records import record
from pymicro.results import SCHEMA, Finding, Result


def render(results: Sequence[Result], findings: Sequence[Finding]) -> str:
    document = {
        "schema": SCHEMA,
        "results": [record(r) for r in results],
        "findings": [asdict(f) for f in findings],
    }
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
