"""A clock that all ranks share: rank 0 says how many calls, all make them, the slowest counts."""

from __future__ import annotations

import time
from typing import Any

from pymicro.timers import Call, Timing

# NCCL's kernels are launches like others, of which the driver's queue holds about a thousand.
_MOST_QUEUED = 500
_MOST_CALLS = 10_000


class TeamTimer:
    """Implements `timers.Timer` on rank 0; the others `follow`.

    A call leads, untimed: it ends on all ranks at nearly the same moment, and so they begin what
    is timed together. On GPUs, events on the current stream, on which torch makes NCCL's stream
    wait and which waits for it.
    """

    def __init__(self, torch: Any, is_gpu: bool, control: Any) -> None:
        """`control`: a process group of the hosts, for words between ranks."""
        self._torch, self._is_gpu, self._control = torch, is_gpu, control
        self.name = f"{'cuda events' if is_gpu else 'host'}, slowest rank"
        self.max_repeats = _MOST_QUEUED if is_gpu else _MOST_CALLS

    def time(self, call: Call, repeats: int, before: Call | None = None) -> Timing:
        if before is not None:
            before()
        self._say(repeats)
        began = self.now()
        seconds = self._slowest(self._own(call, repeats))
        return Timing(seconds, began, self.now())

    def follow(self, call: Call) -> None:
        """What ranks other than 0 do until rank 0 stops."""
        while repeats := self._say(0):
            self._slowest(self._own(call, repeats))

    def stop(self) -> None:
        self._say(0)

    def total(self, number: float) -> float:
        """The sum of a number over all ranks."""
        return self._reduced(number, "SUM")

    def now(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _say(self, repeats: int) -> int:
        """Rank 0's number, on all."""
        word = self._torch.tensor([repeats])
        self._torch.distributed.broadcast(word, 0, group=self._control)
        return int(word)

    def _slowest(self, seconds: float) -> float:
        return self._reduced(seconds, "MAX")

    def _reduced(self, number: float, how: str) -> float:
        dist = self._torch.distributed
        word = self._torch.tensor([number], dtype=self._torch.float64)
        dist.all_reduce(word, getattr(dist.ReduceOp, how), group=self._control)
        return float(word)

    def _own(self, call: Call, repeats: int) -> float:
        """Seconds a call on this rank."""
        if not self._is_gpu:
            call()
            began = time.perf_counter()
            for _ in range(repeats):
                call()
            return (time.perf_counter() - began) / repeats
        cuda = self._torch.cuda
        start, stop = (cuda.Event(enable_timing=True) for _ in range(2))
        call()
        start.record()
        for _ in range(repeats):
            call()
        stop.record()
        cuda.synchronize()
        return start.elapsed_time(stop) * 1e-3 / repeats
