"""A simulated batch as a Chrome trace: JSON that Perfetto and chrome://tracing open.

The format is that of the Trace Event document: complete events (`X`) with microseconds, a flow
(`s`, `f`) from each call of the host to the kernel that it launched, names of threads (`M`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pymicro.analysis.durations import PARTS
from pymicro.analysis.simulate import Event, Simulation

_HOST, _DEVICE, _PHASES = 1, 2, 3


def chrome(simulation: Simulation, device: str) -> str:
    """The JSON of a simulation that kept its events; `device` names the second track."""
    events = [*_names(device), *_phases(simulation.events)]
    for number, event in enumerate(simulation.events):
        events += _call(number, event)
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _names(device: str) -> Iterator[dict[str, Any]]:
    titles = {_HOST: "host: issues operators", _DEVICE: device, _PHASES: "phases"}
    yield {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "simulated"}}
    for thread, title in titles.items():
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": title}}


def _phases(events: tuple[Event, ...]) -> Iterator[dict[str, Any]]:
    """One bar for each stretch of the same phase, over what the host does in it."""
    start: Event | None = None
    last: Event | None = None
    for event in (*events, None):
        if start is not None and (event is None or event.phase != start.phase):
            assert last is not None
            end_s = last.issued_s + last.issue_s
            yield _complete(start.phase, _PHASES, start.issued_s, end_s - start.issued_s, {})
            start = None
        start = start or event
        last = event


def _call(number: int, event: Event) -> Iterator[dict[str, Any]]:
    name = event.step.name.removeprefix("aten::")
    told = {"module": event.step.module, "class": event.kind}
    parts = {f"{p}_us": round(s * 1e6, 3) for p, s in zip(PARTS, event.duration.parts, strict=True)}
    kernel = {**told, **parts, "bound": event.duration.bound, "from": event.duration.source}
    yield _complete(name, _HOST, event.issued_s, event.issue_s, told)
    yield _complete(name, _DEVICE, event.start_s, event.duration.seconds, kernel)
    flow = {"name": "launch", "cat": "launch", "id": number, "pid": 1}
    yield {**flow, "ph": "s", "tid": _HOST, "ts": _us(event.issued_s)}
    yield {**flow, "ph": "f", "bp": "e", "tid": _DEVICE, "ts": _us(event.start_s)}


def _complete(
    name: str, thread: int, start_s: float, seconds: float, args: dict[str, Any]
) -> dict[str, Any]:
    # A bar ends where its end is rounded to: neighbours that overlap by a rounding are dropped by
    # viewers, as bars of a thread must lie inside or beside each other.
    dur_us = round(_us(start_s + seconds) - _us(start_s), 3)
    return {
        "ph": "X", "name": name, "cat": "simulated", "pid": 1, "tid": thread, "ts": _us(start_s),
        "dur": dur_us, "args": args,
    }  # fmt: skip


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
