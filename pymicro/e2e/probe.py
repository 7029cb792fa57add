"""What the host needs to issue a job's operators: the job's own code with a narrow model.

The layers and the calls are the job's, the tensors a few KB, so the device is always done before
the host. Taken right before and after a run, since a host drifts; nothing of the run enters.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from pymicro.e2e import build
from pymicro.e2e.clock import Clock
from pymicro.e2e.task import Task, synthetic
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import Model

# Enough steps for a median; the first ones also make states and pick kernels.
_WARM_STEPS, _STEPS, _TOKENS = 3, 8, 12
_BATCH, _LENGTH = 2, 16


class HostProbe:
    """A narrow copy of a job that stays ready, to be timed whenever it matters."""

    def __init__(self, row: Model, wanted: Job, device: str) -> None:
        self._row = row
        narrow = replace(
            wanted, batch=_BATCH, length=_LENGTH, output=_TOKENS if wanted.output else 0
        )
        model = build.build(row, wanted.precision, wanted.attention, device, tiny=True)
        self._task = Task(row, narrow, model, device, synthetic(narrow, model.config.vocab_size))
        # Making a batch is work of the host whose amount does depend on the sizes.
        full = synthetic(wanted, model.config.vocab_size)
        self._full = Task(row, wanted, model, device, full)
        for _ in range(_WARM_STEPS):
            self._task.run(lambda phase: None)

    def seconds(self) -> dict[str, float]:
        """Median seconds of host work in each phase; of `decode`, of one step."""
        clock = Clock()
        runs = _STEPS if self._row.task == "train" else 2
        for _ in range(runs):
            self._task.run(clock.at)
            clock.stop()
        found = {phase: median(spans) for phase, spans in clock.spans.items()}
        found["loader"] = self._full.loader_s(_STEPS)
        return found
