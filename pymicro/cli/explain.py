"""`pymicro explain`: where a job's time goes, and why."""

from __future__ import annotations

from pathlib import Path

import click

from pymicro.report import FORMATS

_EXAMPLES = """\b
Examples:
  pymicro explain --trace trace.json.gz              a trace of PyTorch's profiler, of any job
  pymicro explain --trace traces/ --format markdown  a folder with one of each rank
"""


@click.command("explain", short_help="Where a job's time goes, and why.", epilog=_EXAMPLES)
@click.option(
    "--trace", metavar="FILE|FOLDER", help="a trace that PyTorch's profiler wrote (.json, .json.gz)"
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
def command(trace: str | None, format_: str) -> int:
    """Split the time of a job's steps into parts that add up, and rank the reasons.

    `pymicro profile` makes a trace with the right settings. No GPU and no torch are needed here.
    """
    from pymicro.errors import UsageError

    if trace is None:
        raise UsageError("explain needs --trace FILE; `pymicro profile -- PROGRAM` makes one.")
    return _of_trace(Path(trace), format_)


def _of_trace(path: Path, format_: str) -> int:
    from pymicro.analysis import profile
    from pymicro.report import profile as report

    told = profile.explain(path)
    if format_ == "table":
        report.show(told)
    else:
        click.echo(report.render(told, format_), nl=False)
    return 0
