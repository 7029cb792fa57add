"""Kernels that each operator of a real job launched, and how long they ran: a profiler's pass.

How many kernels an operator needs is a property of the device and its libraries, so it is a
primitive and no part of a trace. The pass disturbs the host, so no wall time is taken from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from pymicro.e2e.recorder import Recorder
from pymicro.workloads.trace import Operator

_MARK = "pymicro:"
_COPIES = ("Memcpy", "Memset")


@dataclass(frozen=True)
class Launched:
    """What one operator launched.

    Attributes:
        kernels: their names, in order. copies: how many were copies or fills by the driver.
        busy_s: their time on the device together.
    """

    kernels: tuple[str, ...]
    copies: int
    busy_s: float


class Counting(Recorder):
    """A recorder that marks each operator, so that a profiler's kernels find their operator."""

    def __init__(self, device: str, values: Mapping[str, int]) -> None:
        super().__init__(device, values)
        self.phase = ""
        self.heard: list[tuple[str, Operator]] = []

    def at(self, phase: str, *_: object) -> None:
        """A phase begins; a listener for the jobs."""
        self.phase, self.is_listening = phase, True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.is_listening:
            return super().__torch_dispatch__(func, types, args, kwargs)
        place = len(self.heard)
        with torch.profiler.record_function(f"{_MARK}{place}"):
            result = super().__torch_dispatch__(func, types, args, kwargs)
        if self.operators:
            self.heard.append((self.phase, self.operators.pop()))
        return result


def profile(
    work: Callable[[Counting], None], device: str, values: Mapping[str, int]
) -> list[tuple[str, Operator, Launched]]:
    """Run the work under the profiler; phase, operator and what it launched, in order.

    Args:
        work: runs the job once, with the recorder's `at` as its listener.
    """
    counting = Counting(device, values)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler, counting:
        work(counting)
        torch.cuda.synchronize()
    found: dict[int, list[Any]] = defaultdict(list)
    for event in profiler.events():
        if event.kernels:
            place = _place_of(event)
            if place is not None:
                found[place] += event.kernels
    return [
        (phase, operator, _launched(found.get(place, [])))
        for place, (phase, operator) in enumerate(counting.heard)
    ]


def busy(work: Callable[[], None]) -> tuple[float, int]:
    """Seconds that kernels and copies ran while the work did, and how many kernels.

    Only the device is recorded, which takes a tenth of the time of `profile` and tells no phases.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    there = [
        event
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation
    ]
    seconds = sum(event.time_range.elapsed_us() for event in there) * 1e-6
    return seconds, sum(not event.name.startswith(_COPIES) for event in there)


def _place_of(event: Any) -> int | None:
    while event is not None:
        if event.name.startswith(_MARK):
            return int(event.name.removeprefix(_MARK))
        event = event.cpu_parent
    return None


def _launched(kernels: list[Any]) -> Launched:
    return Launched(
        kernels=tuple(k.name for k in kernels),
        copies=sum(k.name.startswith(_COPIES) for k in kernels),
        busy_s=sum(k.duration for k in kernels) * 1e-6,
    )


def summary(rows: list[tuple[str, Operator, Launched]]) -> list[dict[str, Any]]:
    """One row for each phase, operator, dtype and shape: how often it came, what it launched."""
    groups: dict[tuple[str, str, str, str], list[Launched]] = defaultdict(list)
    for phase, operator, launched in rows:
        at = " ".join("x".join(t.shape) or "scalar" for t in operator.reads)
        groups[phase, operator.name, dtype_of(operator), at].append(launched)
    return [
        {
            "phase": phase,
            "name": name,
            "dtype": dtype,
            "at": at,
            "calls": len(those),
            "kernels": sum(len(one.kernels) - one.copies for one in those),
            "copies": sum(one.copies for one in those),
            "busy_s": sum(one.busy_s for one in those),
            "names": sorted({kernel[:120] for one in those for kernel in one.kernels})[:6],
        }
        for (phase, name, dtype, at), those in groups.items()
    ]


def dtype_of(operator: Operator) -> str:
    """The format that an operator works in: that of its first operand on the device."""
    there = [t for t in (*operator.reads, *operator.writes) if t.place == "device"]
    floats = [t.dtype for t in there if "float" in t.dtype]
    return (floats or [t.dtype for t in there] or [""])[0]


def plain(operator: Operator, launched: Launched) -> dict[str, Any]:
    """An operator with what it launched, as a record."""
    return {"name": operator.name, "module": operator.module, **asdict(launched)}
