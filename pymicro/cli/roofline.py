"""`pymicro roofline`: a device's roofs and the stored results under them."""

from __future__ import annotations

from typing import Any

import click

from pymicro.report import FORMATS

_EPILOG = """\b
Examples:
  pymicro roofline H100-PCIe --dtype fp32,tf32
  pymicro roofline --plot roofline.html
  pymicro roofline results.jsonl
"""
# Off and on the matrix units; formats of stored results join them.
_DTYPES = ("fp32", "fp16")


@click.command("roofline", short_help="Roofs of a device, and results under them.", epilog=_EPILOG)
@click.argument("name", required=False, metavar="[DEVICE]")
@click.option("--dtype", metavar="NAME[,NAME]", help="formats, or all (default: fp32,fp16)")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
@click.option("--plot", metavar="FILE", help="draw it: .html (interactive), .png or .svg")
@click.option("--store", metavar="FILE", help="stored results to place (default: yours)")
@click.option("--spec", metavar="FILE", help="add or override cards from this TOML file")
def command(
    name: str | None,
    dtype: str | None,
    format_: str,
    plot: str | None,
    store: str | None,
    spec: str | None,
) -> int:
    """Show the roofs of a device: on paper, probed, published, and at the clock measured.

    DEVICE is a card, `cpu`, a result file, or a run or label of your store; without it, this
    machine's first GPU, or its CPU.
    """
    from pymicro.analysis.roofline import roofline
    from pymicro.devices.catalogue import catalogue
    from pymicro.errors import UsageError
    from pymicro.report import plots
    from pymicro.report import roofline as report
    from pymicro.results import Store

    if plot is not None:
        plots.check(plot)
    reading = Store(store).read()
    if store is not None and not reading.results:
        raise UsageError(f"{store} holds no results; `pymicro gemm --store {store}` makes some.")
    subject = _subject(name, catalogue(spec), reading.results)
    model = roofline(subject, _dtypes(dtype, subject))
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
        plots.roofline(model, plot)
        click.echo(f"drawn to {plot}", err=True)
    return 0


def _subject(name: str | None, specs: Any, stored: Any) -> Any:
    from pymicro.cli import subjects

    if name is not None:
        return subjects.subject(name, specs, stored)[0]
    from pymicro.devices.cpu import describe_cpu
    from pymicro.devices.here import inventory

    _, gpus = inventory(specs=specs)
    known = [found.spec for _, found in gpus if found.spec is not None]
    return subjects.of_spec(known[0] if known else describe_cpu(), stored)


def _dtypes(text: str | None, subject: Any) -> tuple[str, ...]:
    from pymicro.dtypes import DTYPES, dtype

    if text is None:
        stored = {r.dtype for r in subject.results if r.flop}
        return tuple(name for name in DTYPES if name in _DTYPES or name in stored)
    if text.strip().lower() == "all":
        return tuple(DTYPES)
    return tuple(dict.fromkeys(dtype(word).name for word in text.split(",")))
