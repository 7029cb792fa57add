"""`pymicro collective`: all-reduce and its kin over all GPUs of a host, or over processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pymicro.cli.checked import Command
from pymicro.collective.operations import FORMATS, OPERATIONS
from pymicro.report import FORMATS as OUTPUTS

if TYPE_CHECKING:
    from pymicro.collective.job import Job
    from pymicro.devices.here import Device
    from pymicro.results import Result

_SIZES = {"cuda": "4KiB:1GiB:x16,1GiB", "cpu": "4KiB:16MiB:x16"}
_SECONDS_A_POINT = 0.4
# Processes on a CPU, where nobody says how many: enough to see that it works.
_MOST_PROCESSES = 4
_EPILOG = """\b
Examples:
  pymicro collective                          all GPUs of this host, by NCCL
  pymicro collective --op all-reduce --size 1MiB:8GiB:x2 --dtype bf16
  pymicro collective --device cpu --ranks 2   processes, by gloo
  torchrun --nnodes 2 --nproc-per-node 8 … -m pymicro collective
"""


@click.command(
    "collective", cls=Command, short_help="All-reduce and its kin between GPUs.", epilog=_EPILOG
)
@click.option("--op", default="all", metavar="NAME[,NAME]", show_default=True,
              help=", ".join(OPERATIONS))  # fmt: skip
@click.option("--size", metavar="SIZES", help="of the whole array: 1GiB, 1MiB:8GiB:x2")
@click.option("--dtype", default="fp32", type=click.Choice(tuple(FORMATS)), show_default=True)
@click.option("--ranks", type=click.IntRange(2, 1024), help="processes; on GPUs, how many of them")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda")
@click.option("--budget", type=click.FloatRange(0.1, 86_400), metavar="SECONDS",
              help=f"for sampling, all together ({_SECONDS_A_POINT:g} a point)")  # fmt: skip
@click.option("--format", "format_", type=click.Choice(OUTPUTS), default="table")
@click.option("--store", metavar="FILE", help="append results to this file (default: your store)")
@click.option("--no-store", is_flag=True, help="keep no results")
@click.option("--label", help="name of this machine in results, in place of a salted hash")
def command(**given: Any) -> int:
    """Time and check collectives through torch.distributed, one process a device.

    The rate is algorithm bandwidth, size over time; bus bandwidth, which can be held against the
    link, is defined as in nccl-tests. The slowest rank's time counts.
    """
    from pymicro import results
    from pymicro.devices.here import resolve

    device = resolve(given["device"])
    job = _job(given, device.kind)
    store = None if given["no_store"] else results.Store(given["store"])
    if store is not None:
        store.check_writable()
    found = _found(job, device, given)
    for result in found:
        if store is not None:
            store.append(result)
    if not found:  # One of the ranks that do not report.
        return 0
    _show(found, device, given["format_"])
    outcomes = {r.outcome for r in found}
    return 1 if "failed" in outcomes else 0 if "ok" in outcomes else 3


def _job(given: Mapping[str, Any], kind: str) -> Job:
    from pymicro.collective.job import Job
    from pymicro.collective.ranks import is_rank
    from pymicro.errors import UsageError, unknown
    from pymicro.units import parse_bytes, parse_list

    if given["ranks"] and is_rank():
        raise UsageError("--ranks: torchrun has started the ranks; their number is its to say.")
    if given["device"] not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {given['device']}: all GPUs take part; auto, cpu or cuda.")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        if is_rank() and not os.environ[name].isdecimal():
            raise UsageError(f"{name}={os.environ[name]}: a whole number, as torchrun sets it.")
    words = OPERATIONS if given["op"] == "all" else given["op"].split(",")
    operations = tuple(dict.fromkeys(word.strip() for word in words))
    for operation in operations:
        if operation not in OPERATIONS:
            raise unknown("operation", operation, OPERATIONS)
    sizes = parse_list(given["size"] or _SIZES[kind], parse_bytes, name="--size")
    points = len(operations) * len(sizes)
    budget_s = given["budget"] or _SECONDS_A_POINT * points
    return Job(kind, operations, tuple(sizes), given["dtype"], budget_s)


def _found(job: Job, device: Device, given: Mapping[str, Any]) -> list[Result]:
    """Results, of all that ran; none on a rank that does not report."""
    from pymicro.backends.base import missing
    from pymicro.collective import rank, ranks, records
    from pymicro.errors import PymicroError

    reason = missing("torch", "torch")
    if ranks.is_rank():
        if os.environ["WORLD_SIZE"] == "1":
            reason = "one rank has nobody to exchange with: a collective needs two."
        if reason is not None and os.environ["RANK"] != "0":
            return []
        if reason is not None:
            return [records.skipped(job, 1, reason, _shared(device, given))]
        told: list[dict[str, Any]] = []
        failure: Exception | None = None
        try:
            rank.run(job, told.append)
        except (PymicroError, RuntimeError, ValueError) as error:
            failure = error
        if os.environ["RANK"] != "0":
            return []
        shared = _shared(device, given)
        found = [records.result(r, job, _link(shared, _machines()), shared) for r in told]
        if failure is not None:
            why = f"the ranks did not meet, or one was lost: {str(failure).splitlines()[0][:200]}"
            found.append(records.failed(job, int(os.environ["WORLD_SIZE"]), why, shared))
        return found
    count, why_not = _ranks(job.kind, given["ranks"])
    if reason or why_not:
        return [records.skipped(job, count, reason or why_not or "", _shared(device, given))]
    told, failure = ranks.measured(job, count)
    shared = _shared(device, given)
    found = [records.result(r, job, _link(shared, 1), shared) for r in told]
    if failure is not None:
        found.append(records.failed(job, count, str(failure), shared))
    return found


def _ranks(kind: str, wanted: int | None) -> tuple[int, str | None]:
    """How many processes, and why there can be none.

    Raises:
        UsageError: more than there are GPUs.
    """
    from pymicro.devices.cpu import usable_cores
    from pymicro.errors import UsageError

    if kind == "cpu":
        return wanted or min(max(usable_cores(), 2), _MOST_PROCESSES), None
    from pymicro import driver

    gpus = driver.device_count()
    if gpus == 1:
        return 1, "one GPU has nobody to exchange with: a collective needs two."
    if wanted and wanted > gpus:
        raise UsageError(f"--ranks {wanted}: this process sees {gpus} GPUs.")
    return wanted or gpus, None


def _machines() -> int:
    ranks = int(os.environ["WORLD_SIZE"])
    return -(-ranks // int(os.environ.get("LOCAL_WORLD_SIZE", ranks)))


def _link(shared: Mapping[str, Any], machines: int) -> str:
    """Over what ranks reach each other."""
    if machines > 1:
        return "network"
    if shared["device"]["kind"] == "cpu":
        return "host"
    told = (shared["environment"].get("gpu") or {}).get("nvlinks")
    joined = told["up"] > 0 if told else _are_nvlinked()
    return "nvlink" if joined else "pcie"


def _are_nvlinked() -> bool:
    """By what NVML says of the first two, where it does not show a card's links."""
    from pymicro import driver
    from pymicro.backends.cuda.topology import are_nvlinked
    from pymicro.errors import PymicroError

    try:
        return bool(are_nvlinked(driver.open_gpu(0), driver.open_gpu(1)))
    except PymicroError:
        return False


def _shared(device: Device, given: Mapping[str, Any]) -> dict[str, Any]:
    """What all results of this run have in common."""
    from pymicro import environment, results
    from pymicro.devices import peaks

    gpu = device.gpu
    facts: dict[str, Any] = {"kind": device.kind, "name": device.name}
    if gpu is not None:
        facts["capability"] = ".".join(map(str, device.capability or ()))
        facts["memory_bytes"] = gpu.memory_bytes
    return {
        "device": facts | dict(peaks.facts(device.spec)) | {"identified": device.note},
        "environment": environment.capture(gpu.uuid if gpu else None, label=given["label"]),
        "run_id": results.new_run_id(),
    }


def _show(found: list[Result], device: Device, format_: str) -> None:
    from pymicro import report
    from pymicro.analysis.after import findings

    said = findings("collective", found)
    if format_ == "table":
        from pymicro.report import table

        table.show(found, said, heading=f"{device.name} ({device.note})")
    else:
        click.echo(report.render(found, said, format_), nl=False)
