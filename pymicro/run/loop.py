"""Going through a plan: problem by problem, look by look."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pymicro.benchmark import Benchmark, Case
from pymicro.errors import PymicroError
from pymicro.results import Result
from pymicro.run.context import Context, Measured, Options, Underway
from pymicro.run.phases import chosen_for_load, first_look, sustained, turns
from pymicro.run.planning import case_key, problem_key
from pymicro.run.preparing import prepared, skipped


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
    under_way = Underway(benchmark, options, context, share_s)
    for look in range(benchmark.looks):
        known: dict[Any, Case] = {}
        more = list(planned)
        while more:
            known |= {case_key(case): case for case in more}
            yield from _look(under_way, more, look)
            # What could run with other parameters only is tried with those, once.
            instead = {case_key(case): case for case in under_way.instead}
            more = [case for key, case in instead.items() if key not in known]
    with contextlib.suppress(PymicroError):  # A context that died frees nothing.
        context.bench.release()


def _look(under_way: Underway, planned: Sequence[Case], look: int) -> Iterator[Result]:
    """Go through a plan, problem by problem; from the second time on through what could run."""
    for _, group in itertools.groupby(planned, key=problem_key):
        chosen = [case for case in group if not look or case_key(case) in under_way.seen]
        yield from _problem_results(under_way, chosen)


def _problem_results(under_way: Underway, group: Sequence[Case]) -> Iterator[Result]:
    """The results of one problem, all who solve it on the same operands."""
    benchmark, options, context = under_way.benchmark, under_way.options, under_way.context
    with contextlib.ExitStack() as undo:
        ready: list[Measured] = []
        for case in group:
            if context.interrupted():
                break
            if context.lost is not None:
                if not under_way.keeps(case):
                    yield skipped(benchmark, case, options, context, context.lost)
                continue
            context.on_case(case, "run")
            measured = prepared(benchmark, case, options, context)
            undo.callback(measured.prepared.close)
            if measured.instead is not None:
                under_way.instead.append(measured.instead)
            if measured.is_ready and benchmark.draws_power:
                with under_way.sampling():
                    measured = first_look(benchmark, measured, under_way)
            ready.append(measured)
            context.is_lost(measured)
            if not measured.is_ready and not under_way.keeps(measured.case, measured.result):
                yield measured.result
        if context.lost is not None:
            unsampled = [m.case for m in ready if m.is_ready and not under_way.keeps(m.case)]
            for case in unsampled:
                yield skipped(benchmark, case, options, context, context.lost)
        elif context.interrupted():
            return
        elif not benchmark.draws_power:
            yield from turns(under_way, ready)
        elif under_way.sampled_s < options.budget_s:
            chosen = chosen_for_load(ready, options)
            with under_way.sampling():
                yield from sustained(benchmark, chosen, context, under_way.share_s)
