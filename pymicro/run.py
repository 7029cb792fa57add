"""A plan becomes results, one at a time. Each case is checked before it is timed, and ends as
ok, skipped or failed, the last two with a reason."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pymicro import backends, sampling, stats
from pymicro.backends.base import Call, Prepared, offered
from pymicro.benchmark import Benchmark, Case
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError, Unavailable, without_folders
from pymicro.results import Result, Verified
from pymicro.sampling import Plan, Samples
from pymicro.telemetry import Telemetry
from pymicro.workbench import Problem, Workbench

# Seconds of sampling for one problem, all backends together.
BUDGET_S = 8.0


@dataclass(frozen=True)
class Options:
    """How to measure, apart from what.

    Attributes:
        sustained: `none`, `best` (our fastest and the vendor's) or `all`; GPUs only, since a
            CPU's ordinary samples are sustained already.
        budget_s: wall time for sampling the whole plan; compiling and checking come on top.
    """

    fill: str = "normal"
    seed: int = 0
    sustained: str = "best"
    budget_s: float = BUDGET_S
    cache: Literal["hot", "cold"] | None = None


@dataclass
class Context:
    """What every result of a run shares: the device row, the environment, telemetry."""

    bench: Workbench
    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    run_id: str
    telemetry: Callable[[Sequence[tuple[float, float]]], Telemetry | None]
    interrupted: Callable[[], bool] = lambda: False
    on_case: Callable[[Case, str], None] = lambda case, phase: None
    notes: tuple[str, ...] = ()


@dataclass
class _Measured:
    """A case on its way from prepared to sampled."""

    case: Case
    prepared: Prepared
    result: Result
    burst: Samples | None = None
    sampling_s: float = 0.0


def cases(
    benchmark: Benchmark,
    bench: Workbench,
    backend_names: Sequence[str],
    dtypes: Sequence[str],
    points: Sequence[Mapping[str, Any]],
) -> list[Case]:
    """Every combination, problem by problem, so that operands are drawn once for all backends.

    A backend that cannot run here gets one case per problem with variant "", to be skipped.
    """
    found = []
    for dtype, point in itertools.product(dtypes, points):
        for name in backend_names:
            backend = backends.backend(name)
            variants, _ = offered(backend, benchmark.name, dtype, bench.place)
            chosen = [v for v in variants if benchmark.applies(v, point)] if variants else [""]
            found += [Case(benchmark.name, name, v, dtype, point) for v in chosen]
    return found


def run(
    benchmark: Benchmark, planned: Sequence[Case], options: Options, context: Context
) -> Iterator[Result]:
    """Run cases in order; yields each result as soon as it stands.

    On a GPU a case may be yielded twice: with its burst first, and again with sustained samples;
    the later one replaces the earlier (`results.latest`).
    """
    share_s = options.budget_s / max(sum(bool(case.variant) for case in planned), 1)
    left_s = options.budget_s
    lost: str | None = None
    for _, group in itertools.groupby(planned, key=_problem_key):
        with contextlib.ExitStack() as undo:
            ready: list[_Measured] = []
            for case in group:
                if context.interrupted():
                    break
                if lost is not None:
                    yield _skipped(benchmark, case, options, context, lost)
                    continue
                context.on_case(case, "run")
                measured = _first_look(benchmark, case, options, context, share_s)
                undo.callback(measured.prepared.close)
                left_s -= measured.sampling_s
                yield measured.result
                ready.append(measured)
                if measured.result.outcome == "failed" and not context.bench.is_alive():
                    lost = f"{case.backend} {case.variant} left the GPU's context unusable."
            if lost is None and left_s > 0 and not context.interrupted():
                began_s = context.bench.timer.now()
                yield from _sustained(benchmark, _chosen(ready, options), context, share_s)
                left_s -= context.bench.timer.now() - began_s
    with contextlib.suppress(PymicroError):  # A context that died frees nothing.
        context.bench.release()


def problems(planned: Sequence[Case]) -> int:
    """How many different problems a plan has; all backends of one share its operands."""
    return len({_problem_key(case) for case in planned})


def _problem_key(case: Case) -> tuple[Any, ...]:
    return (case.dtype, *case.params.items())


def _skipped(
    benchmark: Benchmark, case: Case, options: Options, context: Context, reason: str
) -> Result:
    return replace(_blank(benchmark, case, options, context), reason=reason)


def _first_look(
    benchmark: Benchmark, case: Case, options: Options, context: Context, share_s: float
) -> _Measured:
    """Prepare, check, and sample: a burst on a GPU, ordinary samples where the host is timed."""
    blank = _blank(benchmark, case, options, context)
    prepared = Prepared(lambda: None)
    try:
        problem = _problem(benchmark, case, options, context)
        clock = benchmark.clock(case.params)
        timer = context.bench.clock(clock)
        began_s = timer.now()
        prepared = backends.backend(case.backend).prepare(case, context.bench.place, problem.arrays)
        first = {"prepare_s": timer.now() - began_s}
        check = _checked(prepared, problem, context)
        blank = replace(
            blank,
            timer=timer.name,
            verified=Verified(**vars(check)),
            details={**blank.details, **first, **prepared.notes},
        )
        blank = _told_cache(blank, options)
        before = context.bench.flush() if blank.cache == "cold" else None
        began_s = timer.now()
        with _undisturbed():
            if context.bench.place.kind == "cpu" or clock.side == "host":
                plan = Plan(budget_s=max(share_s, 0.3))
                samples = sampling.sustained(
                    timer, [prepared.call], plan, before, context.interrupted
                )[0]
                result = _with_samples(blank, samples, context, "times_s")
                return _Measured(case, prepared, result, None, timer.now() - began_s)
            samples = sampling.burst(timer, prepared.call, Plan(), before)
        result = _with_samples(blank, samples, context, "burst_s")
        return _Measured(case, prepared, result, samples, timer.now() - began_s)
    except Exception as error:
        return _Measured(case, prepared, _without_time(blank, error))


def _told_cache(result: Result, options: Options) -> Result:
    """A call that goes through its arrays several times is cold the first time at most.

    Raises:
        Unavailable: cold was asked for.
    """
    if result.details.get("passes", 1) == 1 or result.cache == "hot":
        return result
    if options.cache == "cold":
        raise Unavailable("arrays this small are gone through several times a call: hot, not cold.")
    return replace(result, cache="hot")


def _problem(benchmark: Benchmark, case: Case, options: Options, context: Context) -> Problem:
    """The operands of a case.

    Raises:
        Unavailable: the backend or the device cannot run it; the reason why.
    """
    place = context.bench.place
    backend = backends.backend(case.backend)
    _, reason = offered(backend, case.benchmark, case.dtype, place)
    if reason is None:
        reason = why_not_dtype(case.dtype, place.kind, place.capability)
    if reason is not None:
        raise Unavailable(reason)
    return context.bench.problem(benchmark, case, options.fill, options.seed)


def _checked(prepared: Prepared, problem: Problem, context: Context) -> Any:
    """One run on poisoned output, compared with the reference."""
    problem.poison()
    context.bench.synchronise()
    prepared.call()
    context.bench.synchronise()
    return problem.reference.check(problem.result())


def why_not_dtype(name: str, kind: str, capability: tuple[int, int] | None) -> str | None:
    """Why a device lacks a format; None if it has it or can emulate it."""
    first = DTYPES[name].min_capability
    if kind == "cpu" and not DTYPES[name].on_cpu:
        return f"CPUs have no {name}."
    if capability is not None and first is not None and capability < first:
        need, have = (".".join(map(str, c)) for c in (first, capability))
        return f"{name} needs compute capability {need}; this device has {have}."
    return None


def _chosen(ready: Sequence[_Measured], options: Options) -> list[_Measured]:
    """Which cases are worth sustained seconds: our fastest and the vendor's, or all."""
    ran = [m for m in ready if m.burst is not None]
    if options.sustained == "all":
        return ran
    if options.sustained == "none":
        return []
    sides: tuple[list[_Measured], list[_Measured]] = ([], [])
    for measured in ran:
        sides[is_vendor(measured.case)].append(measured)
    return [min(side, key=_burst_median_s) for side in sides if side]


def _burst_median_s(measured: _Measured) -> float:
    assert measured.burst is not None
    return stats.median(measured.burst.times_s)


class _CallFailed(Exception):
    """One of several calls that take turns raised; `who` is its index, the cause is chained."""

    def __init__(self, who: int) -> None:
        super().__init__(who)
        self.who = who


def _tagged(call: Call, who: int) -> Call:
    def tagged() -> None:
        try:
            call()
        except Exception as error:
            raise _CallFailed(who) from error

    return tagged


def _sustained(
    benchmark: Benchmark, chosen: Sequence[_Measured], context: Context, share_s: float
) -> Iterator[Result]:
    """Sustained samples, the chosen taking turns; 25 ms batches keep the device busy.

    If one raises, it alone has failed; the others keep the bursts that they have.
    """
    if not chosen:
        return
    for measured in chosen:
        context.on_case(measured.case, "sustained")
    before = context.bench.flush() if chosen[0].result.cache == "cold" else None
    plan = Plan(min_seconds=1.0, budget_s=max(2.0, share_s), batch_s=0.025, block_s=0.25)
    calls = [_tagged(m.prepared.call, who) for who, m in enumerate(chosen)]
    timer = context.bench.clock(benchmark.clock(chosen[0].case.params))
    try:
        with _undisturbed():
            tracks = sampling.sustained(timer, calls, plan, before, context.interrupted)
    except _CallFailed as failed:
        cause = failed.__cause__
        assert isinstance(cause, Exception)
        yield _without_time(chosen[failed.who].result, cause)
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
        yield _with_samples(known, samples, context, "times_s")


def _with_samples(result: Result, samples: Samples, context: Context, phase: str) -> Result:
    """The result with its samples under `times_s` or `burst_s`."""
    sampled = {"stopped": samples.stopped, "repeats": samples.repeats}
    if samples.rejected:
        sampled["rejected_samples"] = samples.rejected
    clocks = tuple(samples.clocks_hz) if any(samples.clocks_hz) else None
    windows = [(t.started_s, t.ended_s) for t in samples.timings]
    own: dict[str, Any] = {phase: tuple(samples.times_s)}
    return replace(
        result,
        outcome="ok",
        reason=None,
        sample_sm_clock_hz=clocks,
        telemetry=context.telemetry(windows),
        details={**result.details, **sampled},
        **own,
    )


def _without_time(result: Result, error: Exception) -> Result:
    """The one place where an exception becomes an outcome. Unforeseen ones show a traceback."""
    outcome, reason = _outcome(error)
    return replace(
        result,
        outcome=outcome,
        reason=reason,
        times_s=(),
        burst_s=(),
        sample_sm_clock_hz=None,
        telemetry=None,
        burst_telemetry=None,
    )


def _outcome(error: Exception) -> tuple[Any, str]:
    if isinstance(error, Unavailable):
        return "skipped", str(error)
    if isinstance(error, PymicroError):
        return "failed", str(error)
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
        return "skipped", "out of memory."
    traceback.print_exception(error, file=sys.stderr)
    return "failed", without_folders(f"{type(error).__name__}: {error}")


def _blank(benchmark: Benchmark, case: Case, options: Options, context: Context) -> Result:
    """Everything about a result but what was measured; skipped until it was."""
    work = benchmark.work(case.dtype, case.params)
    return Result(
        benchmark=benchmark.name,
        backend=case.backend,
        variant=case.variant or "none",
        dtype=case.dtype,
        accumulate=DTYPES[case.dtype].accumulate,
        params=case.params,
        device=context.device,
        environment=context.environment,
        outcome="skipped",
        reason="not run.",
        flop=work.flop,
        bytes=work.bytes,
        steps=work.steps,
        cache=options.cache or benchmark.cache,
        fill=options.fill,
        seed=options.seed,
        timer=context.bench.timer.name,
        details={"is_vendor": is_vendor(case)},
        notes=context.notes,
        run_id=context.run_id,
    )


def is_vendor(case: Case) -> bool:
    """Whether the case calls the vendor's or framework's library, the yardstick of the others."""
    backend = backends.backend(case.backend)
    return backend.is_vendor or case.variant in backend.vendor_variants


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
