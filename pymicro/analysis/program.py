"""A trace made ready to be simulated at one set of parameters: what each operator asks for.

The same program is simulated many times, with other primitives; so everything that follows from
shapes alone is worked out once, and operators that ask for the same share one `Work`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pymicro.analysis.work import Work, work_of
from pymicro.workloads.sizes import grown
from pymicro.workloads.trace import Operator, Phase, Trace, pasts_of, running, runs_of

# Decode steps that are simulated; time between them is nearly a line.
_PASTS = 4
# Precisions in which autocast puts this operator before others.
_AUTOCAST, _CAST = "amp_", "_to_copy"
_FUSIBLE = ("pointwise", "random", "copy", "normalisation", "reduction", "softmax")


@dataclass(frozen=True)
class Step:
    """One call of one operator: the place of its work in the table, and what the host does.

    `is_cast` says that autocast called it, from C++ with no Python around.
    """

    work: int
    views: int
    tensors: int
    synchronises: bool
    name: str
    module: str
    is_cast: bool = False


@dataclass(frozen=True)
class Stretch:
    """A sequence of calls that a batch runs `times` times, one after another."""

    phase: str
    times: float
    steps: tuple[Step, ...]

    @cached_property
    def counts(self) -> Counter[int]:
        """Calls of each work in one run."""
        return Counter(step.work for step in self.steps)

    @cached_property
    def columns(self) -> tuple[Any, Any, Any, Any]:
        """Work, views, tensors and whether it is a cast, of every step as arrays."""
        import numpy as np

        rows = [(step.work, step.views, step.tensors, step.is_cast) for step in self.steps]
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
        return table[:, 0], table[:, 1].astype(float), table[:, 2].astype(float), table[:, 3] > 0

    @cached_property
    def ties(self) -> tuple[int, ...]:
        """Places after which the host waits for the device."""
        return tuple(n + 1 for n, step in enumerate(self.steps) if step.synchronises)


@dataclass(frozen=True)
class Program:
    """Stretches of one batch in order, the table of works, and the trace they come from."""

    trace: Trace
    values: Mapping[str, int]
    works: tuple[Work, ...]
    stretches: tuple[Stretch, ...]

    @cached_property
    def calls(self) -> Mapping[Work, float]:
        """How often one batch calls each work."""
        found = dict.fromkeys(self.works, 0.0)
        for stretch in self.stretches:
            for place, count in stretch.counts.items():
                found[self.works[place]] += stretch.times * count
        return found

    @property
    def flop(self) -> float:
        """Operations of products and attention in one batch."""
        return sum(times * work.flop for work, times in self.calls.items())


def compiled(trace: Trace, values: Mapping[str, int], fused: bool = False) -> Program:
    """The program of a trace.

    Args:
        values: the job's parameters, of `jobs.sizes_of`.
        fused: chains of operators without products become one kernel each, as a compiler makes
            them.
    """
    table: dict[Work, int] = {}
    stretches = []
    for phase in trace.phases:
        for at, times in _at(phase, values):
            calls = list(_worked_out(running(phase, at), at))
            calls = list(_fused(calls)) if fused else calls
            steps = tuple(_steps(calls, table, trace.precision.startswith(_AUTOCAST)))
            stretches.append(Stretch(phase.name, times, steps))
    return Program(trace, dict(values), tuple(table), tuple(stretches))


def _worked_out(
    operators: Sequence[Operator], at: Mapping[str, int]
) -> Iterator[tuple[Operator, Work]]:
    """Layers repeat: what was worked out for one operator holds for all that are like it."""
    known: dict[Any, Work] = {}
    for o in operators:
        key = (o.name, o.reads, o.writes, o.transposed, o.tensors, repr(o.details))
        if key not in known:
            known[key] = work_of(o, at)
        yield o, known[key]


def _at(phase: Phase, values: Mapping[str, int]) -> Iterator[tuple[Mapping[str, int], float]]:
    runs = runs_of(phase, values)
    if not phase.is_decode:
        if runs:
            yield values, float(runs)
        return
    pasts = pasts_of(phase, values)
    # Midpoints of equal stretches: exact where time is linear in the past.
    count = min(runs, _PASTS)
    for part in range(count):
        past = pasts[int((part + 0.5) * runs / count)]
        yield {**values, **grown(past)}, runs / count


def _steps(
    calls: Sequence[tuple[Operator, Work]], table: dict[Work, int], is_autocast: bool
) -> Iterator[Step]:
    for operator, work in calls:
        place = table.setdefault(work, len(table))
        step = Step(
            place, operator.views, operator.tensors, operator.synchronises, operator.name,
            operator.module, is_autocast and work.name == _CAST,
        )  # fmt: skip
        for _ in range(operator.calls):
            yield step


def _fused(calls: Sequence[tuple[Operator, Work]]) -> Iterator[tuple[Operator, Work]]:
    """Chains between products as one kernel, which moves what the widest of them moves."""
    chain: list[tuple[Operator, Work]] = []
    for call in calls:
        if call[1].kind in _FUSIBLE and not call[0].synchronises:
            chain.append(call)
            continue
        yield from _one(chain)
        chain = []
        yield call
    yield from _one(chain)


def _one(chain: Sequence[tuple[Operator, Work]]) -> Iterator[tuple[Operator, Work]]:
    if chain:
        operator, work = max(chain, key=lambda call: call[1].bytes)
        yield replace(operator, calls=1, views=0), work
