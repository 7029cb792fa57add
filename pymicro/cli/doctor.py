"""`pymicro doctor`: what is broken here, why it matters and what to do."""

from __future__ import annotations

import click

from pymicro.cli.checked import Command
from pymicro.cli.output import may_go_unread


@click.command("doctor", cls=Command, short_help="What is broken on this machine, and what to do.")
@click.option("--format", "format_", type=click.Choice(("table", "json")), default="table")
@click.option("--strict", is_flag=True, help="exit 1 on warnings too")
@click.option("--quiet", "-q", is_flag=True, help="only warnings and errors")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="seconds for each library to import and run an empty kernel",
)
def command(format_: str, strict: bool, quiet: bool, timeout: float) -> int:
    """Look at driver, GPUs, libraries, compilers and host.

    Each library is imported in a process of its own, where it may crash or hang. Exit code: 0 if
    nothing is worse than a warning (a machine without a GPU is fine), 1 if there is an error, or
    with --strict a warning.
    """
    from pymicro.probes import Evidence, examine

    findings = list(examine(Evidence(timeout_s=timeout)))
    bad = {"error", "warning"} if strict else {"error"}
    code = 1 if any(f.severity in bad for f in findings) else 0
    shown = [f for f in findings if not quiet or f.severity != "info"]
    with may_go_unread():
        if format_ == "json":
            from pymicro import report

            click.echo(report.render((), shown, "json"), nl=False)
        else:
            from pymicro.report import findings as text

            text.show(shown)
    return code
