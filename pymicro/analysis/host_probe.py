"""Host costs from a probe: seconds that a phase needs on a host whose device is at leisure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pymicro.analysis.primitives import HostCosts
from pymicro.analysis.program import Program
from pymicro.analysis.values import Value
from pymicro.errors import UsageError

# Of the probe's own spread, at least.
_LEAST = 0.03
_NOTHING = Value(0.0, 0.0, 0.0, "in the probe", "measured")
# The phase whose cost is that of its data, and the key under which the probe tells it.
_LOADER = "loader"


def host_costs(
    probes: Sequence[Mapping[str, float]], program: Program, name: str = "the probed host"
) -> HostCosts:
    """Costs per operator such that each phase of the program takes what the probes say.

    Args:
        probes: seconds by phase, of one run of it each (before and after a job, say).

    Raises:
        UsageError: a phase of the program is missing from the probes.
    """
    operator_s: dict[str, Value] = {}
    counts = {s.phase: max(len(s.steps), 1) for s in program.stretches}
    for phase, count in counts.items():
        if any(phase not in probe for probe in probes) and phase != "input":
            raise UsageError(f"the probe has no phase {phase}; it has {', '.join(probes[0])}.")
        operator_s[phase] = _of([probe.get(phase, 0.0) / count for probe in probes])
    run_s = {"input": _of([probe.get(_LOADER, 0.0) for probe in probes]), "": _NOTHING}
    middle = sorted(operator_s.values(), key=lambda v: v.value)[len(operator_s) // 2]
    return HostCosts(
        name, {**operator_s, "": middle}, _NOTHING, _NOTHING, _NOTHING, _NOTHING, run_s
    )


def _of(figures: Sequence[float]) -> Value:
    middle = sum(figures) / len(figures)
    low, high = (min(figures), max(figures))
    return Value(
        middle, min(low, middle * (1 - _LEAST)), max(high, middle * (1 + _LEAST)),
        "host probe", "measured",
    )  # fmt: skip
