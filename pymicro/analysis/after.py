"""What is said under a benchmark's table: a function from its results to findings, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymicro.analysis import ceiling, collectives, launches, memory, transfers
from pymicro.analysis.verdict import judge
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
    own = FINDERS.get(benchmark, lambda results: [])(results)
    return [*own, *unsteady(results)]


# Half an interval over its median, beyond which a row is no figure to compare with.
_UNSTEADY = 0.1


def unsteady(results: Sequence[Result]) -> list[Finding]:
    """One finding for all rows of a CPU whose interval is wide."""
    halves = []
    for result in results:
        if result.outcome == "ok" and result.device.get("kind") == "cpu":
            rate = judge(result).rates[0]
            halves.append((rate.high - rate.low) / 2 / rate.value)
    wide = [half for half in halves if half > _UNSTEADY]
    if not wide:
        return []
    rows = f"{len(wide)} of {len(halves)} rows"
    seen = f"the interval of {rows} is wider than ±10 %, up to ±{100 * max(wide):.0f} %"
    why = "something else took time while they were measured"
    return [Finding("unsteady", "info", seen, why, "measure again on a quiet machine")]
