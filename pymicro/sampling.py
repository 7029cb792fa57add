"""The measuring loop. It knows clocks and samples, and nothing of kernels or devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pymicro import stats
from pymicro.errors import PymicroError
from pymicro.timers import Call, Timer, Timing

# A burst is what a device does before power and heat catch up: 20 ms of work after a rest. The
# host checks a result before, for a tenth of a second and more in which the device rests too.
BURST_WORK_S = 0.020
BURST_REST_S = 0.15
_MOST_BURST_SAMPLES = 200


@dataclass(frozen=True)
class Plan:
    """How to sample.

    Attributes:
        min_samples: fewer than this never end a measurement.
        spread: half width of the median's 95 % interval, relative, at which to stop.
        drift_limit: relative change from first to last third that still counts as steady.
        budget_s: wall time of one call's measurement, warm-up included, after which it ends.
        min_seconds: wall time before which it never ends: a power limit takes a second to bite.
        batch_s: calls are timed in batches at least this long, to stay clear of the clock's
            resolution and, on a GPU, to keep it busy while the host looks at the clock.
        block_s: with several calls, how long one runs before the next takes its turn.
        rest_s: idle time before a burst.
    """

    min_samples: int = 10
    spread: float = 0.005
    drift_limit: float = 0.02
    budget_s: float = 5.0
    min_seconds: float = 0.0
    batch_s: float = 200e-6
    block_s: float = 0.0
    rest_s: float = BURST_REST_S


class UnsteadyClock(PymicroError):
    """More than one sample in twenty was zero, negative or not a number."""


class CallFailed(Exception):
    """One of several calls that take turns raised; `who` is its index, the cause is chained."""

    def __init__(self, who: int) -> None:
        super().__init__(who)
        self.who = who


def tagged(call: Call, who: int) -> Call:
    """The call, raising CallFailed where it raises."""

    def tagged() -> None:
        try:
            call()
        except Exception as error:
            raise CallFailed(who) from error

    return tagged


@dataclass(frozen=True)
class Samples:
    """Every sample in order, and why the loop stopped: `steady`, `budget`, `burst`, `interrupt`.

    `blocks` holds the index of the first sample of each turn, for pairs with another call's.
    """

    timings: tuple[Timing, ...]
    stopped: str
    repeats: int = 1
    rejected: int = 0
    blocks: tuple[int, ...] = (0,)

    @property
    def times_s(self) -> list[float]:
        return [t.seconds for t in self.timings]

    def block_means_s(self) -> list[float | None]:
        """Mean seconds of a call in each turn; None for a turn whose samples were all rejected."""
        ends = [*self.blocks[1:], len(self.timings)]
        pairs = zip(self.blocks, ends, strict=True)
        return [sum(self.times_s[a:b]) / (b - a) if b > a else None for a, b in pairs]


@dataclass
class _Track:
    """One call while it is measured."""

    call: Call
    repeats: int
    timings: list[Timing] = field(default_factory=list)
    rejected: int = 0
    blocks: list[int] = field(default_factory=list)
    next_look: int = 0
    is_steady: bool = False

    def sample(self, timer: Timer, before: Call | None) -> Timing:
        """Time one batch; keep it if a clock can mean it.

        Raises:
            UnsteadyClock: too many could not be meant.
        """
        timing = timer.time(self.call, self.repeats, before)
        if timing.seconds > 0 and math.isfinite(timing.seconds):
            self.timings.append(timing)
            return timing
        self.rejected += 1
        # A batch too large for the queue behind the gate times out; a smaller one may not.
        self.repeats = max(1, self.repeats // 2)
        if self.rejected > max(3, len(self.timings) // 20):
            raise UnsteadyClock(
                f"{self.rejected} of {self.rejected + len(self.timings)} samples had no positive "
                "time; the clock or the driver cannot be trusted here."
            )
        return timing

    def look(self, plan: Plan) -> None:
        """Judge steadiness, at growing intervals since the bootstrap costs milliseconds."""
        count = len(self.timings)
        if count >= max(self.next_look, plan.min_samples):
            times = [t.seconds for t in self.timings]
            self.is_steady = stats.is_steady(times, plan.spread, plan.drift_limit)
            self.next_look = math.ceil(count * 1.2)

    def samples(self, stopped: str) -> Samples:
        return Samples(
            tuple(self.timings), stopped, self.repeats, self.rejected, tuple(self.blocks) or (0,)
        )


def repeats_for(timer: Timer, call: Call, batch_s: float) -> int:
    """How many calls make one batch of `batch_s`; runs the call a few times to find out."""
    repeats = 1
    while True:
        # The better of two: a first call may load, or be interrupted.
        times = [timer.time(call, repeats).seconds for _ in range(2)]
        seconds = min((t for t in times if t > 0), default=math.nan)
        if math.isnan(seconds):
            return max(1, repeats // 8)
        if seconds * repeats >= batch_s / 2 or repeats >= timer.max_repeats:
            wanted = math.ceil(batch_s / max(seconds, 1e-9))
            return max(1, min(wanted, timer.max_repeats))
        repeats = min(repeats * 8, timer.max_repeats)


def burst(timer: Timer, call: Call, plan: Plan, before: Call | None = None) -> Samples:
    """Samples of the first 20 ms of work after a rest, at least three.

    `before` runs untimed ahead of every call, to flush caches; then each call is its own sample.
    """
    repeats = 1 if before is not None else repeats_for(timer, call, plan.batch_s)
    track, worked = _Track(call, repeats), 0.0
    timer.sleep(plan.rest_s)
    while len(track.timings) < 3 or worked < BURST_WORK_S:
        repeats, timing = track.repeats, track.sample(timer, before)
        if timing.seconds > 0:  # Neither NaN nor negative.
            worked += timing.seconds * repeats
        if len(track.timings) >= _MOST_BURST_SAMPLES:
            break
    return track.samples("burst")


def sustained(
    timer: Timer,
    calls: Sequence[Call],
    plan: Plan,
    before: Call | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> list[Samples]:
    """Samples of each call until all are steady or out of budget, taking turns.

    The order of turns reverses from round to round, so that no call always runs on another's
    heat; ratios between calls come from pairs of turns. Warm-up ends when samples stop drifting.
    """
    tracks = [
        _Track(call, 1 if before else repeats_for(timer, call, plan.batch_s)) for call in calls
    ]
    start, budget_s = timer.now(), plan.budget_s * len(calls)
    _warm_up(timer, tracks, start + 0.25 * budget_s, before, interrupted)
    measured_from, round_ = timer.now(), 0
    while True:
        for track in tracks if round_ % 2 == 0 else reversed(tracks):
            _turn(timer, track, plan.block_s, before)
            track.look(plan)
        round_ += 1
        out_of_budget = timer.now() - start >= budget_s
        stopped = _why_stop(tracks, out_of_budget, interrupted())
        if stopped == "steady" and timer.now() - measured_from < plan.min_seconds * len(calls):
            continue
        if stopped is not None:
            return [track.samples(stopped) for track in tracks]


def _turn(timer: Timer, track: _Track, block_s: float, before: Call | None) -> None:
    track.blocks.append(len(track.timings))
    until = timer.now() + block_s
    while True:
        track.sample(timer, before)
        if timer.now() >= until:
            return


def _why_stop(tracks: Sequence[_Track], out_of_budget: bool, interrupted: bool) -> str | None:
    if interrupted:
        return "interrupt"
    if all(track.is_steady for track in tracks):
        return "steady"
    if out_of_budget and all(len(track.timings) >= 3 for track in tracks):
        return "budget"
    return None


def _warm_up(
    timer: Timer,
    tracks: Sequence[_Track],
    deadline: float,
    before: Call | None,
    interrupted: Callable[[], bool],
) -> None:
    """Run all calls in turn until five rounds agree within 2 %, or the deadline."""
    recent: list[float] = []
    while len(recent) < 5 or max(recent) > 1.02 * min(recent):
        seconds = sum(timer.time(track.call, track.repeats, before).seconds for track in tracks)
        recent = [*recent[-4:], seconds]
        if timer.now() >= deadline or interrupted():
            return
