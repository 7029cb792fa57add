"""`pymicro compare`: cards, or stored runs, metric by metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pymicro.cli.checked import Command
from pymicro.report import FORMATS

_EPILOG = """\b
Examples:
  pymicro compare H100 4090 --metric bandwidth
  pymicro compare H100-PCIe 4090 5090 --metric gemm --dtype fp32,tf32
  pymicro compare before.jsonl after.jsonl
  pymicro compare L4 T4 --metric power,price --prices 0.8,0.35
"""


@click.command("compare", cls=Command, short_help="Compare cards, or stored runs.", epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="A B [C ...]")
@click.option(
    "--metric",
    default="all",
    show_default=True,
    metavar="NAME[,NAME]",
    help="bandwidth, gemm, latency, transfer, launch, power, price, or all",
)
@click.option("--dtype", metavar="NAME[,NAME]", help="formats of matrix products (default: all)")
@click.option("--prices", metavar="P,P", help="your price of each, in order and in one currency")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
@click.option("--plot", metavar="FILE", help="draw the comparison: .html, .png or .svg")
@click.option("--sources", is_flag=True, help="tell where every number comes from")
@click.option("--store", metavar="FILE", help="stored results to compare with (default: yours)")
@click.option("--spec", metavar="FILE", help="add or override cards from this TOML file")
@click.option("--force", is_flag=True, help="ratios of unlike things too, each marked")
def command(
    names: tuple[str, ...],
    metric: str,
    dtype: str | None,
    prices: str | None,
    format_: str,
    plot: str | None,
    sources: bool,
    store: str | None,
    spec: str | None,
    force: bool,
) -> int:
    """Compare cards by data sheet, published measurements and your own, kind by kind.

    A, B and so on are cards (H100, 4090, "RTX A6000", cpu), result files (.jsonl, .json), or runs
    and labels of your store. Ratios are the first over each of the others.
    """
    from pymicro import dtypes as formats
    from pymicro.analysis.compare import Wish, compare, metrics
    from pymicro.cli.subjects import tell
    from pymicro.report import comparison, plots

    if plot is not None:
        plots.check(plot)
    wish = Wish(
        metrics(metric),
        tuple(dict.fromkeys(formats.dtype(w).name for w in dtype.split(","))) if dtype else None,
        _prices(prices),
        force,
        _rates(),
    )
    subjects, findings = _subjects(names, spec, store)
    found = compare(subjects, wish)
    if format_ == "table":
        comparison.show(found, sources)
    else:
        click.echo(comparison.render(found, format_, sources), nl=False)
    code = tell(findings)
    if plot is not None:
        plots.draw_comparison(found, plot)
        click.echo(f"drawn to {plot}", err=True)
    _refuse_if_nothing_fits(found)
    return code


def _subjects(
    names: Sequence[str], spec: str | None, store: str | None
) -> tuple[list[Any], list[Any]]:
    from pymicro.cli.subjects import stored, subject
    from pymicro.devices.catalogue import catalogue

    reading = stored(store)
    specs = catalogue(spec)
    found = [subject(name, specs, reading.results) for name in names]
    findings = [*reading.findings, *(f for _, more in found for f in more)]
    return [s for s, _ in found], findings


def _rates() -> dict[str, str]:
    from pymicro.suite import benchmarks

    # Whole jobs are no benchmark of the suite; their samples are steps or tokens.
    return {"e2e": "s_per_step", **{b.name: b.rate for b in benchmarks().values()}}


def _prices(text: str | None) -> tuple[float, ...]:
    from pymicro.errors import UsageError

    if text is None:
        return ()
    try:
        values = tuple(float(word) for word in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 < v < float("inf") for v in values):
        raise UsageError(f"--prices '{text}': write one positive number a card, like 2.5,0.4.")
    return values


def _refuse_if_nothing_fits(found: Any) -> None:
    """Runs that share no comparable case are a wrong pair: say what stands in the way."""
    from pymicro.errors import UsageError

    if found.has_ratio or not all(s.is_run for s in found.subjects):
        return
    names = " and ".join(s.name for s in found.subjects)
    reasons = dict.fromkeys(r for line in found.lines for r in line.why_not)
    why = " ".join(reasons) or next(iter(found.unmatched), "they share no case.")
    more = (
        ""
        if all("no other side" in u for u in found.unmatched) and not reasons
        else (" --force makes ratios all the same.")
    )
    raise UsageError(f"nothing in {names} can be compared: {why}{more}")
