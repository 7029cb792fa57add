"""One row of a study: two ways to the same product, checked and then timed in turns.

What comes out are two results for the store, whose samples are the means of blocks; block i of one
was taken next to block i of the other, so ratios are made pair by pair.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymicro import backends, sampling, stats
from pymicro.backends.base import Prepared
from pymicro.benchmark import Benchmark, Case
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError
from pymicro.results import Result, Verified
from pymicro.sampling import Plan, Samples
from pymicro.telemetry import Telemetry
from pymicro.timers import Call, Timer, Timing
from pymicro.workbench import Workbench

IDLE_S = 2.0  # before a burst


@dataclass(frozen=True)
class Effort:
    """How long to look: seconds of a block, pairs of blocks at least, seconds of warm-up under
    load, and the seconds of one call's blocks after which an unsteady row ends anyway."""

    block_s: float = 0.5
    pairs: int = 10
    warm_up_s: float = 2.0
    most_s: float = 10.0
    batch_s: float = 0.025


@dataclass(frozen=True)
class Shared:
    """What all results of a run have in common."""

    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    run_id: str
    telemetry: Callable[[Sequence[tuple[float, float]]], Telemetry | None]


@dataclass(frozen=True)
class Side:
    """One way to the product, ready to run and found right."""

    case: Case
    prepared: Prepared
    verified: Verified


def prepare(benchmark: Benchmark, case: Case, bench: Workbench, fill: str, seed: int) -> Side:
    """Compile, load and check one side; operands are shared by all sides of a row.

    Raises:
        PymicroError: it cannot run here, or is wrong; the reason.
    """
    problem = bench.problem(benchmark, case, fill, seed)
    prepared = backends.backend(case.backend).prepare(case, bench.place, problem.arrays)
    try:
        problem.poison()
        bench.synchronise()
        prepared.call()
        bench.synchronise()
        check = problem.check()
    except BaseException:
        prepared.close()
        raise
    return Side(case, prepared, Verified(**vars(check)))


def fastest(timer: Timer, sides: Sequence[Side]) -> tuple[Side, dict[str, float]]:
    """The side of the least time in short bursts, taken in turns; and seconds by name."""
    times: dict[str, list[float]] = {name_of(side.case): [] for side in sides}
    for turn in range(2 if len(sides) > 1 else 0):
        for side in sides if turn == 0 else reversed(sides):
            times[name_of(side.case)] += sampling.burst(timer, side.prepared.call, Plan()).times_s
    seconds = {name: stats.median(taken) for name, taken in times.items() if taken}
    return min(sides, key=lambda side: seconds.get(name_of(side.case), 0.0)), seconds


def name_of(case: Case) -> str:
    return f"{case.backend} {case.variant}"


def burst(timer: Timer, side: Side) -> Samples:
    """The first 20 ms of work after 2 s of idling."""
    timer.sleep(IDLE_S - sampling.BURST_REST_S)
    return sampling.burst(timer, side.prepared.call, Plan())


def in_turns(
    timer: Timer, sides: Sequence[Side], effort: Effort, before: Call | None = None
) -> list[list[Samples]]:
    """Blocks of all sides in turns after one warm-up under load; for each side its samples.

    `before` runs untimed ahead of every call, to flush caches. Ends when all medians are steady,
    but not before `effort.pairs` blocks of each.
    """
    calls = [side.prepared.call for side in sides]
    repeats = [1 if before else sampling.repeats_for(timer, call, effort.batch_s) for call in calls]
    until = timer.now() + effort.warm_up_s
    while timer.now() < until:
        for call, count in zip(calls, repeats, strict=True):
            timer.time(call, count, before)
    parts: list[list[Samples]] = [[] for _ in sides]
    while (done := len(pairs(parts))) < effort.pairs:
        wanted_s = (effort.pairs - done) * effort.block_s
        plan = Plan(
            batch_s=effort.batch_s,
            block_s=effort.block_s,
            min_seconds=wanted_s,
            budget_s=max(effort.most_s, 1.5 * wanted_s),
        )
        tracks = sampling.sustained(timer, calls, plan, before)
        for part, samples in zip(parts, tracks, strict=True):
            part.append(samples)
    return parts


@dataclass(frozen=True)
class Block:
    """Mean seconds of a call and mean SM clock in one turn, and when it ran."""

    seconds: float
    sm_clock_hz: float | None
    started_s: float
    ended_s: float


def blocks(parts: Sequence[Samples]) -> list[Block | None]:
    """All turns of a side in order; None for one whose samples were all rejected."""
    found: list[Block | None] = []
    for samples in parts:
        ends = [*samples.blocks[1:], len(samples.timings)]
        for first, end in zip(samples.blocks, ends, strict=True):
            found.append(_block(samples.timings[first:end]) if end > first else None)
    return found


def _block(turn: Sequence[Timing]) -> Block:
    clocks = [timing.sm_clock_hz for timing in turn if timing.sm_clock_hz]
    return Block(
        sum(timing.seconds for timing in turn) / len(turn),
        sum(clocks) / len(clocks) if clocks else None,
        turn[0].started_s,
        turn[-1].ended_s,
    )


def pairs(parts: Sequence[Sequence[Samples]]) -> list[tuple[Block, ...]]:
    """Blocks that were taken side by side, one of each side; without those that lack one."""
    turns = zip(*map(blocks, parts), strict=True) if any(parts) else ()
    return [tuple(b for b in turn if b is not None) for turn in turns if None not in turn]


def measured(
    benchmark: Benchmark,
    bench: Workbench,
    sides: Sequence[Side],
    effort: Effort,
    shared: Shared,
    with_burst: bool = False,
    before: Call | None = None,
) -> list[Result]:
    """Blocks of all sides as results, and their bursts if asked for; see `in_turns`."""
    gc.disable()
    try:
        bursts = [burst(bench.timer, side) if with_burst else None for side in sides]
        tracks = zip(*pairs(in_turns(bench.timer, sides, effort, before)), strict=True)
    finally:
        gc.enable()
    return [
        _result(benchmark, bench, side, track, first, effort, shared)
        for side, track, first in zip(sides, tracks, bursts, strict=True)
    ]


def _result(
    benchmark: Benchmark,
    bench: Workbench,
    side: Side,
    track: Sequence[Block],
    first: Samples | None,
    effort: Effort,
    shared: Shared,
) -> Result:
    case, work = side.case, benchmark.work(side.case.dtype, side.case.params)
    clocks = tuple(block.sm_clock_hz for block in track)
    return Result(
        benchmark=case.benchmark,
        backend=case.backend,
        variant=case.variant,
        dtype=case.dtype,
        accumulate=DTYPES[case.dtype].accumulate,
        params=case.params,
        device=shared.device,
        environment=shared.environment,
        verified=side.verified,
        flop=work.flop,
        bytes=work.bytes,
        times_s=tuple(block.seconds for block in track),
        burst_s=tuple(first.times_s) if first is not None else (),
        sample_sm_clock_hz=clocks if any(clocks) else None,
        telemetry=shared.telemetry([(block.started_s, block.ended_s) for block in track]),
        timer=bench.timer.name,
        details={"sample": "mean of a block", "block_s": effort.block_s, **side.prepared.notes},
        run_id=shared.run_id,
    )


def reason(error: Exception) -> str:
    """Why a row gave nothing, in a line."""
    said = str(error) if isinstance(error, PymicroError) else f"{type(error).__name__}: {error}"
    return said.splitlines()[0] if said else type(error).__name__
