"""Measures a task: undisturbed steps, steps that wait at each phase's end, and a profiler's pass.

Each pass disturbs what the one before it times; the profiler's comes last, when all else is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from pymicro.e2e.clock import Clock, total_s, waiting
from pymicro.e2e.task import Task

# A profiled decode step takes seconds to sort.
_WARM_STEPS, _WARM_TOKENS, _PROFILED_TOKENS = 3, 3, 2


@dataclass(frozen=True)
class Measured:
    """Seconds of one job.

    Attributes:
        first_s: the first, cold run: kernels are loaded and picked, memory is allocated.
        steps_s: of training, each step; of generating, each decode step but the first.
        runs_s: each undisturbed run, from making its batch to the device being done.
        host_s: median seconds in each phase as the host sees it, nothing waited for that the job
            does not wait for.
        phases_s: median seconds of each phase when the device is done at its end.
        window_s: begin and end of the undisturbed runs, on `time.perf_counter`.
        peak_bytes: the most memory that was allocated at once.
    """

    first_s: float
    steps_s: tuple[float, ...]
    runs_s: tuple[float, ...]
    host_s: Mapping[str, float]
    phases_s: Mapping[str, float]
    window_s: tuple[float, float]
    peak_bytes: int = 0


def measure(
    task: Task,
    runs: int,
    tokens: int | None = None,
    *,
    expect: Callable[[float], None] = lambda seconds: None,
) -> Measured:
    """Run a task `runs` times and then with waits between its phases.

    Args:
        tokens: of each run of generating; None makes all that the job asks for.
        expect: told about how many seconds the undisturbed runs will take, before they begin.
    """
    wait = waiting(task.device)
    first_s = _timed(task, _WARM_TOKENS, wait)
    is_training = task.row.task == "train"
    for _ in range(_WARM_STEPS if is_training else 1):
        warm_s = _timed(task, _WARM_TOKENS, wait)
    share = 1.0 if is_training else (tokens or task.wanted.output) / _WARM_TOKENS
    expect(warm_s * share * runs)
    began_s = time.perf_counter()
    free, runs_s, steps_s = _undisturbed(task, runs, tokens, wait)
    window_s = (began_s, time.perf_counter())
    apart = Clock(wait)
    for _ in range(max(2, runs // 2) if is_training else 1):
        task.run(apart.at, tokens)
        apart.stop()
    return Measured(
        first_s=first_s,
        steps_s=tuple(steps_s),
        runs_s=tuple(runs_s),
        host_s=_medians(free),
        phases_s=_medians(apart),
        window_s=window_s,
        peak_bytes=_peak_bytes(task.device),
    )


def _timed(task: Task, tokens: int | None, wait: Any) -> float:
    began_s = time.perf_counter()
    task.run(lambda phase: None, tokens)
    wait()
    return time.perf_counter() - began_s


def _undisturbed(
    task: Task, runs: int, tokens: int | None, wait: Any
) -> tuple[Clock, list[float], list[float]]:
    """Runs one after another as the job has them; a run of generating ends when its text is read.

    Steps of training follow each other without a wait of ours, so their last one carries the
    device's rest; the sum is the job's.
    """
    is_training = task.row.task == "train"
    free = Clock()
    runs_s: list[float] = []
    steps_s: list[float] = []
    for number in range(runs):
        before = total_s(free.spans)
        decoded = len(free.spans["decode"])
        began_s = time.perf_counter()
        task.run(free.at, tokens)
        free.stop()
        if not is_training or number == runs - 1:
            wait()
        runs_s.append(time.perf_counter() - began_s)
        if is_training:
            steps_s.append(max(runs_s[-1], total_s(free.spans) - before))
        else:
            steps_s += free.spans["decode"][decoded:]
    return free, runs_s, steps_s


def _medians(clock: Clock) -> dict[str, float]:
    return {phase: median(spans) for phase, spans in clock.spans.items() if spans}


def profile(task: Task) -> tuple[dict[str, float], dict[str, int]]:
    """Seconds that the device ran kernels in each phase, and their number; of decode, of a step.

    Copies and fills count as busy, not as kernels. On a CPU both are empty.
    """
    if not task.device.startswith("cuda"):
        return {}, {}
    from pymicro.e2e import kernels

    def work(counting: kernels.Counting) -> None:
        task.run(counting.at, _PROFILED_TOKENS)

    rows = kernels.profile(work, task.device, {})
    steps = {"decode": _PROFILED_TOKENS - 1} if task.row.task == "generate" else {}
    busy: dict[str, float] = {}
    counts: dict[str, int] = {}
    for phase, _, launched in rows:
        busy[phase] = busy.get(phase, 0.0) + launched.busy_s / steps.get(phase, 1)
        counts[phase] = counts.get(phase, 0) + len(launched.kernels) - launched.copies
    return busy, {phase: round(n / steps.get(phase, 1)) for phase, n in counts.items()}


def busy(task: Task, tokens: int = 2) -> tuple[dict[str, float], dict[str, int]]:
    """As `profile`, in a tenth of its time: a step of training as a whole, or a decode step.

    Args:
        tokens: the mean decode step is what a run of so many takes longer than one of one token.
    """
    if not task.device.startswith("cuda"):
        return {}, {}
    from pymicro.e2e import kernels

    runs = [kernels.busy(lambda n=n: task.run(lambda phase: None, n)) for n in (1, tokens)]  # type: ignore[misc]
    (first_s, first), (second_s, second) = runs
    if task.row.task == "train":
        return {"step": second_s}, {"step": second}
    steps = tokens - 1
    return {"first": first_s, "decode": (second_s - first_s) / steps}, {
        "first": first,
        "decode": round((second - first) / steps),
    }


def _peak_bytes(device: str) -> int:
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
