"""A sub-command for each benchmark: flags from its axes, then plan, run, store, show."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from pymicro.benchmark import Benchmark, Case
from pymicro.cli import options, words
from pymicro.cli.checked import Command
from pymicro.cli.options import Common
from pymicro.errors import Unavailable, UsageError


def command(benchmark: Benchmark) -> click.Command:
    """The click command of a benchmark."""

    def callback(**values: Any) -> int:
        return _measure(benchmark, *options.split(values))

    examples = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in benchmark.examples)
    return Command(
        benchmark.name,
        needs=_needs(benchmark),
        callback=callback,
        params=[
            *map(options.of_axis, benchmark.axes),
            *options.common(benchmark),
            *_listing(benchmark),
        ],
        help=benchmark.summary,
        short_help=f"{benchmark.summary.split(':')[0].rstrip('.')}.",
        epilog=examples,
    )


def _needs(benchmark: Benchmark) -> dict[str, tuple[str, ...]]:
    """Which axes are idle without another: the stride of a copy is that of strided access."""
    names = {axis.name for axis in benchmark.axes}
    return {"stride": ("access",)} if {"stride", "access"} <= names else {}


# What a narrow screen leaves out of a list of kernels.
_LIST_LEAVING = ("row bytes", "capability")


def _listing(benchmark: Benchmark) -> list[click.Option]:
    """`--list`, where a benchmark has a table of kernels."""
    if benchmark.kernels is None:
        return []
    kernels = benchmark.kernels

    def show(context: click.Context, option: click.Parameter, wanted: bool) -> None:
        if not wanted:
            return
        from pymicro.report.terminal import Terminal

        titles, rows = kernels()
        leaving = [i for i, title in enumerate(titles) if title in _LIST_LEAVING]
        Terminal().table(titles, rows, (), leaving)
        context.exit()

    text = "list what of ours there is, and on what each has run, then exit"
    return [
        click.Option(
            ["--list"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=text
        )
    ]


def _measure(benchmark: Benchmark, common: Common, axis_words: dict[str, Any]) -> int:
    given = words.given(benchmark, axis_words)
    dtypes, backends = words.dtypes(benchmark, common.dtype), words.backends(common.backend)

    _check_plot(common, given)
    from pymicro import run
    from pymicro.cli.session import Session
    from pymicro.devices.here import resolve
    from pymicro.results import latest

    device = resolve(common.device)
    with Session(device, common) as session:
        planned = []
        for dtype in dtypes:
            defaults = session.defaults(benchmark, dtype)
            points = words.points(benchmark, given, device.kind, defaults)
            words.refuse_impossible(benchmark, dtype, points)
            planned += run.cases(benchmark, session.bench, backends, (dtype,), points)
        if not planned:
            raise Unavailable("none of these backends does this on this device.")
        left_out = _left_out(benchmark, planned) if common.backend == "all" else {}
        planned = [case for case in planned if case.variant not in left_out]
        budget_s = common.budget or benchmark.budget_s * run.problems(planned)
        chosen = run.Options(common.fill, common.seed, common.sustained, budget_s, common.cache)
        if common.tune:
            _tune(benchmark, planned, common, session.bench)
        results = []
        with _interruptible() as interrupted, session.progress(len(planned)) as on_case:
            context = session.context(interrupted, on_case)
            for case in left_out.values():
                reason = benchmark.on_request[case.variant]
                results.append(run.skipped(benchmark, case, chosen, context, reason))
                session.keep(results[-1])
            for result in run.run(benchmark, planned, chosen, context):
                session.keep(result)
                results.append(result)
        _show(benchmark, latest(results), common, session.headline())
    _plot(latest(results), common)
    return 130 if interrupted() else _exit_code(results)


def _left_out(benchmark: Benchmark, planned: Sequence[Case]) -> dict[str, Case]:
    """By variant, the first case of each that runs on request only."""
    return {c.variant: c for c in reversed(planned) if c.variant in benchmark.on_request}


def _tune(benchmark: Benchmark, planned: Sequence[Any], common: Common, bench: Any) -> None:
    from pymicro import tuning

    for line in tuning.tune(benchmark, planned, common.fill, common.seed, bench):
        click.echo(line, err=True)


def _show(benchmark: Benchmark, results: Sequence[Any], common: Common, headline: str) -> None:
    from pymicro import report
    from pymicro.analysis.after import findings

    found = findings(benchmark.name, results)
    if common.format == "table":
        from pymicro.report import table

        table.show(results, found, heading=headline)
    else:
        click.echo(report.render(results, found, common.format), nl=False)


_CURVE = "a range is 16KiB:1GiB:x2, a list 1MiB,64MiB"


def _check_plot(common: Common, given: Mapping[str, tuple[Any, ...]]) -> None:
    """A picture that could not be drawn fails before anything is measured.

    Raises:
        UsageError: no such folder or kind of picture, or a single size, which is no curve.
    """
    if common.plot is not None and len(given.get("size", ())) == 1:
        raise UsageError(f"--plot draws a curve over sizes, and --size is one; {_CURVE}.")
    if common.plot not in (None, "-"):
        from pymicro.report import plots

        plots.check(common.plot)


def _plot(results: Sequence[Any], common: Common) -> None:
    if common.plot is None:
        return
    from pymicro.analysis.sweeps import curves

    found = curves(results, fewest=2)
    if common.plot == "-":
        from pymicro.report import sketch
        from pymicro.report.terminal import Terminal

        # Beside a document on stdout, a sketch is no part of it.
        terminal = Terminal(None if common.format == "table" else sys.stderr)
        for line in sketch.lines(found, terminal.width):
            terminal.say(line)
        return
    from pymicro.report import plots

    plots.draw_sweep(found, common.plot)
    click.echo(f"drawn to {common.plot}", err=True)


def _exit_code(results: Sequence[Any]) -> int:
    outcomes = {r.outcome for r in results}
    if "failed" in outcomes:
        return 1
    return 0 if "ok" in outcomes else 3


@contextmanager
def _interruptible() -> Iterator[Any]:
    """The first Ctrl-C ends the running sample and keeps what is done; the second leaves."""
    seen = False

    def note(signum: int, frame: Any) -> None:
        nonlocal seen
        seen = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        click.echo("\nfinishing the running sample; Ctrl-C again leaves at once.", err=True)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, before)
