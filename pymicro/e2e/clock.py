"""Time stamps at the borders of phases, without and with waiting for the device there."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping


class Clock:
    """A listener of a job: `at` ends the running phase and begins the next.

    Attributes:
        spans: seconds of each phase, in order of time.
    """

    def __init__(self, wait: Callable[[], None] | None = None) -> None:
        """`wait` is called at each border first, so that a phase's work on the device is its own;
        without it a span is what the host needed, and the device may lag behind."""
        self._wait = wait
        self._phase: str | None = None
        self._began_s = 0.0
        self.spans: dict[str, list[float]] = defaultdict(list)

    def at(self, phase: str, *_: object) -> None:
        if self._wait is not None:
            self._wait()
        now_s = time.perf_counter()
        if self._phase is not None:
            self.spans[self._phase].append(now_s - self._began_s)
        self._phase, self._began_s = phase, now_s

    def stop(self) -> None:
        """End the running phase."""
        self.at("")
        self._phase = None


def waiting(device: str) -> Callable[[], None]:
    """A call that returns when the device is done; on a CPU at once."""
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return lambda: torch.cuda.synchronize(device)


def total_s(spans: Mapping[str, list[float]]) -> float:
    return sum(sum(those) for those in spans.values())
