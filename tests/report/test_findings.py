"""Findings on a screen: what is in order, what is to be known, and what is wrong."""

import io

from pymicro.report import findings
from pymicro.report.terminal import Terminal
from pymicro.results import Finding


def test_what_is_missing_is_not_called_ok():
    out = io.StringIO()
    found = [
        Finding("torch-absent", "info", "torch is not installed", "", "pip install torch"),
        Finding("governor", "info", "the governor is 'performance'"),
        Finding("far", "warning", "far from its GPU"),
    ]
    findings.show(found, Terminal(out, width=100))
    lines = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert next(words for words in lines if "torch" in words)[0] == "-"
    assert next(words for words in lines if "governor" in words)[0] == "ok"
    assert "1 ok, 1 to know, 1 warning" in out.getvalue()
