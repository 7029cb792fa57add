"""`pymicro show`: what is in the store."""

from __future__ import annotations

import click

from pymicro.report import FORMATS


@click.command("show", short_help="Show stored results.")
@click.argument("file", required=False)
@click.option("--benchmark", help="only this benchmark")
@click.option("--last/--all", default=True, help="the last run, or every run", show_default=True)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
def show(file: str | None, benchmark: str | None, last: bool, format_: str) -> int:
    """Show results of the store, or of FILE (JSON lines, as `--store` writes them)."""
    from pymicro import report, results

    reading = results.Store(file).read()
    found = results.latest(reading.results)
    if benchmark is not None:
        found = [r for r in found if r.benchmark == benchmark]
    if last and found:
        found = [r for r in found if r.run_id == found[-1].run_id]
    if not found and not reading.findings:
        click.echo("pymicro: no results there yet; `pymicro gemm` makes some.", err=True)
        return 3
    for finding in reading.findings:
        click.echo(f"pymicro: {finding.seen} {finding.why} {finding.do}".rstrip(), err=True)
    if format_ == "table":
        from pymicro.report import table

        table.show(found)
    else:
        click.echo(report.render(found, reading.findings, format_), nl=False)
    return 1 if reading.findings else 0
