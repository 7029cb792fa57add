"""Idle time of the device: each gap is cut into pieces, and each piece has an owner.

A gap ends with an operation that some host thread launched. What that thread did while the gap
lasted, looked at earlier by the time from launch to start, is why the device waited.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from pymicro.analysis.profile.busy import ROUNDING_S
from pymicro.analysis.profile.host import HostView, Launch, Timeline
from pymicro.analysis.profile.names import State

# A stretch without any operator that is longer than this is no Python between operators, which
# takes some 10 µs, but other work: reading, decoding, logging, sleeping.
OUTSIDE_S = 1e-3
# A queued kernel begins some µs after the one before; when it is later, something holds it back.
HELD_S = 50e-6
# A first call of an operator that takes so much longer than its others is loading its code.
_FIRST_CALL_FACTOR = 20
_FIRST_CALL_S = 2e-3
PYTHON = "Python between operators"
OUTSIDE = "no operator runs: code outside PyTorch"
_CODES = {
    State.OPERATOR: "host",
    State.COPY: "copy-wait",
    State.SYNCHRONISE: "synchronisation",
    State.ALLOCATE: "allocation",
    State.START_UP: "start-up",
    State.INPUT: "input",
    State.PROFILER: "profiler",
}


@dataclass(frozen=True)
class Gap:
    """The device idle from one moment to another, until an operation launched by `launch`.

    Attributes:
        launch: None where the file does not say, or where nothing follows (`is_last`).
        in_graph: the operation belongs to a CUDA graph.
    """

    start_s: float
    end_s: float
    launch: Launch | None
    in_graph: bool = False
    is_last: bool = False


@dataclass(frozen=True)
class Piece:
    """Part of a gap and its owner: `code` says what kind of reason, `owner` names it."""

    start_s: float
    s: float
    code: str
    owner: str


class Owners:
    """Cuts gaps into pieces by what the host threads did."""

    def __init__(
        self, view: HostView, names: Sequence[str], step_thread: int, latency_s: float
    ) -> None:
        self._view, self._names = view, names
        self._step_thread, self._latency_s = step_thread, latency_s
        self._typical_s = _typical(view.timelines)
        busiest = sorted(range(len(view.timelines)), key=lambda t: -len(view.timelines[t].start_s))
        self._order = [step_thread, *(t for t in busiest if t != step_thread)]
        self._overhead_ends = [end for _, end, _, _ in view.overheads]

    def pieces(self, gap: Gap) -> Iterator[Piece]:
        """The pieces of a gap, in order; together they are the gap."""
        if gap.is_last:
            yield from self._of_host(gap.start_s, gap.end_s, self._step_thread, 0.0)
            return
        if gap.launch is None:
            yield Piece(gap.start_s, gap.end_s - gap.start_s, "unexplained", "launch unknown")
            return
        shift = self._latency_s
        low, high = gap.start_s - shift, gap.end_s - shift
        issued = min(max(gap.launch.end_s, low), high)
        yield from self._of_host(low, issued, gap.launch.thread, shift)
        if high - issued > ROUNDING_S:
            is_held = high - issued > HELD_S
            owner = "inside CUDA graphs" if gap.in_graph else "between queued kernels"
            yield Piece(issued + shift, high - issued, "held" if is_held else "device", owner)

    def _of_host(self, low: float, high: float, thread: int, shift: float) -> Iterator[Piece]:
        """What the host did from `low` to `high`, on its own clock."""
        at = low
        for number in range(bisect_right(self._overhead_ends, low), len(self._view.overheads)):
            start, end, state, name = self._view.overheads[number]
            if start >= high:
                break
            start, end = max(start, at), min(end, high)
            if end > start:
                yield from self._of_threads(at, start, thread, shift)
                yield Piece(start + shift, end - start, _CODES[state], name)
                at = end
        yield from self._of_threads(at, high, thread, shift)

    def _of_threads(self, low: float, high: float, thread: int, shift: float) -> Iterator[Piece]:
        """The launching thread's doings; where it has none, the other threads'."""
        others = [thread, *(t for t in self._order if t != thread)]
        yield from self._fill(low, high, others, shift, inf)

    def _fill(
        self, low: float, high: float, threads: Sequence[int], shift: float, hole_s: float
    ) -> Iterator[Piece]:
        if high - low <= ROUNDING_S:
            return
        if not threads:
            whole_s = high - low if hole_s == inf else max(hole_s, high - low)
            is_long = whole_s >= OUTSIDE_S
            code, owner = ("outside", OUTSIDE) if is_long else ("host", PYTHON)
            yield Piece(low + shift, high - low, code, owner)
            return
        line = self._view.timelines[threads[0]]
        at, number = low, bisect_right(line.end_s, low)
        while at < high:
            is_over = number >= len(line.start_s)
            start = high if is_over else min(max(line.start_s[number], at), high)
            if start > at:
                # Nothing runs only while nothing runs on any thread.
                shortest_s = min(hole_s, _hole_s(line, number))
                yield from self._fill(at, start, threads[1:], shift, shortest_s)
            if is_over or start >= high:
                return
            end = min(line.end_s[number], high)
            yield self._piece(line, number, start, end, shift)
            at, number = end, number + 1

    def _piece(self, line: Timeline, number: int, start: float, end: float, shift: float) -> Piece:
        state = State(line.state[number])
        whole_s = line.end_s[number] - line.start_s[number]
        owner = self._names[line.owner[number]]
        if state == State.PYTHON:
            is_long = whole_s >= OUTSIDE_S and not owner.startswith("Optimizer.")
            code, owner = ("outside", f"in '{owner}'") if is_long else ("host", PYTHON)
        elif state == State.OPERATOR and self._is_first_call(line, number, whole_s):
            code, owner = "start-up", f"first call of {owner}"
        elif state in (State.SYNCHRONISE, State.COPY):
            code, owner = _CODES[state], self._asked(line.start_s[number], owner)
        else:
            code = _CODES[state]
        return Piece(start + shift, end - start, code, owner)

    def _asked(self, at_s: float, call: str) -> str:
        blocking = self._view.blocking
        number = bisect_right(blocking, at_s, key=lambda b: b.start_s) - 1
        return blocking[number].asked if number >= 0 else call

    def _is_first_call(self, line: Timeline, number: int, s: float) -> bool:
        typical_s = self._typical_s.get(line.owner[number], s)
        return s >= _FIRST_CALL_S and s >= _FIRST_CALL_FACTOR * typical_s


def _hole_s(line: Timeline, number: int) -> float:
    """How long the thread does nothing before its stretch `number`; no end at those of the file."""
    if not 0 < number < len(line.start_s):
        return inf
    return line.start_s[number] - line.end_s[number - 1]


def _typical(timelines: Sequence[Timeline]) -> Mapping[int, float]:
    """The median stretch of each operator: loading happens once, work again and again."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for line in timelines:
        for start, end, state, owner in zip(
            line.start_s, line.end_s, line.state, line.owner, strict=True
        ):
            if state == State.OPERATOR:
                found[owner].append(end - start)
    return {owner: sorted(all_s)[len(all_s) // 2] for owner, all_s in found.items()}


@dataclass(frozen=True)
class Wait:
    """The host in a blocking call while the device worked: it could have run ahead so long."""

    end_s: float
    s: float
    code: str
    asked: str


def charge_waits(pieces: Sequence[Piece], waits: Sequence[Wait], most_s: float) -> list[Piece]:
    """Gaps that would not be there had the host not waited before, charged to the wait.

    While the host waits the device works off all that was queued, and then idles until the host
    has launched again. Without the wait the host would be ahead by the time it lost there, so that
    much of the gaps that follow is the wait's; what is beyond stays the host's own.

    Args:
        most_s: how far ahead a host can be; a step's time, since it rarely gets further.
    """
    charged: list[Piece] = []
    ends = [w.end_s for w in waits]
    credit_s, seen, last = 0.0, 0, None
    for piece in sorted(pieces, key=lambda p: p.start_s):
        upto = bisect_left(ends, piece.start_s + piece.s)
        for wait in waits[seen:upto]:
            credit_s, last = min(credit_s + wait.s, most_s), wait
        seen = max(seen, upto)
        if last is None or credit_s <= 0 or piece.code not in ("host", "outside"):
            charged.append(piece)
            continue
        used_s = min(credit_s, piece.s)
        credit_s -= used_s
        charged.append(Piece(piece.start_s, used_s, last.code, last.asked))
        if piece.s > used_s:
            rest = Piece(piece.start_s + used_s, piece.s - used_s, piece.code, piece.owner)
            charged.append(rest)
    return charged
