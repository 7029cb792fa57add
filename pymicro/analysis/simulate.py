"""A job on a device: two queues, the host's and the device's, and who waits for whom.

The host issues operators one after another. The device starts a kernel when it has been issued
and the one before has ended. A synchronisation ties the two. A stretch that repeats is run until
its time is steady, and multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pymicro.analysis.durations import Clock, Duration
from pymicro.analysis.primitives import HostCosts, Primitives
from pymicro.analysis.program import Program, Step, Stretch

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
        self._p, self._config = p, config
        clock = Clock(p, config.tf32)
        self._works = program.works
        self._durations = [clock.of(work) for work in program.works]
        self._seconds = [d.seconds for d in self._durations]
        self._gap_s = p.graph_gap.value if config.graphs else p.gap.value
        self._host = p.host if config.host else None
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
        """Issue and execute every call in order."""
        began_s, counts = q.now_s, [0] * len(self._works)
        host, gap_s, seconds, ties = self._host, self._gap_s, self._seconds, self._config.ties
        costs = _issue_costs(stretch, host, self._durations, self._config.graphs)
        reach_s = self._p.reach_s.value if host else 0.0
        wait_s = host.wait_s.value if host else 0.0
        host_s, device_s = q.host_s, q.device_s
        if host and (ties or stretch.phase != "input"):
            host_s += host.run(stretch.phase)
        asked_from_s = host_s
        gaps_s = starved_s = waited_s = 0.0
        events = self.events if is_last else None
        for step, issue_s in zip(stretch.steps, costs, strict=True):
            issued_s = host_s
            host_s += issue_s
            took_s = seconds[step.work]
            if took_s and (ties or not self._works[step.work].host_bytes):
                counts[step.work] += 1
                ready_s = device_s + gap_s * max(self._durations[step.work].kernels, 1.0)
                start_s = host_s + reach_s if host_s + reach_s > ready_s else ready_s
                gaps_s += ready_s - device_s
                starved_s += start_s - ready_s
                device_s = start_s + took_s
                if events is not None:
                    events.append(self._event(step, stretch, issued_s, issue_s, start_s))
            if step.synchronises and ties:
                ended_s = max(host_s, device_s)
                waited_s += ended_s - host_s
                host_s = ended_s + wait_s
        q.host_s, q.device_s = host_s, device_s
        totals = self._counted(counts)
        totals.wall_s = q.now_s - began_s
        totals.host_s = host_s - asked_from_s - waited_s
        totals.gap_s, totals.starved_s = gaps_s, starved_s
        return totals

    def _event(
        self, step: Step, stretch: Stretch, issued_s: float, issue_s: float, start_s: float
    ) -> Event:
        duration, work = self._durations[step.work], self._works[step.work]
        return Event(step, stretch.phase, work.kind, issued_s, issue_s, start_s, duration)

    def _counted(self, counts: list[int]) -> Totals:
        """What so many calls of each work add up to."""
        t = Totals()
        for count, work, d in zip(counts, self._works, self._durations, strict=True):
            if not count:
                continue
            seconds = count * d.seconds
            if work.host_bytes:
                t.copying_s += seconds
                continue
            t.busy_s += seconds
            t.kernels += count * d.kernels
            t.parts = [a + count * b for a, b in zip(t.parts, d.parts, strict=True)]
            t.bound[d.bound] = t.bound.get(d.bound, 0.0) + seconds
            t.by_kind[work.kind] = t.by_kind.get(work.kind, 0.0) + seconds
        return t


def _issue_costs(
    stretch: Stretch, host: HostCosts | None, durations: list[Duration], graphs: bool
) -> list[float]:
    """Seconds of the host for each call; a graph is asked for once."""
    if host is None:
        return [0.0] * len(stretch.steps)
    ask_s = host.operator(stretch.phase).value
    if graphs:
        return [ask_s if number == 0 else 0.0 for number in range(len(stretch.steps))]
    view_s, launch_s, tensor_s = (v.value for v in (host.view_s, host.launch_s, host.tensor_s))
    return [
        ask_s
        + step.views * view_s
        + max(durations[step.work].kernels - 1.0, 0.0) * launch_s
        + step.tensors * tensor_s
        for step in stretch.steps
    ]
