"""Says before a job starts that it does not fit into memory, and what batch would."""

from __future__ import annotations

from pymicro.analysis.cases import Case
from pymicro.analysis.memory_need import most_batch, need
from pymicro.errors import Unavailable
from pymicro.units import binary_bytes


def refuse_too_large(case: Case, free_bytes: int) -> None:
    """Refuse a job that needs more than is free.

    Raises:
        Unavailable: it does; says which batch fits.
    """
    wanted = need(case)
    needed_bytes = wanted.total
    if needed_bytes <= free_bytes:
        return
    fits = most_batch(case, wanted, free_bytes)
    hint = f"a batch of {fits} fits." if fits else "no batch fits."
    raise Unavailable(
        f"{case.model.key} at batch {case.job.batch} needs about "
        f"{binary_bytes(round(needed_bytes))}, {binary_bytes(free_bytes)} are free; {hint}"
    )
