"""`pymicro suite --for MODEL`: exactly the primitives that a job's time rests on, measured here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from pymicro.cli import job_words
from pymicro.cli.checked import Command

_EPILOG = """\b
Examples:
  pymicro suite --for distilbert
  pymicro suite --for t5 --batch 8 --precision fp16 --store h200.jsonl
  pymicro suite --for t5 --list
"""


@click.command("suite", cls=Command, short_help="Measure the primitives of a job.", epilog=_EPILOG)
@click.option("--for", "model", metavar="MODEL", help="t5, distilbert, ...")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N")
@job_words.job_options
@click.option("--store", metavar="FILE", help="append results to this file (default: your store)")
@click.option("--budget", type=click.FloatRange(1, 3600), default=120.0, show_default=True,
              help="seconds of measuring; what is left out is said")  # fmt: skip
@click.option("--list", "only_list", is_flag=True, help="print what would be measured, and stop")
@click.option("--quiet", "-q", is_flag=True, help="no line for each result")
def command(model: str | None, device: str, **values: Any) -> int:
    """Measure the products at their very shapes, the streams, launches and copies of a job.

    `pymicro predict` and `explain` then rest on these figures instead of published ones.
    """
    from pymicro.analysis.wanted import wanted
    from pymicro.devices.here import resolve

    if model is None:
        from pymicro.errors import UsageError

        raise UsageError(
            "say for which job: --for MODEL (t5, distilbert, ...); what it measures depends on it."
        )
    kind = resolve(device).kind
    case = job_words.case(model, values, kind)
    points = list(wanted(case, _known(device, values), kind))
    if values["only_list"]:
        _print(points)
        return 0
    return _measure(points, device, values, case.label)


_NOTHING = {"host": None, "published": False, "spec": None}


def _known(device: str, values: dict[str, Any]) -> Any:
    """What is known of the device already; None if too little."""
    from pymicro.errors import PymicroError

    try:
        word = "cpu" if device == "cpu" else None
        return job_words.device(word, {**_NOTHING, **values}).primitives
    except PymicroError:
        return None


def _print(points: list[Any]) -> None:
    from pymicro.report.terminal import Terminal

    rows = [
        (p.benchmark, p.backend, p.dtype, " ".join(f"{k}={v}" for k, v in p.given.items()),
         f"{100 * p.share:.1f} %" if p.share else "")
        for p in points
    ]  # fmt: skip
    Terminal().table(("benchmark", "backend", "dtype", "at", "of products"), rows, numbers=(4,))


def _measure(points: list[Any], device: str, values: dict[str, Any], label: str) -> int:
    import time

    from pymicro.cli.session import Session
    from pymicro.devices.here import resolve
    from pymicro.errors import Unavailable

    began_s = time.perf_counter()
    done, failed, left = 0, 0, 0
    common = _common(device, values)
    with Session(resolve(device), common) as session:
        context = session.context(lambda: False, lambda case, phase: None)
        for number, point in enumerate(points):
            left_s = values["budget"] - (time.perf_counter() - began_s)
            if left_s <= 0:
                left = len(points) - number
                break
            for result in _run(session, context, point, left_s / (len(points) - number)):
                session.keep(result)
                done += result.outcome == "ok"
                failed += result.outcome == "failed"
                if not values["quiet"]:
                    click.echo(_line(point, result), err=True)
    if not done:
        raise Unavailable("none of these could be measured here.")
    took_s = time.perf_counter() - began_s
    told = f"; {left} were left out for want of time" if left else ""
    click.echo(f"{done} primitives of {label} in {took_s:.0f} s{told}.")
    return 1 if failed else 0


def _run(session: Any, context: Any, point: Any, share_s: float) -> Iterator[Any]:
    from pymicro import run
    from pymicro.cli import words
    from pymicro.results import latest
    from pymicro.suite import benchmarks

    benchmark = benchmarks()[point.benchmark]
    kind = session.bench.place.kind
    given = {k: (v,) for k, v in point.given.items()}
    at = words.points(benchmark, given, kind, session.defaults(benchmark, point.dtype))
    planned = run.cases(benchmark, session.bench, (point.backend,), (point.dtype,), at)
    options = run.Options(sustained="none", budget_s=max(share_s, 0.3), cache=_cache(point))
    yield from latest(run.run(benchmark, planned, options, context))


def _cache(point: Any) -> Any:
    """Streams that a cache could hold are wanted hot: so a job finds what it just wrote."""
    if point.benchmark == "bandwidth":
        return "hot" if point.given["size"] < 2**28 else "cold"
    return None


def _common(device: str, values: dict[str, Any]) -> Any:
    from pymicro.cli.options import Common

    store, budget = values["store"], values["budget"]
    return Common("fp32", device, "torch", store=store, budget=budget, sustained="none", quiet=True)


def _line(point: Any, result: Any) -> str:
    from pymicro import stats
    from pymicro.units import si

    at = " ".join(f"{k}={v}" for k, v in point.given.items())
    text = f"{point.benchmark} {point.dtype} {at}: "
    if result.outcome != "ok":
        return f"{text}{result.outcome}, {result.reason}"
    return text + si(stats.median(sorted(result.samples_s)), "s", 3)
