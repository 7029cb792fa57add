"""Device operations beside the calls that launched them, and whether the two clocks agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pymicro.analysis.profile.host import HostView, Launch
from pymicro.analysis.profile.names import State
from pymicro.analysis.profile.trace import Trace
from pymicro.errors import UsageError

Times = npt.NDArray[np.float64]
# Stamps of the two clocks are fitted to each other; a deviation below this is the fit's.
_JITTER_S = 2e-6
# Shorter gaps are rounding of stamps; a launch that is older than this was queued.
_REAL_GAP_S, _RECENT_S = 1e-7, 1e-4
# So many operations before their launch are no accident.
_MOST_EARLY = 0.01
# A clock that is off by more than this share of a step cannot be set right by a shift.
_MOST_OF_STEP = 0.5


@dataclass(frozen=True)
class Operations:
    """The operations of one device in the order of their start.

    Attributes:
        row: their rows in the trace.
        launch: the call behind each, None where the file does not say.
        shift_s: what was added to the device's clock.
    """

    number: int
    row: npt.NDArray[np.int64]
    start_s: Times
    end_s: Times
    launch: list[Launch | None]
    shift_s: float

    def launched_s(self) -> Times:
        """When each was launched; its own start where that is unknown."""
        pairs = zip(self.launch, self.start_s, strict=True)
        return np.array([s if launch is None else launch.start_s for launch, s in pairs])


def operations(trace: Trace, view: HostView) -> Operations:
    """The operations of the device that works most, on the host's clock.

    Raises:
        UsageError: the two clocks disagree beyond repair.
    """
    device = trace.device
    start, end = np.asarray(device.start_s), np.asarray(device.end_s)
    numbers = np.asarray(device.device)
    totals = {int(n): float((end - start)[numbers == n].sum()) for n in np.unique(numbers)}
    number = max(totals, key=lambda n: totals[n])
    row = np.flatnonzero(numbers == number)
    row = row[np.argsort(start[row], kind="stable")]
    launch = [view.launches.get(device.correlation[r]) for r in row]
    shift_s = _shift_s(trace, view, start[row], end[row], launch)
    return Operations(number, row, start[row] + shift_s, end[row] + shift_s, launch, shift_s)


def _shift_s(
    trace: Trace, view: HostView, start: Times, end: Times, launch: list[Launch | None]
) -> float:
    """What to add to the device's clock so that no kernel begins before its launch."""
    early = np.array([x.start_s - s for x, s in zip(launch, start, strict=True) if x is not None])
    if not len(early):
        return 0.0
    off_s = float(early.max()) if (early > _JITTER_S).mean() > _MOST_EARLY else 0.0
    if not off_s:
        off_s = -_late_s(view, start, end, launch)
    span_s = float(end.max() - start.min())
    if abs(off_s) > _MOST_OF_STEP * span_s:
        raise UsageError(
            f"{trace.path.name}: the clocks of host and device are {abs(off_s):.3g} s apart "
            f"(kernels begin {'before' if off_s > 0 else 'long after'} their launch), more than "
            "the trace is long: gaps have no owners then; record it anew."
        )
    return off_s


def _late_s(view: HostView, start: Times, end: Times, launch: list[Launch | None]) -> float:
    """How far kernels seem to end after the host has waited for the whole device; mostly 0."""
    launched = np.array([np.inf if x is None else x.end_s for x in launch])
    order = np.argsort(launched)
    reached = np.maximum.accumulate(end[order])
    late = []
    for call in view.blocking:
        if call.state == State.SYNCHRONISE and "DeviceSync" in call.asked:
            number = int(np.searchsorted(launched[order], call.start_s)) - 1
            if number >= 0:
                late.append(float(reached[number]) - call.end_s)
    median_s = float(np.median(late)) if late else 0.0
    return median_s if median_s > _JITTER_S else 0.0


def latency_s(operations: Operations) -> float:
    """From the end of a launching call to the start of its kernel on an idle device, at the least.

    The tenth percentile over the kernels that begin after a gap: queued ones wait for others.
    """
    reached = np.maximum.accumulate(operations.end_s)
    found = [
        float(operations.start_s[i]) - launch.end_s
        for i in range(1, len(operations.row))
        if (launch := operations.launch[i]) is not None
        and operations.start_s[i] > reached[i - 1] + _REAL_GAP_S
        and launch.end_s >= reached[i - 1] - _RECENT_S
    ]
    return max(float(np.percentile(found, 10)), 0.0) if found else 0.0
