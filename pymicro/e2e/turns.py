"""A job and its host probe taking turns, the host's pace read at every step of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pymicro.e2e.clock import waiting
from pymicro.e2e.pace import Pace, Paced
from pymicro.e2e.probe import HostProbe
from pymicro.e2e.task import Task

# Where a reading of the pace disturbs nothing: host and device have just met there.
PACED = {"train": ("loader",), "generate": ("encode", "first", "decode")}


@dataclass
class Turns:
    """What was seen, turn by turn: spans and readings, see `Paced`."""

    job: list[dict[str, Any]] = field(default_factory=list)
    probe: list[dict[str, Any]] = field(default_factory=list)


def alternate(
    task: Task, probe: HostProbe, pace: Pace, busy_s: float, turns: int, steps: int
) -> Turns:
    """Probe, run, probe, run, ..., probe.

    Args:
        busy_s: how long the device is expected to work on a step, see `HostProbe.paced`.
        steps: of training in a turn, the first of which finds an idle device; of generating a
            turn is a whole run.
    """
    wait, found, phases = waiting(task.device), Turns(), PACED[task.row.task]
    for _ in range(turns):
        found.probe.append(probe.paced(pace, phases, busy_s).told())
        seen = Paced(pace, phases)
        for _ in range(steps if task.row.task == "train" else 1):
            task.run(seen.at)
        seen.stop()
        wait()
        found.job.append(seen.told())
    found.probe.append(probe.paced(pace, phases, busy_s).told())
    return found
