"""`pymicro show`: what is in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pymicro.cli.checked import Command
from pymicro.report import FORMATS

if TYPE_CHECKING:
    from pymicro.results import Result


@click.command("show", cls=Command, short_help="Show stored results.")
@click.argument("file", required=False)
@click.option("--benchmark", help="only this benchmark")
@click.option("--last/--all", default=True, help="the last run, or every run", show_default=True)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
def show(file: str | None, benchmark: str | None, last: bool, format_: str) -> int:
    """Show results of the store, or of FILE (JSON lines, as `--store` writes them)."""
    from pymicro import report, results
    from pymicro.cli.subjects import tell

    reading = results.Store(file).read()
    found = results.latest(reading.results)
    if benchmark is not None:
        found = _of(found, benchmark)
    if last:
        found = _last_run(found)
    code = tell(reading.findings)
    if not found and not code:
        click.echo("pymicro: no results there yet; `pymicro gemm` makes some.", err=True)
        code = 3
    if not found and format_ == "table":
        return code
    if format_ == "table":
        from pymicro.report import table

        for run_id in dict.fromkeys(r.run_id for r in found):
            own = [r for r in found if r.run_id == run_id]
            table.show(own, heading=_heading(own))
    else:
        click.echo(report.render(found, reading.findings, format_), nl=False)
    return code


def _of(found: list[Result], benchmark: str) -> list[Result]:
    """The results of one benchmark.

    Raises:
        Unavailable: there is none, but of others.
    """
    from pymicro.errors import Unavailable

    own = [r for r in found if r.benchmark == benchmark]
    if found and not own:
        others = ", ".join(sorted({r.benchmark for r in found}))
        raise Unavailable(f"no result of {benchmark} there; there are some of {others}.")
    return own


def _last_run(found: list[Result]) -> list[Result]:
    """The results of the last run that measured something, or of the last."""
    measured = [r for r in found if r.outcome == "ok"] or found
    return [r for r in found if r.run_id == measured[-1].run_id] if measured else []


def _heading(found: list[Result]) -> str:
    """Which devices, when and where: one line a run."""
    runs = {r.run_id: r for r in reversed(found)}
    lines = (
        f"{r.created_utc} on {r.environment.get('node', 'an unnamed machine')}: "
        f"{r.device.get('name', 'unknown device')}, {r.benchmark}, run {r.run_id or 'unnamed'}"
        for r in reversed(runs.values())
    )
    return "\n".join(lines)
