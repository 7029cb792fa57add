"""How a case that is ready is sampled: a burst, turns with others, or lasting load."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pymicro import sampling, stats
from pymicro.backends.base import Call
from pymicro.benchmark import Benchmark
from pymicro.errors import PymicroError, Unavailable
from pymicro.outcomes import with_samples, without_time
from pymicro.results import Result
from pymicro.run.context import Context, Measured, Options, Seen, Underway
from pymicro.run.planning import case_key, is_vendor
from pymicro.sampling import Plan

# Turns of each case that has no burst, in a look.
_TURNS = 6


def first_look(benchmark: Benchmark, measured: Measured, under_way: Underway) -> Measured:
    """Sample: a burst on a GPU, ordinary samples where the host is timed."""
    case, prepared, blank = measured.case, measured.prepared, measured.result
    context, rest_s = under_way.context, under_way.options.rest_s
    try:
        clock = benchmark.clock(case.params)
        timer = context.bench.clock(clock)
        before = _flush(benchmark, blank, context)
        with _undisturbed():
            if context.bench.place.kind == "cpu" or clock.side == "host":
                plan = Plan(budget_s=max(under_way.share_s, 0.3))
                samples = sampling.sustained(
                    timer, [prepared.call], plan, before, context.interrupted
                )[0]
                result = with_samples(blank, [samples], context.telemetry, "times_s")
                return Measured(case, prepared, result)
            samples = sampling.burst(timer, prepared.call, Plan(rest_s=rest_s), before)
        result = with_samples(blank, [samples], context.telemetry, "burst_s")
        return Measured(case, prepared, result, samples if result.outcome == "ok" else None)
    except Exception as error:
        return Measured(case, prepared, without_time(blank, error))


def turns(under_way: Underway, measured: Sequence[Measured]) -> Iterator[Result]:
    """Ordinary samples, all who are ready taking turns, so that none has a quieter host.

    One that raises has failed; the others start anew.
    """
    benchmark, context, share_s = under_way.benchmark, under_way.context, under_way.share_s
    left = [m for m in measured if m.is_ready]
    while left:
        before = _flush(benchmark, left[0].result, context)
        plan = Plan(
            min_seconds=share_s / 2,
            budget_s=share_s,
            block_s=share_s / _TURNS,
            batch_s=benchmark.batch_s,
        )
        try:
            timer = context.bench.clock(benchmark.clock(left[0].case.params))
            calls = [sampling.tagged(m.prepared.call, who) for who, m in enumerate(left)]
            with _undisturbed():
                tracks = sampling.sustained(timer, calls, plan, before, context.interrupted)
        except sampling.CallFailed as failed:
            broken = replace(left.pop(failed.who), is_ready=False)
            cause = failed.__cause__
            assert isinstance(cause, Exception)
            broken.result = without_time(broken.result, cause)
            yield broken.result
            if not context.is_lost(broken):
                continue
            for other in left:
                yield without_time(other.result, Unavailable(context.lost or ""))
            return
        except PymicroError as error:
            yield from (without_time(m.result, error) for m in left)
            return
        for one, samples in zip(left, tracks, strict=True):
            known = under_way.seen.setdefault(case_key(one.case), Seen(one.result))
            known.looks.append(samples)
            yield known.joined(context)
        return


def sustained(
    benchmark: Benchmark, chosen: Sequence[Measured], context: Context, share_s: float
) -> Iterator[Result]:
    """Sustained samples, the chosen taking turns; 25 ms batches keep the device busy.

    If one raises, it alone has failed; the others keep the bursts that they have.
    """
    if not chosen:
        return
    for measured in chosen:
        context.on_case(measured.case, "sustained")
    before = _flush(benchmark, chosen[0].result, context)
    plan = Plan(min_seconds=1.0, budget_s=max(1.6, share_s), batch_s=0.025, block_s=0.25)
    calls = [sampling.tagged(m.prepared.call, who) for who, m in enumerate(chosen)]
    timer = context.bench.clock(benchmark.clock(chosen[0].case.params))
    try:
        with _undisturbed():
            tracks = sampling.sustained(timer, calls, plan, before, context.interrupted)
    except sampling.CallFailed as failed:
        cause = failed.__cause__
        assert isinstance(cause, Exception)
        yield without_time(chosen[failed.who].result, cause)
        return
    except PymicroError as error:
        for measured in chosen:
            said = (*measured.result.notes, f"no sustained samples: {error}")
            yield replace(measured.result, notes=said)
        return
    for measured, samples in zip(chosen, tracks, strict=True):
        details = {**measured.result.details, "block_means_s": samples.block_means_s()}
        burst = measured.result.telemetry
        known = replace(measured.result, details=details, burst_telemetry=burst)
        yield with_samples(known, [samples], context.telemetry, "times_s")


def chosen_for_load(ready: Sequence[Measured], options: Options) -> list[Measured]:
    """Which cases are worth sustained seconds: our fastest and the vendor's, or all."""
    ran = [m for m in ready if m.burst is not None]
    if options.sustained == "all":
        return ran
    if options.sustained == "none":
        return []
    sides: tuple[list[Measured], list[Measured]] = ([], [])
    for measured in ran:
        sides[is_vendor(measured.case)].append(measured)
    return [min(side, key=_burst_median_s) for side in sides if side]


def _burst_median_s(measured: Measured) -> float:
    assert measured.burst is not None
    return stats.median(measured.burst.times_s)


def _flush(benchmark: Benchmark, result: Result, context: Context) -> Call | None:
    """What runs untimed before each call: for a cold cache, another's lines in it."""
    if result.cache != "cold":
        return None
    return context.bench.flush(benchmark.written(result.params))


@contextlib.contextmanager
def _undisturbed():
    """No garbage collection while a clock runs."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
