"""`pymicro readiness`: how far the software, installed or named, serves a chip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pymicro.cli.checked import Command
from pymicro.cli.output import may_go_unread

if TYPE_CHECKING:
    from pymicro.analysis.gate import Node
    from pymicro.analysis.readiness import Readiness
    from pymicro.devices.spec import DeviceSpec
    from pymicro.probes import Evidence
    from pymicro.software.versions import Version

_EXAMPLES = """\b
Examples:
  pymicro readiness                                    this machine
  pymicro readiness --device "RTX 5090"                software for another
  pymicro readiness --device 5090 --stack torch=2.7,cuda=12.8
  pymicro readiness --require "native,link>=gen4x16"   a cluster's node check
"""


@click.command(
    "readiness",
    cls=Command,
    needs=dict.fromkeys(("dtype", "products", "backend", "budget"), ("measure",)),
    short_help="How far the software serves this chip, or another.",
    epilog=_EXAMPLES,
)
@click.option("--device", default="auto", show_default=True, help="auto, cuda:N, or any card")
@click.option("--stack", metavar="NAME=VERSION,...", help="driver, cuda, torch, triton, cupy, ...")
@click.option(
    "--require",
    metavar="WORD,...",
    help="native, relative, jit, tf32, link>=gen4x16, driver>=580, cuda>=13.0, gemm_fp16>=0.6",
)
@click.option(
    "--measure",
    metavar="PART,...",
    is_flag=False,
    flag_value="all",
    help="first measure here: all, or library, generations, flags, attention, compile",
)
@click.option(
    "--dtype", metavar="NAME,...", help="formats of library and generations (default: all)"
)
@click.option(
    "--products",
    type=click.IntRange(1, 100),
    help="how many of the jobs' hottest products library takes (default: 20)",
)
@click.option(
    "--backend", metavar="NAME,...", help="whom library tries beside the vendor's (default: all)"
)
@click.option(
    "--budget",
    type=click.FloatRange(1, 86_400),
    metavar="SECONDS",
    help="begin no further case after this long (all takes about five minutes)",
)
@click.option("--store", metavar="FILE", help="where results are kept, and read from")
@click.option("--no-store", is_flag=True, help="keep no results, and read none")
@click.option("--quiet", "-q", is_flag=True, help="no progress on stderr")
@click.option("--format", "format_", type=click.Choice(("table", "json")), default="table")
def command(
    device: str,
    stack: str | None,
    require: str | None,
    measure: str | None,
    dtype: str | None,
    products: int | None,
    backend: str | None,
    budget: float | None,
    store: str | None,
    no_store: bool,
    quiet: bool,
    format_: str,
) -> int:
    """Say for each layer whether it has machine code for the chip, a relative's, PTX, or none.

    With --stack from the tables of versions, else from what is installed here. Exit code: 0; 1 if
    something of --require is not met or a measured case failed; 3 without --device on a machine
    that has no GPU.
    """
    from pymicro import results
    from pymicro.analysis import gate, readiness
    from pymicro.cli.readiness_measure import asked_for
    from pymicro.cli.readiness_measure import measure as run_parts
    from pymicro.errors import UsageError

    for_measuring = {"dtype": dtype, "products": products, "backend": backend, "budget": budget}
    asked = asked_for(measure, device, for_measuring, store, no_store, quiet)
    wanted = gate.parse_requirements(require) if require else ()
    named = readiness.parse_stack(stack) if stack else None
    if asked is not None and (named or _ordinal(device) is None):
        raise UsageError("--measure is about a GPU of this machine and its software.")
    reads_store = not named or any(r.word.startswith("gemm_") for r in wanted)
    if store is not None and (no_store or not reads_store):
        why = "--no-store forbids it" if no_store else "--stack is judged by tables alone"
        raise UsageError(f"--store {store} would not be read: {why}.")
    fresh = run_parts(asked) if asked is not None else []
    if not named and _ordinal(device) is None:
        said = f"{device} is not of this machine: what would run on it is told by --stack"
        click.echo(
            f"{said} (--stack torch=2.7,cuda=12.8); shown is what is installed here.", err=True
        )
    node = _named(device, named) if named else _installed(device)
    if any(r.word.startswith("gemm_") for r in wanted):
        node = replace(node, fractions={} if no_store else _stored(node, store))
    if not named:
        kept = fresh if no_store else results.Store(store).read().results
        node = replace(node, readiness=readiness.with_measured(node.readiness, kept))
    failed = gate.failures(wanted, node)
    with may_go_unread():
        if format_ == "json":
            _print_json(node.readiness, failed if wanted else None)
        else:
            from pymicro.report import readiness as text

            text.show(node.readiness)
            for line in failed:
                click.echo(f"not met: {line}")
    wrong = [r for r in fresh if r.outcome == "failed"]
    _say_failures(wrong)
    return 1 if failed or wrong else 0


def _say_failures(wrong: list[Any]) -> None:
    from pymicro.report.table import not_run

    for line in not_run(wrong):
        click.echo(line, err=True)


def _named(device: str, stack: dict[str, Version]) -> Node:
    """A card, of the catalogue or of this machine, with the versions that were named."""
    from pymicro.analysis import readiness
    from pymicro.analysis.gate import Node

    spec = _spec(device, None)
    told = readiness.for_stack(spec, stack)
    return Node(told, driver=stack.get("driver"), driver_cuda=stack.get("cuda"))


def _installed(device: str) -> Node:
    """A card with the software of this machine."""
    from pymicro.analysis import readiness
    from pymicro.analysis.gate import Node
    from pymicro.probes import Evidence, gpus
    from pymicro.software.versions import parse

    evidence = Evidence()
    spec, number = _spec(device, evidence), _ordinal(device)
    found = readiness.installed(evidence, is_here=number is not None)
    told = readiness.for_machine(spec, found)
    if number is None:
        return Node(told)
    driver, link = parse(evidence.driver_branch), gpus.widest_link(evidence, number)
    return Node(told, driver, evidence.driver_cuda, link)


def _ordinal(device: str) -> int | None:
    """The CUDA ordinal that a word means on this machine, None where it names a card."""
    match = re.fullmatch(r"auto|cuda(?::(\d+))?", device.strip().lower())
    return None if match is None else int(match[1] or 0)


def _spec(device: str, evidence: Evidence | None) -> DeviceSpec:
    """The row of a card, or of a device of this machine.

    Raises:
        UsageError: no such card.
        Unavailable: this machine has no such device.
    """
    from pymicro.devices.finder import find
    from pymicro.errors import UsageError
    from pymicro.probes import Evidence, gpus

    number = _ordinal(device)
    if number is not None:
        return gpus.spec_of(evidence or Evidence(), number)
    if device.strip().lower() == "cpu":
        raise UsageError("readiness is about GPUs; name one, as in --device 4090.")
    match = find(device)
    if match.note:
        click.echo(match.note, err=True)
    return match.spec


def _stored(node: Node, store: str | None) -> Mapping[str, float]:
    from pymicro import results
    from pymicro.analysis.gate import best_fractions

    return best_fractions(results.Store(store).read().results, node.readiness.key)


def _print_json(readiness: Readiness, failures: list[str] | None) -> None:
    """The one document of all commands, with this command's part beside the results."""
    import json

    from pymicro import report
    from pymicro.report.readiness import to_json

    document = json.loads(report.render((), (), "json"))
    document["readiness"] = to_json(readiness, failures)
    click.echo(json.dumps(document, indent=1, ensure_ascii=False))
