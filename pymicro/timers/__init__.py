"""Clocks. A timer runs a call some times and says how long one took; it decides nothing else.

`HostTimer` reads the host's clock around calls that return when done. `EventTimer` puts CUDA
events on the stream that every backend of a case launches on, behind a gate kernel that holds
the stream until the work is queued; so one clock serves every language, and the host's own
speed stays out.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from pymicro import driver
from pymicro.errors import Unavailable
from pymicro.timers.gate import ClockProbe, Gate

Call = Callable[[], None]

# The driver's queue holds about a thousand launches; a gate with more behind it would block the
# host before the gate opens.
MAX_QUEUED_CALLS = 500


@dataclass(frozen=True)
class Timing:
    """One sample: seconds of one call, when it began and ended on the host's monotonic clock,
    and the mean SM clock meanwhile (None on the host). NaN: the clock has no answer."""

    seconds: float
    started_s: float
    ended_s: float
    sm_clock_hz: float | None = None


class Timer(Protocol):
    """What `sampling` needs of a clock."""

    name: str
    max_repeats: int

    def time(self, call: Call, repeats: int, before: Call | None = None) -> Timing:
        """Run `before` once untimed, then `call` `repeats` times; the mean seconds of one."""
        ...

    def now(self) -> float:
        """The host's monotonic clock in seconds."""
        ...

    def sleep(self, seconds: float) -> None: ...


class HostTimer:
    """`time.perf_counter` around calls that finish before they return."""

    name = "host"
    max_repeats = 100_000

    def time(self, call: Call, repeats: int, before: Call | None = None) -> Timing:
        if before is not None:
            before()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        end = time.perf_counter()
        return Timing((end - start) / repeats, start, end)

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class RequestTimer(HostTimer):
    """The host's clock around calls that only ask a device for something.

    It first waits until the device has nothing left to do, and asks for less than the queue
    holds: a full queue would make the host wait for the device, which is another figure.
    """

    name = "host, requests"

    def __init__(self, settle: Call, requests: int = 1) -> None:
        """`settle` waits for the device; `requests` is how many one call makes."""
        self._settle = settle
        self.max_repeats = most_repeats(requests)

    def time(self, call: Call, repeats: int, before: Call | None = None) -> Timing:
        if before is not None:
            before()
        self._settle()
        return super().time(call, repeats)


def most_repeats(requests: int, lead: int = 0) -> int:
    """How many calls of so many requests fit the driver's queue behind `lead` others.

    Raises:
        Unavailable: not even one does.
    """
    if requests * (1 + lead) > MAX_QUEUED_CALLS:
        raise Unavailable(
            f"{requests * (1 + lead)} requests in a row may fill the driver's queue; "
            f"{MAX_QUEUED_CALLS} do not."
        )
    return MAX_QUEUED_CALLS // requests - lead


class EventTimer:
    """CUDA events on one stream, behind a gate, with the SM clock read on the device."""

    name = "cuda events"
    max_repeats = MAX_QUEUED_CALLS
    _lead = 0

    def __init__(self, gpu: driver.Gpu, stream: int) -> None:
        self._stream = driver.cuda().CUstream(stream)
        self._start, self._stop = (self._event() for _ in range(2))
        self._gate = Gate(gpu, stream)
        self._clock = ClockProbe(gpu, stream)
        self._pace = _Pace()
        self._load()

    def for_requests(self, requests: int, lead: int = 0) -> EventTimer:
        """The same clock for calls that each queue so much, behind `lead` untimed ones.

        Raises:
            Unavailable: one call alone is more than the queue holds.
        """
        other = copy.copy(self)
        other.max_repeats, other._lead = most_repeats(requests, lead), lead
        return other

    def _load(self) -> None:
        """Launch every kernel of ours once: loading one lazily behind the closed gate may hang."""
        self._gate.open()
        self._gate.launch()
        self._clock.read(0)
        self._clock.read(1)
        driver.check(driver.cuda().cuStreamSynchronize(self._stream))

    def time(self, call: Call, repeats: int, before: Call | None = None) -> Timing:
        cuda = driver.cuda()
        if before is not None:
            before()
        began = self.now()
        enough = self._pace.enough(call, repeats)
        self._gate.close()
        try:
            self._clock.read(0)
            for _ in range(self._lead):
                call()
            driver.check(cuda.cuEventRecord(self._start, self._stream))
            queueing = self.now()
            for queued in range(repeats):
                if queued == enough:
                    self._gate.open()
                call()
            queued_s = self.now() - queueing
            driver.check(cuda.cuEventRecord(self._stop, self._stream))
            self._clock.read(1)
        finally:
            self._gate.open()
        # Not this stream alone: what a call put on others ends too before the next sample.
        driver.check(cuda.cuCtxSynchronize())
        ended = self.now()
        if self._gate.timed_out():
            return Timing(math.nan, began, ended)
        # Events may come out in the wrong order: a negative time, which sampling rejects.
        elapsed_s = driver.check(cuda.cuEventElapsedTime(self._start, self._stop)) * 1e-3
        self._pace = _Pace(call, elapsed_s / repeats, queued_s / repeats)
        return Timing(elapsed_s / repeats, began, ended, self._clock.mean_hz())

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @staticmethod
    def _event() -> Any:
        return driver.check(driver.cuda().cuEventCreate(0))


# How far ahead of the device the host has to be: this many times what it still needs, and a hiccup.
_LEAD = 3.0
_HICCUP_S = 1e-3


@dataclass(frozen=True)
class _Pace:
    """Seconds that the device and the host took for one call when it was timed last.

    While the host queues calls behind the gate the device idles and cools, and the more so the
    slower the library is to call; under a power limit that is repaid with a higher clock. So the
    gate opens as soon as so much is queued that the device cannot catch up with the host.
    """

    call: Call | None = None
    device_s: float = 0.0
    host_s: float = 0.0

    def enough(self, call: Call, repeats: int) -> int:
        """How many of `repeats` calls to queue before opening; `repeats` where none is known."""
        if call is not self.call or not self.device_s > 0:
            return repeats
        host_s = _LEAD * self.host_s
        queued = math.ceil((repeats * host_s + _HICCUP_S) / (self.device_s + host_s))
        return min(repeats, queued)


class ElsewhereTimer:
    """A timer of another device, used inside what makes that device current."""

    def __init__(self, there: Callable[[], AbstractContextManager[None]], timer: EventTimer):
        self._there, self._timer = there, timer
        self.name, self.max_repeats = timer.name, timer.max_repeats

    def time(self, call: Call, repeats: int, before: Call | None = None) -> Timing:
        with self._there():
            return self._timer.time(call, repeats, before)

    def now(self) -> float:
        return self._timer.now()

    def sleep(self, seconds: float) -> None:
        self._timer.sleep(seconds)
