"""A job on a device: two queues, the host's and the device's, and who waits for whom.

The host issues operators one after another. The device starts a kernel when it has been issued
and the one before has ended. A synchronisation ties the two. A stretch that repeats is run until
its time is steady, and multiplied.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pymicro.analysis.durations import Clock, Duration
from pymicro.analysis.primitives import HostCosts, Primitives
from pymicro.analysis.program import Program, Step, Stretch

# The phase before which a batch is made.
_LOADS = "input"
# Times that a stretch and a batch are run before their time is taken as steady.
_SETTLING = 2


@dataclass(frozen=True)
class Config:
    """How a program runs.

    Attributes:
        batches: how often it runs. start_s: seconds spent once, before the first batch.
        tf32: products of fp32 run on the matrix unit. graphs: kernels are replayed from a
            recorded graph, for which the host asks once a stretch.
        host: whether the host takes time. ties: whether the two wait for each other, and data
            crosses the link.
    """

    batches: int = 1
    start_s: float = 0.0
    tf32: bool = False
    graphs: bool = False
    host: bool = True
    ties: bool = True


@dataclass(frozen=True)
class Event:
    """One call on the timeline; seconds from the start of its batch."""

    step: Step
    phase: str
    kind: str
    issued_s: float
    issue_s: float
    start_s: float
    duration: Duration


@dataclass
class Totals:
    """Seconds of a stretch of the job: where they went.

    Attributes:
        busy_s: in kernels. gap_s: between queued kernels. starved_s: the device waits for the
            host. host_s: the host issues or goes on after waiting. copying_s: over the link.
        parts: busy_s by `durations.PARTS`. bound: busy_s by what bounds the operator.
        by_kind: busy_s by class of operator.
    """

    wall_s: float = 0.0
    busy_s: float = 0.0
    host_s: float = 0.0
    gap_s: float = 0.0
    starved_s: float = 0.0
    copying_s: float = 0.0
    kernels: float = 0.0
    parts: list[float] = field(default_factory=lambda: [0.0] * 5)
    bound: dict[str, float] = field(default_factory=dict)
    by_kind: dict[str, float] = field(default_factory=dict)

    def add(self, other: Totals, times: float = 1.0) -> None:
        """Add `times` times the other's seconds."""
        for name in _PLAIN:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        self.parts = [a + times * b for a, b in zip(self.parts, other.parts, strict=True)]
        for name in ("bound", "by_kind"):
            own = getattr(self, name)
            for key, value in getattr(other, name).items():
                own[key] = own.get(key, 0.0) + times * value


_PLAIN = ("wall_s", "busy_s", "host_s", "gap_s", "starved_s", "copying_s", "kernels")


@dataclass(frozen=True)
class Simulation:
    """A simulated job: seconds in all and by phase, and the events of its last batch."""

    total: Totals
    phases: Mapping[str, Totals]
    events: tuple[Event, ...]
    config: Config

    @property
    def seconds(self) -> float:
        return self.total.wall_s + self.config.start_s


@dataclass
class _Queues:
    """When the host is free and when the device is."""

    host_s: float = 0.0
    device_s: float = 0.0

    @property
    def now_s(self) -> float:
        return max(self.host_s, self.device_s)


def simulate(
    program: Program, p: Primitives, config: Config | None = None, keep_events: bool = False
) -> Simulation:
    """Run batches until one is steady and multiply; `keep_events` keeps that one's timeline."""
    config = config or Config()
    runner = _Runner(program, p, config)
    queues = _Queues()
    for turn in range(_SETTLING if config.batches > 1 else 1):
        runner.events = [] if keep_events else None
        phases: dict[str, Totals] = {}
        is_last = turn == _SETTLING - 1 or config.batches == 1
        for stretch in program.stretches:
            found = runner.stretch(stretch, queues)
            if is_last:
                phases.setdefault(stretch.phase, Totals()).add(found, config.batches)
    total = Totals()
    for found in phases.values():
        total.add(found)
    return Simulation(total, phases, tuple(runner.events or ()), config)


