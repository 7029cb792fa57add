"""Host costs from a probe: seconds that a phase needs on a host whose device is at leisure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymicro import stats
from pymicro.analysis.primitives import HostCosts
from pymicro.analysis.program import Program
from pymicro.analysis.values import Value
from pymicro.errors import UsageError

# Of the probe's own spread, at least.
_LEAST = 0.03
_NOTHING = Value(0.0, 0.0, 0.0, "in the probe", "measured")
# The phase whose cost is that of its data, and the key under which the probe tells it.
_LOADER = "loader"
# The span of making a batch of the job's own size, beside a narrow step.
FULL_LOADER = "full loader"


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


def at_pace(turns: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by phase that probes say, at the pace at which the host went beside the job.

    Each probed span is a multiple of the pace read around it; the job's host goes at the median of
    the readings beside its own steps. Of the job itself nothing but these readings enters.

    Args:
        turns: `probe` and `job`, each a list of turns with `spans` and `readings`, and `products`:
            what the products' true shapes cost besides, with readings of its own.
    """
    multiples: dict[str, list[float]] = {}
    for turn in turns["probe"]:
        for phase, seconds, place in turn["spans"]:
            beside_s = _around(turn["readings"], place, phase)
            multiples.setdefault(phase, []).append(seconds / beside_s)
    found = {phase: stats.median(those) for phase, those in multiples.items()}
    products = turns["products"]
    for phase, more_s in products["seconds"].items():
        beside_s = _around(products["readings"], 0, phase)
        found[phase] = found.get(phase, 0.0) + more_s / beside_s
    found[_LOADER] = found.pop(FULL_LOADER, found.get(_LOADER, 0.0))
    paces = {phase: job_pace_s(turns, phase) for phase in found}
    return {phase: multiple * paces[phase] for phase, multiple in found.items()}


def as_probed(turns: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by phase that probes say as they stand: at the pace of the probes themselves."""
    spans: dict[str, list[float]] = {}
    for turn in turns["probe"]:
        for phase, seconds, _ in turn["spans"]:
            spans.setdefault(phase, []).append(seconds)
    found = {phase: stats.median(those) for phase, those in spans.items()}
    for phase, more_s in turns["products"]["seconds"].items():
        found[phase] = found.get(phase, 0.0) + more_s
    found[_LOADER] = found.pop(FULL_LOADER, found.get(_LOADER, 0.0))
    return found


def job_pace_s(turns: Mapping[str, Any], phase: str) -> float:
    """The median pace of the thread that runs a phase, beside the job's steps.

    Of a job that decodes only those readings count that stand between decode steps.
    """
    beside = []
    for turn in turns["job"]:
        spans = turn["spans"]
        decoding = [place for name, _, place in spans if name == "decode"]
        for place in sorted(set(decoding or (place for _, _, place in spans))):
            beside.append(_around(turn["readings"], place, phase))
    return stats.median(beside)


def _around(readings: Sequence[Sequence[float]], place: int, phase: str) -> float:
    """The pace around a span: the mean of the reading before it and the one after."""
    thread = 1 if phase == "backward" else 0
    near = readings[max(place, 0) : max(place, 0) + 2]
    return sum(reading[thread] for reading in near) / len(near)


def steps_of(turns: Mapping[str, Any]) -> list[float]:
    """Seconds of each steady step of the job: of decoding, or of training but a turn's first."""
    found = []
    for turn in turns["job"]:
        spans = turn["spans"]
        decoding = [seconds for phase, seconds, _ in spans if phase == "decode"]
        if decoding:
            found += decoding
            continue
        steps: dict[int, float] = {}
        for _, seconds, place in spans:
            steps[place] = steps.get(place, 0.0) + seconds
        found += list(steps.values())[1:]
    return found
