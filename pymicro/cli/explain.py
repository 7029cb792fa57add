"""`pymicro explain`: where a job's time goes, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pymicro.cli import explain_job, job_words
from pymicro.cli.checked import Command
from pymicro.report import FORMATS

_EXAMPLES = """\b
Examples:
  pymicro explain t5 --device "RTX 5090" --against "RTX 4090"
  pymicro explain distilbert --device H100-PCIe --what-if tf32,amp,host=2x
  pymicro explain t5 --device 4090 --measured 38.2s --plot t5.html
  pymicro explain --case 5090             a published anomaly, cause by cause
  pymicro explain --trace trace.json.gz   any job, by PyTorch's profiler
  pymicro explain --trace traces/         a folder with a trace of each rank
"""


@click.command(
    "explain", cls=Command, short_help="Where a job's time goes, and why.", epilog=_EXAMPLES
)
@click.argument("model", metavar="[MODEL]", required=False)
@click.option("--device", metavar="CARD", help="a card of the catalogue, cpu, or this one's (auto)")
@click.option("--against", metavar="CARD", help="a second card: who is faster, and what makes it")
@click.option("--measured", metavar="TIME", help="what the whole job took: 38.2s, 31ms, 2min")
@click.option("--result", metavar="RUN", help="a stored run of `pymicro e2e`, by its id's start")
@click.option("--what-if", metavar="WORD[,WORD]", help="tf32, amp, batch=64, compile, graphs, ...")
@click.option("--case", metavar="NAME", help="a published anomaly: 5090 or h100")
@click.option("--plot", metavar="FILE", help="draw the parts: .html, .png or .svg")
@job_words.job_options
@job_words.device_options
@click.option(
    "--trace", metavar="FILE|FOLDER", help="a trace that PyTorch's profiler wrote (.json, .json.gz)"
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
def command(model: str | None, device: str | None, **values: Any) -> int:
    """Split the time of a job into parts that add up, and rank the reasons.

    The job is MODEL's, simulated; or anybody's, from a trace that `pymicro profile` makes. No GPU
    and no torch are needed here.
    """
    from pymicro.errors import UsageError

    explain_job.refuse(model, values["trace"], values["case"])
    explain_job.refuse_unused(values | {"device": device})
    if values["trace"]:
        return _of_trace(Path(values["trace"]), values["format_"])
    if values["format_"] not in ("table", "json"):
        raise UsageError(
            "a simulated job is told as --format table or json; csv and markdown are for --trace."
        )
    if values["case"]:
        return explain_job.study(values["case"], values)
    assert model is not None
    return explain_job.explain(model, device, values)


def _of_trace(path: Path, format_: str) -> int:
    from pymicro.analysis import profile
    from pymicro.report import profile as report

    told = profile.explain(path)
    if format_ == "table":
        report.show(told)
    else:
        click.echo(report.render(told, format_), nl=False)
    return 0
