"""Flags of a job that commands share: which job, on which card, with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from pymicro.workloads.precisions import PRECISIONS

_JOB = (
    click.option("--batch", type=int, help="sequences at once"),
    click.option("--length", type=int, help="tokens of each at the input"),
    click.option("--output", type=int, help="tokens that each generates"),
    click.option("--beams", type=int, help="hypotheses a sequence; 1 is greedy"),
    click.option("--records", type=int, help="sequences in all (records, articles)"),
    click.option("--epochs", type=int, help="passes over all of them"),
    click.option("--precision", help=f"one of {', '.join(PRECISIONS)}"),
)
# The rows of hosts.toml; written out here, lest every command read the file for its help.
HOSTS = ("default", "h200_cloud")
_DEVICE = (
    click.option(
        "--host",
        metavar="NAME|Nx",
        help=f"a known host ({', '.join(HOSTS)}), or N times as fast as the assumed",
    ),
    click.option("--store", metavar="FILE", help="stored results to use (default: yours)"),
    click.option("--published", is_flag=True, help="published figures only, nothing measured"),
    click.option("--spec", metavar="FILE", help="add or override cards from this TOML file"),
)


def job_options(
    command: Callable[..., Any], attention: Sequence[str] = ("sdpa", "eager")
) -> Callable[..., Any]:
    """Flags of the job; `attention` are the paths that the command knows."""
    paths = click.option("--attn", type=click.Choice(attention), help="attention path")
    for option in reversed((*_JOB, paths)):
        command = option(command)
    return command


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Flags of a job that runs here, where one may try any attention path."""
    return job_options(command, ("sdpa", "eager", "flash"))


def device_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Flags of what is known of a device."""
    for option in reversed(_DEVICE):
        command = option(command)
    return command


JOB_FIELDS = ("batch", "length", "output", "beams", "records", "epochs", "precision", "attn")
DEVICE_FIELDS = ("host", "store", "published", "spec")


@dataclass(frozen=True)
class Known:
    """A device that a word named: its primitives, and what to know of the choice."""

    primitives: Any
    kind: str
    note: str


def check(model: str) -> None:
    """Refuse a wrong model before anything is said of the device.

    Raises:
        UsageError: there is no such model.
    """
    from pymicro.workloads import models

    models.model(model)


def fields(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job by their names there; None for what was left out."""
    return {("attention" if k == "attn" else k): values[k] for k in JOB_FIELDS}


def case(model: str, values: dict[str, Any], kind: str = "cuda") -> Any:
    """The job of a model with the flags given; `kind` says whose operators."""
    from pymicro.analysis import cases

    made = cases.case(model, kind, **fields(values))
    records, batch = made.job.records, made.job.batch
    if batch <= (records or batch):
        return made
    said = f"a batch of {batch} holds all records; the time is that of a full one."
    return replace(made, notes=(*made.notes, said))


def device(word: str | None, values: dict[str, Any], model: str = "MODEL") -> Known:
    """The primitives of a card of the catalogue, of `cpu`, or of the device here.

    Args:
        model: whose job it is for, named in the cure where too little is known.

    Raises:
        UsageError: no such card or host. Unavailable: too little is known of it, or no such GPU
            is here.
    """
    from pymicro.analysis.primitives_sources import primitives
    from pymicro.analysis.primitives_tables import default_host, hosts
    from pymicro.analysis.what_if import factor
    from pymicro.cli.subjects import of_spec
    from pymicro.devices.catalogue import catalogue
    from pymicro.errors import UsageError

    spec, kind, note = _spec(word, catalogue(values["spec"]))
    results: Sequence[Any] = ()
    if not values["published"]:
        results = of_spec(spec, stored(values)).results
        if values["store"] and not results:
            note = f"{note} {values['store']} holds nothing of this device.".strip()
    found = primitives(spec, results, measured=not values["published"], job=model)
    host = values["host"]
    if host in hosts():
        found = replace(found, host=default_host(host))
    elif host:
        try:
            found = replace(found, host=found.host.faster(factor(host)))
        except UsageError as error:
            known = ", ".join(sorted(hosts()))
            raise UsageError(
                f"--host {host}: no host of this name and no factor from 0.01 to 100; hosts: "
                f"{known}; or 2x for one twice as fast."
            ) from error
    return Known(found, kind, note)


def stored(values: dict[str, Any]) -> Sequence[Any]:
    """The stored results that a command uses, read once; what is damaged is said on stderr.

    Raises:
        UsageError: `--store` names no file of results.
    """
    from pymicro.cli import subjects

    if "read" not in values:
        reading = subjects.stored(values["store"])
        subjects.tell(reading.findings)
        values["read"] = reading.results
    return values["read"]


def _spec(word: str | None, specs: Any) -> tuple[Any, str, str]:
    from pymicro.devices.cpu import describe_cpu
    from pymicro.devices.finder import find
    from pymicro.devices.here import is_a_gpu_here, resolve
    from pymicro.errors import UsageError

    if word is None or word == "auto" or is_a_gpu_here(word):
        here = resolve(word or "auto")
        if here.spec is None:
            raise UsageError(f"{here.name} is not known; say --device CARD.")
        return here.spec, here.kind, here.note
    if word.strip().lower() == "cpu":
        return describe_cpu(), "cpu", ""
    match = find(word, specs)
    return match.spec, "cuda", match.note or ""
