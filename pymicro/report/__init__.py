"""Results to text. A report sees results and verdicts; it computes no statistics of its own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Formats are named in --help, which must not load what results need.
    from pymicro.results import Finding, Result

FORMATS = ("table", "json", "csv", "markdown")


def render(results: Sequence[Result], findings: Sequence[Finding], format_: str) -> str:
    """All results as one text in one of FORMATS (`table` without colour: see `report.table`)."""
    module = import_module(f"pymicro.report.{format_}")
    return module.render(results, findings)
