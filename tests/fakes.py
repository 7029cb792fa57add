"""Test doubles: a timer that reads a script, and results that nobody measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pymicro.results import Result
from pymicro.timers import Timing

H200 = {"kind": "cuda", "name": "NVIDIA H200", "key": "h200_sxm_141gb", "sm_count": 132}
RTX_4090 = {"kind": "cuda", "name": "NVIDIA GeForce RTX 4090", "key": "rtx_4090", "sm_count": 128}


def gemm_result(seconds: float = 1e-3, device: dict[str, Any] = H200, **changes: Any) -> Result:
    """A product of 4096 in fp16 whose every call took `seconds`; `changes` are fields."""
    size = 4096
    fields: dict[str, Any] = {
        "benchmark": "gemm", "backend": "torch", "variant": "matmul", "dtype": "fp16",
        "accumulate": "fp32", "params": {"m": size, "n": size, "k": size, "layout": "nt"},
        "device": device, "environment": {"node": "here", "driver": {"version": "580.65.06"}},
        "flop": 2 * size**3, "bytes": 3 * 2 * size**2, "times_s": (seconds,) * 20,
        "fill": "normal", "timer": "events", "run_id": "aaaa11112222",
    }  # fmt: skip
    return Result(**(fields | changes))


class ScriptedTimer:
    """Each `time` takes the next scripted seconds per call; its clock moves by what passed."""

    name = "scripted"
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
