"""Test doubles: a timer that reads a script, so that loops are tested to the last digit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pymicro.timers import Timing


class ScriptedTimer:
    """Each `time` takes the next scripted seconds per call; its clock moves by what passed."""

    name = "scripted"
    resolution_s = 0.0
    max_repeats = 1000

    def __init__(self, seconds: Callable[[int], float] | Iterable[float]) -> None:
        self._next = seconds if callable(seconds) else list(seconds).__getitem__
        self.clock_s = 0.0
        self.timed: list[tuple[object, int]] = []
        self.slept: list[float] = []

    def time(self, call, repeats, before=None) -> Timing:
        if before is not None:
            before()
        call()
        seconds = self._next(len(self.timed))
        self.timed.append((call, repeats))
        start, self.clock_s = self.clock_s, self.clock_s + max(seconds, 0) * repeats
        return Timing(seconds, start, self.clock_s)

    def now(self) -> float:
        return self.clock_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock_s += seconds
