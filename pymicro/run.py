"""A plan becomes results, one at a time. Each case is checked before it is timed, and ends as
ok, skipped or failed, the last two with a reason."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pymicro import backends, sampling, stats
from pymicro.backends.base import Call, Prepared, offered
from pymicro.benchmark import Benchmark, Case
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError, Unavailable
from pymicro.outcomes import Read, with_samples, without_time
from pymicro.results import Result, Verified
from pymicro.sampling import Plan, Samples
from pymicro.workbench import Problem, Workbench

# Turns of each case that has no burst, in a look.
_TURNS = 6


@dataclass(frozen=True)
class Options:
    """How to measure, apart from what.

    Attributes:
        sustained: `none`, `best` (our fastest and the vendor's) or `all`; only on GPUs and for what
            draws power there: other samples are sustained already.
        budget_s: wall time for sampling the whole plan; compiling and checking come on top.
        rest_s: idle time before a burst; less suits small problems, which warm nothing.
    """

    fill: str = "normal"
    seed: int = 0
    sustained: str = "best"
    budget_s: float = 8.0
    cache: Literal["hot", "cold"] | None = None
    rest_s: float = sampling.BURST_REST_S


@dataclass
class Context:
    """What every result of a run shares: the device row, the environment, telemetry."""

    bench: Workbench
    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    run_id: str
    telemetry: Read
    interrupted: Callable[[], bool] = lambda: False
    on_case: Callable[[Case, str], None] = lambda case, phase: None
    notes: tuple[str, ...] = ()
    lost: str | None = None  # why nothing more can run on the device

    def is_lost(self, measured: _Measured) -> bool:
        """Whether a case that failed took the device's context along."""
        if measured.result.outcome == "failed" and not self.bench.is_alive():
            case = measured.case
            self.lost = f"{case.backend} {case.variant} left the GPU's context unusable."
        return self.lost is not None


@dataclass
class _Measured:
    """A case on its way from prepared to sampled."""

    case: Case
    prepared: Prepared
    result: Result
    burst: Samples | None = None
    is_ready: bool = False  # checked, and to be sampled
    instead: Case | None = None


@dataclass
class _Seen:
    """A case over several looks: what was found at the first, and the samples of each."""

    result: Result
    looks: list[Samples] = field(default_factory=list)

    def joined(self, context: Context) -> Result:
        turns = [mean for samples in self.looks for mean in samples.block_means_s()]
        medians = [stats.median(samples.times_s) for samples in self.looks]
        details = {**self.result.details, "block_means_s": turns, "look_medians_s": medians}
        return with_samples(
            replace(self.result, details=details), self.looks, context.telemetry, "times_s"
        )


@dataclass
class _Run:
    """A run under way: what every part of it needs, and what it has found out so far.

    Attributes:
        share_s: of the budget, for one look at one case.
        instead: cases that could run in place of some that cannot.
        seen: what was sampled, by case, where several looks add up.
    """

    benchmark: Benchmark
    options: Options
    context: Context
    share_s: float
    sampled_s: float = 0.0
    instead: list[Case] = field(default_factory=list)
    seen: dict[Any, _Seen] = field(default_factory=dict)

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """Counts what happens inside as time spent on sampling."""
        began_s = self.context.bench.timer.now()
        try:
            yield
        finally:
            self.sampled_s += self.context.bench.timer.now() - began_s

    def keeps(self, case: Case, now: Result | None = None) -> bool:
        """Whether a case that ran at an earlier look stays as it was, though it cannot run now."""
        return _case_key(case) in self.seen and (now is None or now.outcome == "skipped")


def cases(
    benchmark: Benchmark,
    bench: Workbench,
    backend_names: Sequence[str],
    dtypes: Sequence[str],
    points: Sequence[Mapping[str, Any]],
) -> list[Case]:
    """Every combination, problem by problem, so that operands are drawn once for all backends.

    A backend that cannot run here gets one case per format with variant "", to be skipped.
    """
    found = []
    for dtype in dtypes:
        first = True
        for point in points:
            for name in backend_names:
                variants, _ = offered(backends.backend(name), benchmark.name, dtype, bench.place)
                chosen = [v for v in variants if benchmark.applies(v, point)]
                if not variants and first:
                    chosen = [""]
                found += [Case(benchmark.name, name, v, dtype, point) for v in chosen]
            first = False
    return found


def run(
    benchmark: Benchmark, planned: Sequence[Case], options: Options, context: Context
) -> Iterator[Result]:
    """Run cases in order; yields each result as soon as it stands.

    A case may be yielded several times, the later replacing the earlier (`results.latest`): what
    draws power first with its burst and again with sustained samples; what is looked at several
    times, after each look with all samples so far.
    """
    sampled = sum(bool(case.variant) for case in planned)
    share_s = options.budget_s / max(sampled * benchmark.looks, 1)
    under_way = _Run(benchmark, options, context, share_s)
    for look in range(benchmark.looks):
        known: dict[Any, Case] = {}
        more = list(planned)
        while more:
            known |= {_case_key(case): case for case in more}
            yield from _look(under_way, more, look)
            # What could run with other parameters only is tried with those, once.
            instead = {_case_key(case): case for case in under_way.instead}
            more = [case for key, case in instead.items() if key not in known]
    with contextlib.suppress(PymicroError):  # A context that died frees nothing.
        context.bench.release()


def _look(under_way: _Run, planned: Sequence[Case], look: int) -> Iterator[Result]:
    """Go through a plan, problem by problem; from the second time on through what could run."""
    for _, group in itertools.groupby(planned, key=_problem_key):
        chosen = [case for case in group if not look or _case_key(case) in under_way.seen]
        yield from _problem_results(under_way, chosen)


def _problem_results(under_way: _Run, group: Sequence[Case]) -> Iterator[Result]:
    """The results of one problem, all who solve it on the same operands."""
    benchmark, options, context = under_way.benchmark, under_way.options, under_way.context
    with contextlib.ExitStack() as undo:
        ready: list[_Measured] = []
        for case in group:
            if context.interrupted():
                break
            if context.lost is not None:
                if not under_way.keeps(case):
                    yield _skipped(benchmark, case, options, context, context.lost)
                continue
            context.on_case(case, "run")
            measured = _prepared(benchmark, case, options, context)
            undo.callback(measured.prepared.close)
            if measured.instead is not None:
                under_way.instead.append(measured.instead)
            if measured.is_ready and benchmark.draws_power:
                with under_way.sampling():
                    measured = _first_look(benchmark, measured, under_way)
            ready.append(measured)
            context.is_lost(measured)
            if not measured.is_ready and not under_way.keeps(measured.case, measured.result):
                yield measured.result
        if context.lost is not None:
            unsampled = [m.case for m in ready if m.is_ready and not under_way.keeps(m.case)]
            for case in unsampled:
                yield _skipped(benchmark, case, options, context, context.lost)
        elif context.interrupted():
            return
        elif not benchmark.draws_power:
            yield from _turns(under_way, ready)
        elif under_way.sampled_s < options.budget_s:
            chosen = _chosen(ready, options)
            with under_way.sampling():
                yield from _sustained(benchmark, chosen, context, under_way.share_s)


def problems(planned: Sequence[Case]) -> int:
    """How many different problems a plan has; all backends of one share its operands."""
    return len({_problem_key(case) for case in planned})


def _problem_key(case: Case) -> tuple[Any, ...]:
    return (case.dtype, *case.params.items())


def _case_key(case: Case) -> tuple[Any, ...]:
    return (case.backend, case.variant, *_problem_key(case))


def _skipped(
    benchmark: Benchmark, case: Case, options: Options, context: Context, reason: str
) -> Result:
    return replace(_blank(benchmark, case, options, context), reason=reason)


def _prepared(benchmark: Benchmark, case: Case, options: Options, context: Context) -> _Measured:
    """Prepare and check. What that took is noted: a layer's first call compiles and loads."""
    blank = _blank(benchmark, case, options, context)
    prepared = Prepared(lambda: None)
    try:
        problem = _problem(benchmark, case, options, context)
        timer = context.bench.clock(benchmark.clock(case.params))
        began_s = timer.now()
        prepared = backends.backend(case.backend).prepare(case, context.bench.place, problem.arrays)
        first = {"prepare_s": timer.now() - began_s}
        problem.poison()
        context.bench.synchronise()
        began_s = timer.now()
        prepared.call()
        context.bench.synchronise()
        first["first_call_s"] = timer.now() - began_s
        own = prepared.output
        check = problem.check() if own is None else problem.reference.check(own())
        blank = replace(
            blank,
            timer=timer.name,
            verified=Verified(**vars(check)),
            details={**blank.details, **first, **prepared.notes},
        )
        return _Measured(case, prepared, _told_cache(blank, options), is_ready=True)
    except Exception as error:
        instead = getattr(error, "instead", None)
        other = replace(case, params={**case.params, **instead}) if instead else None
        return _Measured(case, prepared, without_time(blank, error), instead=other)


def _first_look(benchmark: Benchmark, measured: _Measured, under_way: _Run) -> _Measured:
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
                return _Measured(case, prepared, result)
            samples = sampling.burst(timer, prepared.call, Plan(rest_s=rest_s), before)
        result = with_samples(blank, [samples], context.telemetry, "burst_s")
        return _Measured(case, prepared, result, samples if result.outcome == "ok" else None)
    except Exception as error:
        return _Measured(case, prepared, without_time(blank, error))


def _flush(benchmark: Benchmark, result: Result, context: Context) -> Call | None:
    """What runs untimed before each call: for a cold cache, another's lines in it."""
    if result.cache != "cold":
        return None
    return context.bench.flush(benchmark.written(result.params))


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


def _turns(under_way: _Run, measured: Sequence[_Measured]) -> Iterator[Result]:
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
            known = under_way.seen.setdefault(_case_key(one.case), _Seen(one.result))
            known.looks.append(samples)
            yield known.joined(context)
        return


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
