"""What each host thread was doing at every moment, and what launched what."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

import numpy as np

from pymicro.analysis.profile import names
from pymicro.analysis.profile.busy import ROUNDING_S
from pymicro.analysis.profile.names import State
from pymicro.analysis.profile.trace import CALL, MARK, OP, OVERHEAD, STACK, Host, Trace

_DOMINANT = (State.INPUT, State.START_UP)


@dataclass
class Timeline:
    """Stretches of one thread in order; between them it did nothing that the profiler saw.

    Attributes:
        owner: for each stretch a name: the outermost operator's, the annotation's, the call's.
    """

    start_s: array[float] = field(default_factory=lambda: array("d"))
    end_s: array[float] = field(default_factory=lambda: array("d"))
    state: array[int] = field(default_factory=lambda: array("b"))  # a `State` each
    owner: array[int] = field(default_factory=lambda: array("l"))

    def add(self, start_s: float, end_s: float, state: State, owner: int) -> None:
        if end_s > start_s and state != State.NOTHING:
            self.start_s.append(start_s)
            self.end_s.append(end_s)
            self.state.append(state)
            self.owner.append(owner)


@dataclass(frozen=True, slots=True)
class Launch:
    """The call that started device work.

    Attributes:
        operator, outermost: numbers of the names of the operators around it, -1 for none.
        in_optimizer: below an optimiser's step.
        product: the row of the product around it on its thread, -1 for none.
        call: number of the call's name.
    """

    thread: int
    start_s: float
    end_s: float
    operator: int
    outermost: int
    in_optimizer: bool
    product: int
    call: int


@dataclass(frozen=True)
class Blocking:
    """A call in which the host waits for the device: asked for by `asked`, in words."""

    start_s: float
    end_s: float
    state: State
    asked: str


@dataclass
class HostView:
    """All threads of a process.

    Attributes:
        launches: by correlation number.
        overheads: (start, end, state, name), in order: stretches that CUPTI says were its own or a
            loader's.
    """

    timelines: list[Timeline]
    launches: dict[int, Launch]
    blocking: list[Blocking]
    overheads: list[tuple[float, float, State, str]]


def view(trace: Trace, process: int | str) -> HostView:
    """Flatten the nested events of the process's threads."""
    wanted = set(trace.device.correlation)
    found = HostView([], {}, [], [])
    for (pid, _), host in trace.threads.items():
        _overheads(trace, host, found)
        if pid == process:
            _Flattening(trace, host, wanted, found).run()
    found.blocking.sort(key=lambda b: b.start_s)
    found.overheads.sort()
    return found


def _overheads(trace: Trace, host: Host, found: HostView) -> None:
    """Overheads stand on a thread of their own, of no process."""
    for row, kind in enumerate(host.kind):
        if kind == OVERHEAD:
            name = trace.names[host.name[row]]
            state = names.of_overhead(name)
            if state != State.NOTHING:
                found.overheads.append((host.start_s[row], host.end_s[row], state, name))


@dataclass
class _Open:
    """An event that has begun and not ended."""

    end_s: float
    state: State
    owner: int
    operator: int
    outermost: int
    in_optimizer: bool
    asked: str
    product: int = -1
    frame: str = ""


class _Flattening:
    """One thread's nested events to stretches; of each moment the innermost event decides."""

    def __init__(self, trace: Trace, host: Host, wanted: set[int], found: HostView) -> None:
        self._names, self._host, self._wanted, self._found = trace.names, host, wanted, found
        self._thread = len(found.timelines)
        self._timeline = Timeline()
        found.timelines.append(self._timeline)
        self._stack: list[_Open] = [_Open(np.inf, State.NOTHING, -1, -1, -1, False, "")]
        self._now_s = -np.inf
        self._states: dict[tuple[int, int], State] = {}

    def run(self) -> None:
        start, end = np.asarray(self._host.start_s), np.asarray(self._host.end_s)
        kinds = np.asarray(self._host.kind)
        for row in np.lexsort((-end, start)).tolist():
            if kinds[row] != OVERHEAD:
                self._advance(self._host.start_s[row])
                self._push(row)
        self._advance(np.inf)

    def _advance(self, until_s: float) -> None:
        stack = self._stack
        while stack[-1].end_s <= until_s + ROUNDING_S and len(stack) > 1:
            top = stack.pop()
            self._emit(top, min(top.end_s, until_s))
        self._emit(stack[-1], until_s)

    def _emit(self, top: _Open, until_s: float) -> None:
        if until_s > self._now_s:
            self._timeline.add(self._now_s, until_s, top.state, top.owner)
            self._now_s = until_s

    def _push(self, row: int) -> None:
        host, above = self._host, self._stack[-1]
        name, kind = host.name[row], host.kind[row]
        if kind == STACK:
            ends_s = min(host.end_s[row], above.end_s)
            self._stack.append(replace(above, end_s=ends_s, frame=self._names[name]))
            return
        state = self._state(name, kind, above)
        is_operator = kind == OP and state != State.INPUT
        asked = above.asked or names.ASKING.get(self._names[name], "")
        if state == State.COPY and asked and asked not in names.BULK:
            state = State.SYNCHRONISE  # The copy that brings a value back waits for it.
        opened = _Open(
            min(host.end_s[row], above.end_s),
            state,
            self._owner(name, kind, state, above),
            name if is_operator else above.operator,
            name if is_operator and above.outermost < 0 else above.outermost,
            above.in_optimizer or self._names[name].startswith(names.OPTIMIZER),
            asked,
            row if host.product[row] >= 0 else above.product,
            above.frame,
        )
        if kind == CALL:
            self._call(row, name, opened, above)
        self._stack.append(opened)

    def _state(self, name: int, kind: int, above: _Open) -> State:
        if above.state in _DOMINANT:
            return above.state
        own = self._states.get((name, kind))
        if own is None:
            of = {OP: names.of_operator, MARK: names.of_mark}.get(kind, names.of_call)
            own = self._states[name, kind] = of(self._names[name])
        weaker = own == State.NOTHING or (own == State.PYTHON and above.state == State.OPERATOR)
        return above.state if weaker else own

    def _owner(self, name: int, kind: int, state: State, above: _Open) -> int:
        """The outermost operator names the work; of other states, what brought them about."""
        if state == above.state and above.owner >= 0:
            return above.owner if state != State.PYTHON else name
        if kind == CALL and above.outermost >= 0 and state == State.OPERATOR:
            return above.outermost
        return name

    def _call(self, row: int, name: int, opened: _Open, above: _Open) -> None:
        host = self._host
        start_s, end_s, correlation = host.start_s[row], host.end_s[row], host.correlation[row]
        if correlation in self._wanted and correlation not in self._found.launches:
            self._found.launches[correlation] = Launch(
                self._thread, start_s, end_s, above.operator, above.outermost, above.in_optimizer,
                above.product, name,
            )  # fmt: skip
        if opened.state in (State.SYNCHRONISE, State.COPY):
            asked = above.asked
            if not asked:
                operator = self._names[above.outermost] if above.outermost >= 0 else ""
                asked = operator or "a call outside operators, like torch.cuda.synchronize()"
            at = f" at {above.frame}" if above.frame else ""
            told = f"{asked} in {self._names[name]}{at}"
            self._found.blocking.append(Blocking(start_s, end_s, opened.state, told))
