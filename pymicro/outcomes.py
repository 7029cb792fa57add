"""What a case becomes: its samples with what was read beside them, or a reason in plain words."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pymicro.analysis.verdict import judge
from pymicro.errors import PymicroError, Unavailable, without_folders
from pymicro.results import Result
from pymicro.sampling import Samples
from pymicro.telemetry import Telemetry

Read = Callable[[Sequence[tuple[float, float]]], Telemetry | None]


def with_samples(result: Result, looks: Sequence[Samples], telemetry: Read, phase: str) -> Result:
    """The result with its samples, of all looks, under `times_s` or `burst_s`."""
    last = looks[-1]
    sampled = {"stopped": last.stopped, "repeats": last.repeats}
    if rejected := sum(samples.rejected for samples in looks):
        sampled["rejected_samples"] = rejected
    timings = [timing for samples in looks for timing in samples.timings]
    clocks = tuple(t.sm_clock_hz for t in timings)
    own: dict[str, Any] = {phase: tuple(t.seconds for t in timings)}
    measured = replace(
        result,
        outcome="ok",
        reason=None,
        sample_sm_clock_hz=clocks if any(clocks) else None,
        telemetry=telemetry([(t.started_s, t.ended_s) for t in timings]),
        details={**result.details, **sampled},
        **own,
    )
    return believed(measured)


class Impossible(PymicroError):
    """A rate beyond what the device could do by any means; the message says beyond what."""


def believed(result: Result) -> Result:
    """Bytes that came faster than any wire carries them are a failure, not a figure.

    Products keep their doubt beside the figure: their peak rests on a clock read from outside.
    """
    doubt = judge(result).doubt if result.bytes and not result.flop else None
    return without_time(result, Impossible(doubt)) if doubt else result


def without_time(result: Result, error: Exception) -> Result:
    """The one place where an exception becomes an outcome. Unforeseen ones show a traceback."""
    outcome, reason = _outcome(error)
    return replace(
        result,
        outcome=outcome,
        reason=reason,
        times_s=(),
        burst_s=(),
        sample_sm_clock_hz=None,
        telemetry=None,
        burst_telemetry=None,
    )


def _outcome(error: Exception) -> tuple[Any, str]:
    if isinstance(error, Unavailable):
        return "skipped", str(error)
    if isinstance(error, PymicroError):
        return "failed", str(error)
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return "skipped", "out of memory."
    traceback.print_exception(error, file=sys.stderr)
    return "failed", without_folders(f"{type(error).__name__}: {error}")
