"""Where the steps of a job are in its trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pymicro.analysis.profile import names
from pymicro.analysis.profile.trace import MARK, OP, Host, Thread, Trace

Times = npt.NDArray[np.float64]
_INPUT = "enumerate(DataLoader)"
# Ends of fewer steps leave no whole step between them.
_LEAST_ENDS = 2


@dataclass(frozen=True)
class Steps:
    """Steps of the host, one after another.

    Attributes:
        bounds_s: n + 1 times; step k goes from k to k + 1 on the host's clock.
        thread: the thread that takes the steps.
        how: what delimits them, in words.
        is_whole: there was nothing to find steps by; the one step is the whole trace.
    """

    bounds_s: Times
    thread: Thread
    how: str
    is_whole: bool = False

    @property
    def count(self) -> int:
        return len(self.bounds_s) - 1


def find(trace: Trace) -> Steps:
    """The steps: by the profiler's marks, else optimiser steps, else the data loader, else one."""
    marks = _marks(trace, names.STEP)
    if marks is not None:
        thread, start_s, end_s = marks
        return Steps(np.append(start_s, end_s[-1]), thread, "the profiler's step marks")
    for prefix, at_end, how in (
        (names.OPTIMIZER, True, "the ends of optimizer.step(), as there are no step marks"),
        (_INPUT, False, "the data loader's calls, as there are no step marks"),
    ):
        found = _marks(trace, prefix)
        if found is not None and len(found[1]) >= _LEAST_ENDS:
            thread, start_s, end_s = found
            return Steps(end_s if at_end else start_s, thread, how)
    return _whole(trace)


def _marks(trace: Trace, prefix: str) -> tuple[Thread, Times, Times] | None:
    """Begin and end of the annotations of a kind, of the thread that has most of them.

    Of several optimisers the one that steps first counts: each steps once in a step of the job.
    """
    wanted = {i for i, name in enumerate(trace.names) if name.startswith(prefix)}
    best: tuple[Thread, list[int]] | None = None
    for thread, host in trace.threads.items():
        rows = [r for r, n in enumerate(host.name) if n in wanted and host.kind[r] in (MARK, OP)]
        if rows and (best is None or len(rows) > len(best[1])):
            best = thread, rows
    if best is None:
        return None
    host = trace.threads[best[0]]
    rows = sorted(best[1], key=lambda r: host.start_s[r])
    if prefix != names.STEP:
        rows = [r for r in rows if host.name[r] == host.name[rows[0]]]
    return best[0], _column(host.start_s, rows), _column(host.end_s, rows)


def _column(values: object, rows: list[int]) -> Times:
    return np.asarray(values)[rows]


def _whole(trace: Trace) -> Steps:
    """From the first operator or kernel to the last, on the thread with the most operators."""
    hosts = {t: h for t, h in trace.threads.items() if OP in set(h.kind)} or trace.threads
    thread = max(hosts, key=lambda t: len(hosts[t].start_s))
    begin_s = min(min(h.start_s) for h in hosts.values())
    begin_s = min(begin_s, min(trace.device.start_s))
    end_s = max(max(_ends(h)) for h in hosts.values())
    how = "the whole trace as one step, as nothing marks steps"
    return Steps(np.array([begin_s, end_s]), thread, how, True)


def _ends(host: Host) -> list[float]:
    return [e for e, k in zip(host.end_s, host.kind, strict=True) if k in (OP, MARK)] or list(
        host.end_s
    )


def process(trace: Trace) -> int | str:
    """The process whose steps are told, where a file holds several: the one that launches most."""
    counts: Counter[int | str] = Counter()
    for (pid, _), host in trace.threads.items():
        counts[pid] += sum(1 for c in host.correlation if c >= 0)
    return counts.most_common(1)[0][0]


def on_both_clocks(steps: Steps, launch_s: Times, end_s: Times) -> Times:
    """Bounds of the steps as host and device see them together, n + 1 times.

    A step begins when its host code begins *and* the device has finished the steps before: a host
    that runs ahead of the device would else seem to take shorter steps than the job does.

    Args:
        launch_s: when each device operation was launched (its own start where that is unknown).
        end_s: when it ended.
    """
    bounds = steps.bounds_s
    last_s = np.full(steps.count + 1, -np.inf)
    step = np.searchsorted(bounds, launch_s, side="right")
    inside = step <= steps.count
    np.maximum.at(last_s, step[inside], end_s[inside])
    return np.maximum.accumulate(np.maximum(bounds, np.maximum.accumulate(last_s)))
