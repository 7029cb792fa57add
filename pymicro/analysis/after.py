"""What is said under a benchmark's table: a function from its results to findings, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymicro.analysis import ceiling, collectives, launches, memory, transfers
from pymicro.results import Finding, Result

FINDERS: dict[str, Callable[[Sequence[Result]], list[Finding]]] = {
    "gemm": ceiling.findings,
    "collective": collectives.findings,
    "bandwidth": memory.bandwidth_findings,
    "latency": memory.latency_findings,
    "launch": launches.findings,
    "transfer": transfers.findings,
}


def findings(benchmark: str, results: Sequence[Result]) -> list[Finding]:
    """Findings about all results of one run; none for a benchmark without a finder."""
    return FINDERS.get(benchmark, lambda results: [])(results)
