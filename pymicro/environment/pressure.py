"""Whether other programs want this machine's CPU: figures of a CPU are then of what they leave.

Linux counts the time in which some task was ready and no core was free. A run that has as many
threads as cores, and the machine for itself, adds next to nothing to it.
"""

from __future__ import annotations

import os
from pathlib import Path

_MUCH = 0.2


def cpu_pressure(root: Path = Path("/")) -> float | None:
    """Share of the last ten seconds in which a task waited for a core; None where nobody counts."""
    try:
        some = (root / "proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
        return float(some.split("avg10=")[1].split()[0]) / 100
    except (OSError, IndexError, ValueError):
        return None


def load() -> float | None:
    """Tasks that ran or waited over the last minute; None where nobody counts (Windows)."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def overload(tasks: float | None, cores: int) -> str | None:
    """`load 9.0 on 2 cores`; None where every task has a core, or nobody counts."""
    if tasks is None or tasks <= cores:
        return None
    return f"load {tasks:.1f} on {cores} core{'s' if cores > 1 else ''}"


def said(share: float | None, tasks: float | None = None, cores: int = 1) -> str | None:
    """A note for results of a CPU, None where the machine was quiet enough or nobody counts."""
    seen = overload(tasks, cores)
    if share is None or share < _MUCH:
        return seen and f"this machine was busy: {seen}; figures are of what others leave."
    return (f"this machine was busy: {seen}; " if seen else "") + (
        f"in the ten seconds before this run tasks waited for a core {100 * share:.0f} % of the "
        "time: other programs are at work here, and figures are of what they leave."
    )
