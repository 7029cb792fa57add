"""`pymicro devices`: this machine's, the catalogue, or one card in full."""

from __future__ import annotations

from typing import Any, Literal

import click

from pymicro.cli.checked import Command
from pymicro.dtypes import DTYPES

_SORTS = (
    "name", "rate", "efficiency", "memory", "bandwidth", "nvlink", "power", "year", "l2", "pcie",
    *DTYPES,
)  # fmt: skip


@click.command(
    "devices",
    cls=Command,
    needs={"dtype": ("use",)},
    short_help="This machine's devices, the catalogue, or one card.",
)
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="every card of the catalogue")
@click.option(
    "--for",
    "use",
    type=click.Choice(("training", "inference")),
    help="which size of job each card suits, by stated rules",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help=f"the highest first: {', '.join(_SORTS[:10])}, or a format",
)
@click.option("--dtype", metavar="NAME", help="format for --for (default: what the use takes)")
@click.option("--explain", is_flag=True, help="rules, reasons, and common errors of such tables")
@click.option("--spec", metavar="FILE", help="add or override cards from this TOML file")
def command(
    name: str | None,
    everything: bool,
    use: Literal["training", "inference"] | None,
    sort: str | None,
    dtype: str | None,
    explain: bool,
    spec: str | None,
) -> int:
    """List this machine's devices, all cards of the catalogue, or one card in full.

    NAME is what people call a card: H100, 4090, "RTX A6000", l40s; or `cpu`, this machine's.
    """
    import pymicro.report.device_tables as device_tables
    from pymicro.devices.catalogue import catalogue
    from pymicro.devices.cpu import describe_cpu

    specs = catalogue(spec)
    if name is not None:
        from pymicro.devices.finder import find

        _refuse_beside_a_card(everything, sort, explain and use is None)
        if name.strip().lower() == "cpu":
            device_tables.one(describe_cpu())
            return 0
        match = find(name, specs)
        device_tables.one(match.spec, match.note)
        if use is not None:
            _suitability([match.spec], use, dtype, explain)
    elif everything or use or sort or explain:
        _catalogue(list(specs.values()), use, sort, dtype, explain)
    else:
        from pymicro.devices.here import inventory

        view, gpus = inventory(specs=specs)
        for gpu, identified in gpus:
            device_tables.local(gpu, identified)
        if not gpus:
            click.echo(f"no NVIDIA GPU: {view.reason or 'NVML shows none'}")
        device_tables.one(describe_cpu())
    return 0


def _refuse_beside_a_card(everything: bool, sort: str | None, explain: bool) -> None:
    from pymicro.errors import UsageError

    given = [w for w, is_given in (("--all", everything), ("--sort", sort)) if is_given]
    given += ["--explain"] if explain else []
    if given:
        more = "; --explain goes with --for" if explain else ""
        raise UsageError(f"{' and '.join(given)}: not beside the name of one card{more}.")


def _catalogue(
    specs: list[Any], use: Any, sort: str | None, dtype: str | None, explain: bool
) -> None:
    from pymicro.errors import unknown
    from pymicro.report import device_tables, suitability

    if sort is not None and sort not in _SORTS:
        raise unknown("column", sort, _SORTS)
    by = sort or ("rate" if use else None)
    if by is not None:
        specs = suitability.sort(specs, by, use, _dtype(dtype))
    if use is not None:
        _suitability(specs, use, dtype, explain)
        return
    device_tables.many(specs)
    if explain:
        for line in suitability.errors():
            click.echo(line)


def _suitability(specs: list[Any], use: Any, dtype: str | None, explain: bool) -> None:
    from pymicro.report import suitability

    suitability.show(specs, use, _dtype(dtype), explain)


def _dtype(word: str | None) -> str | None:
    from pymicro.dtypes import dtype

    return dtype(word).name if word else None