class _Runner:
    def __init__(self, program: Program, p: Primitives, config: Config) -> None:
        import numpy as np

        self._p, self._config = p, config
        clock = Clock(p, config.tf32)
        self._works = program.works
        self._durations = durations = [clock.of(work) for work in program.works]
        gap_s = p.graph_gap_s.value if config.graphs else p.gap_s.value
        does = [
            bool(d.seconds) and (config.ties or not w.host_bytes)
            for d, w in zip(durations, program.works, strict=True)
        ]
        self._runs = np.array(does, dtype=bool)
        self._kernels = np.array([d.kernels for d in durations])
        self._seconds = np.where(self._runs, [d.seconds for d in durations], 0.0)
        self._gaps = gap_s * np.maximum(self._kernels, 1.0)
        self._accounts: dict[int, tuple[Totals, Any, Any]] = {}
        self._host = p.host if config.host else None
        self._tokens = program.values.get("batch", 1) * program.values.get("length", 1)
        self.events: list[Event] | None = None

    def stretch(self, stretch: Stretch, queues: _Queues) -> Totals:
        """All runs of a stretch; those after the settled one are taken as equal to it."""
        total = Totals()
        runs = min(int(stretch.times), _SETTLING)
        for turn in range(runs):
            is_last = turn == runs - 1
            found = self._once(stretch, queues, is_last)
            total.add(found, stretch.times - runs + 1 if is_last else 1.0)
        return total

    def _once(self, stretch: Stretch, q: _Queues, is_last: bool) -> Totals:
        """Issue and execute every call in order, from one synchronisation to the next.

        Call i ends on the device at D(i) = max(H(i) + reach, D(i-1) + gap(i)) + s(i), where H(i)
        is when the host has issued it. With C the running sum of gap + s, D - C only ever rises
        to a larger H + reach + s - C: a running maximum, so no call is looked at alone.
        """
        import numpy as np

        began_s, host = q.now_s, self._host
        totals, runs, gaps = self._account(stretch)
        work = stretch.columns[0]
        costs = _issue_costs(stretch, host, self._kernels, self._config.graphs)
        reach_s = self._p.reach_s.value if host else 0.0
        wait_s = host.wait_s.value if host else 0.0
        host_s, device_s = q.host_s, q.device_s
        if host and (self._config.ties or stretch.phase != "input"):
            host_s += host.run(stretch.phase)
            if host.token_s and stretch.phase == _LOADS:
                host_s += host.token_s.value * self._tokens
        asked_from_s, waited_s = host_s, 0.0
        keep = self.events is not None and is_last
        ties = stretch.ties if self._config.ties else ()
        for start, stop in itertools.pairwise((0, *ties, len(work))):
            part = slice(start, stop)
            issued_s = host_s + np.cumsum(costs[part])
            seconds, gap_s, does = self._seconds[work[part]], gaps[part], runs[part]
            rising = np.cumsum(gap_s + seconds)
            asked = np.where(does, issued_s + reach_s + seconds, -np.inf) - rising
            ends = rising + np.maximum.accumulate(np.maximum(asked, device_s))
            if keep:
                self._keep(stretch, part, issued_s, costs[part], ends - seconds, does)
            if len(ends):
                host_s, device_s = float(issued_s[-1]), float(ends[-1])
            if stop in ties:
                ended_s = max(host_s, device_s)
                waited_s += ended_s - host_s
                host_s = ended_s + wait_s
        totals.wall_s = max(host_s, device_s) - began_s
        totals.host_s = host_s - asked_from_s - waited_s
        totals.starved_s = device_s - q.device_s - totals.busy_s - totals.gap_s - totals.copying_s
        q.host_s, q.device_s = host_s, device_s
        return totals

    def _keep(
        self, stretch: Stretch, part: slice, issued_s: Any, costs: Any, starts: Any, does: Any
    ) -> None:
        """Append the events of a part of a stretch."""
        assert self.events is not None
        steps = stretch.steps[part]
        for step, end_s, cost_s, start_s, runs in zip(
            steps, issued_s, costs, starts, does, strict=True
        ):
            if runs:
                duration, kind = self._durations[step.work], self._works[step.work].kind
                times = (float(end_s - cost_s), float(cost_s), float(start_s))
                self.events.append(Event(step, stretch.phase, kind, *times, duration))

    def _account(self, stretch: Stretch) -> tuple[Totals, Any, Any]:
        """What one run of a stretch adds up to but for waiting; which steps the device executes,
        and the gap before each."""
        if id(stretch) not in self._accounts:
            runs = self._runs[stretch.columns[0]]
            gaps = _gaps_of(runs, self._gaps[stretch.columns[0]])
            self._accounts[id(stretch)] = (self._counted(stretch.counts), runs, gaps)
        totals, runs, gaps = self._accounts[id(stretch)]
        fresh = Totals()
        fresh.add(totals)
        return fresh, runs, gaps

    def _counted(self, counts: Mapping[int, int]) -> Totals:
        """What so many calls of each work add up to."""
        t = Totals()
        for place, count in counts.items():
            if not self._runs[place]:
                continue
            work, d = self._works[place], self._durations[place]
            seconds = count * d.seconds
            t.gap_s += count * float(self._gaps[place])
            if work.host_bytes:
                t.copying_s += seconds
                continue
            t.busy_s += seconds
            t.kernels += count * d.kernels
            t.parts = [a + count * b for a, b in zip(t.parts, d.parts, strict=True)]
            t.bound[d.bound] = t.bound.get(d.bound, 0.0) + seconds
            t.by_kind[work.kind] = t.by_kind.get(work.kind, 0.0) + seconds
        return t


def _gaps_of(runs: Any, gaps: Any) -> Any:
    """Gaps of the steps that the device executes, 0 for the others."""
    import numpy as np

    return np.where(runs, gaps, 0.0)


def _issue_costs(stretch: Stretch, host: HostCosts | None, kernels: Any, graphs: bool) -> Any:
    """Seconds of the host for each call; a graph is asked for once."""
    import numpy as np

    work, views, tensors, casts = stretch.columns
    if host is None:
        return np.zeros(len(work))
    plain_s = host.operator(stretch.phase).value
    if graphs:
        return np.where(np.arange(len(work)) == 0, plain_s, 0.0)
    ask_s = np.where(casts, min(host.cast_s.value, plain_s), plain_s) if host.cast_s else plain_s
    further = np.maximum(kernels[work] - 1.0, 0.0) * host.launch_s.value
    return ask_s + views * host.view_s.value + further + tensors * host.tensor_s.value
