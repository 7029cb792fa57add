"""A case made ready: operands, one call checked against the reference, what is known already."""

from __future__ import annotations

from dataclasses import replace

from pymicro import backends
from pymicro.backends.base import Prepared, offered
from pymicro.benchmark import Benchmark, Case
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable
from pymicro.outcomes import without_time
from pymicro.results import Result, Verified
from pymicro.run.context import Context, Measured, Options
from pymicro.run.planning import is_vendor, why_not_dtype
from pymicro.workbench import Problem


def prepared(benchmark: Benchmark, case: Case, options: Options, context: Context) -> Measured:
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
        return Measured(case, prepared, _told_cache(blank, options), is_ready=True)
    except Exception as error:
        instead = getattr(error, "instead", None)
        other = replace(case, params={**case.params, **instead}) if instead else None
        return Measured(case, prepared, without_time(blank, error), instead=other)


def skipped(
    benchmark: Benchmark, case: Case, options: Options, context: Context, reason: str
) -> Result:
    return replace(_blank(benchmark, case, options, context), reason=reason)


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
    # What the device lacks comes first: no library that could be installed would help.
    reason = why_not_dtype(case.dtype, place.kind, place.capability)
    if reason is None:
        _, reason = offered(backend, case.benchmark, case.dtype, place)
    if reason is not None:
        raise Unavailable(reason)
    return context.bench.problem(benchmark, case, options.fill, options.seed)


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
