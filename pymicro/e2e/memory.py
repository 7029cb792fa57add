"""Says before a job starts that it does not fit into memory, and what batch would."""

from __future__ import annotations

from dataclasses import replace

from pymicro.analysis.cases import Case
from pymicro.analysis.memory_need import need
from pymicro.errors import Unavailable
from pymicro.units import binary_bytes


def refuse_too_large(case: Case, free_bytes: int) -> None:
    """Refuse a job that needs more than is free.

    Raises:
        Unavailable: it does; says which batch fits.
    """
    needed_bytes = need(case).total
    if needed_bytes <= free_bytes:
        return
    fits = _largest_batch(case, free_bytes)
    hint = f"a batch of {fits} fits." if fits else "no batch fits."
    raise Unavailable(
        f"{case.model.key} at batch {case.job.batch} needs about "
        f"{binary_bytes(round(needed_bytes))}, {binary_bytes(free_bytes)} are free; {hint}"
    )


def _largest_batch(case: Case, free_bytes: int) -> int:
    """By halving: memory grows with the batch."""
    low, high = 0, case.job.batch
    while high - low > 1:
        middle = (low + high) // 2
        if need(replace(case, job=replace(case.job, batch=middle))).total <= free_bytes:
            low = middle
        else:
            high = middle
    return low
