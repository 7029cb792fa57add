"""`pymicro roofline`: a device's roofs and the stored results under them."""

from __future__ import annotations

from typing import Any

import click

from pymicro.cli import job_words
from pymicro.cli.checked import Command
from pymicro.report import FORMATS

_EPILOG = """\b
Examples:
  pymicro roofline H100-PCIe --dtype fp32,tf32
  pymicro roofline --plot roofline.html
  pymicro roofline results.jsonl
  pymicro roofline H200 --job distilbert --precision tf32 --plot job.html
"""
# Off and on the matrix units; formats of stored results join them.
_DTYPES = ("fp32", "fp16")


@click.command(
    "roofline", cls=Command, short_help="Roofs of a device, and results under them.", epilog=_EPILOG
)
@click.argument("name", required=False, metavar="[DEVICE]")
@click.option("--dtype", metavar="NAME[,NAME]", help="formats, or all (default: fp32,fp16)")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
@click.option("--plot", metavar="FILE", help="draw it: .html (interactive), .png or .svg")
@click.option("--store", metavar="FILE", help="stored results to place (default: yours)")
@click.option("--spec", metavar="FILE", help="add or override cards from this TOML file")
@click.option("--job", metavar="MODEL", help="place a job's operators, simulated on the device")
@job_words.job_options
def command(
    name: str | None,
    dtype: str | None,
    format_: str,
    plot: str | None,
    store: str | None,
    spec: str | None,
    job: str | None,
    **of_job: Any,
) -> int:
    """Show the roofs of a device: on paper, probed, published, and at the clock measured.

    DEVICE is a card, `cpu`, a result file, or a run or label of your store; without it, this
    machine's first GPU, or its CPU.
    """
    from pymicro.analysis.roofline import roofline
    from pymicro.cli.subjects import stored, tell
    from pymicro.devices.catalogue import catalogue
    from pymicro.errors import UsageError
    from pymicro.report import plots
    from pymicro.report import roofline as report

    if plot is not None:
        plots.check(plot)
    reading = stored(store)
    subject, findings = _subject(name, catalogue(spec), reading.results)
    if job is None:
        _refuse_without_job(of_job)
        model = roofline(subject, _dtypes(dtype, subject))
    else:
        model = _of_job(job, of_job, dtype, subject)
    if not model.roofs and not model.points:
        raise UsageError(
            f"nothing is known of {subject.name}: no paper figure and no stored result; "
            "`pymicro gemm` there makes some."
        )
    if format_ == "table":
        report.show(model)
    else:
        click.echo(report.render(model, format_), nl=False)
    if plot is not None:
        plots.draw_roofline(model, plot)
        click.echo(f"drawn to {plot}", err=True)
    return tell([*reading.findings, *findings])


def _refuse_without_job(of_job: dict[str, Any]) -> None:
    from pymicro.errors import UsageError

    if given := [f"--{name}" for name, value in of_job.items() if value is not None]:
        raise UsageError(f"{', '.join(given)} says how a job runs; say which: --job MODEL.")


def _of_job(job: str, of_job: dict[str, Any], dtype: str | None, subject: Any) -> Any:
    """The roofline with the operators of a job in place of stored results."""
    from dataclasses import replace

    from pymicro.analysis.job_points import job_points
    from pymicro.analysis.primitives_sources import primitives
    from pymicro.analysis.roofline import roofline
    from pymicro.devices.cpu import CpuSpec
    from pymicro.errors import UsageError
    from pymicro.units import percent

    if subject.spec is None:
        raise UsageError(f"{subject.name} is no card of the catalogue; a job needs one.")
    kind = "cpu" if isinstance(subject.spec, CpuSpec) else "cuda"
    case = job_words.case(job, of_job, kind)
    found = job_points(case, primitives(subject.spec, subject.results))
    formats = tuple(dict.fromkeys(point.dtype for point in found.points))
    dtypes = formats if dtype is None else _dtypes(dtype, subject)
    bare = replace(subject, results=())
    said = (
        f"{found.label}: shares are of the time in kernels, simulated; "
        f"{percent(found.bare_share)} is in operators without products, "
        f"{percent(found.rest_share)} in products not shown."
    )
    made = roofline(bare, dtypes, found.points)
    return replace(made, absent=(*made.absent, said))


def _subject(name: str | None, specs: Any, stored: Any) -> tuple[Any, tuple[Any, ...]]:
    from pymicro.cli import subjects

    if name is not None:
        return subjects.subject(name, specs, stored)
    from pymicro.devices.cpu import describe_cpu
    from pymicro.devices.here import inventory

    _, gpus = inventory(specs=specs)
    known = [found.spec for _, found in gpus if found.spec is not None]
    return subjects.of_spec(known[0] if known else describe_cpu(), stored), ()


def _dtypes(text: str | None, subject: Any) -> tuple[str, ...]:
    from pymicro.dtypes import DTYPES, dtype

    if text is None:
        stored = {r.dtype for r in subject.results if r.flop}
        return tuple(name for name in DTYPES if name in _DTYPES or name in stored)
    if text.strip().lower() == "all":
        return tuple(DTYPES)
    return tuple(dict.fromkeys(dtype(word).name for word in text.split(",")))
