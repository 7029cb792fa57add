"""Results of what rank 0 wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymicro.collective.job import Job
from pymicro.collective.operations import OPERATIONS
from pymicro.results import Result, Verified


def result(record: Mapping[str, Any], job: Job, link: str, shared: Mapping[str, Any]) -> Result:
    """The result of one record; `shared` are fields that all results of a run have in common.

    Its bytes are the size that the operation is known by, so their rate is algorithm bandwidth.
    """
    operation = OPERATIONS[record["operation"]]
    params = {"op": operation.name, "size": record["size"], "ranks": record["ranks"], "link": link}
    known: dict[str, Any] = {
        "benchmark": "collective",
        "backend": "torch",
        "variant": job.backend,
        "dtype": job.dtype,
        "params": params,
        "bytes": record["size"],
        **shared,
    }
    if "reason" in record:
        return Result(**known, outcome=record["outcome"], reason=record["reason"])
    return Result(
        **known,
        verified=Verified("every element on every rank", 0.0, 0.0),
        times_s=tuple(record["times_s"]),
        timer=record["timer"],
        details={
            "bus_factor": operation.bus(record["ranks"]),
            "repeats": record["repeats"],
            "stopped": record["stopped"],
        },
    )


def skipped(job: Job, ranks: int, reason: str, shared: Mapping[str, Any]) -> Result:
    """Nothing ran; why."""
    return _without_time(job, ranks, "skipped", reason, shared)


def failed(job: Job, ranks: int, reason: str, shared: Mapping[str, Any]) -> Result:
    """A process ended before its time, and took all others along."""
    return _without_time(job, ranks, "failed", reason, shared)


def _without_time(
    job: Job, ranks: int, outcome: Any, reason: str, shared: Mapping[str, Any]
) -> Result:
    return Result(
        benchmark="collective",
        backend="torch",
        variant=job.backend,
        dtype=job.dtype,
        params={"ranks": ranks},
        outcome=outcome,
        reason=reason,
        **shared,
    )
