"""What the host needs to issue a job's operators: the job's own code with a narrow model.

The layers and the calls are the job's, the tensors a few KB, so the device is always done before
the host. Taken right before and after a run, since a host drifts; nothing of the run enters.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from pymicro.e2e import build, products
from pymicro.e2e.clock import Clock, waiting
from pymicro.e2e.task import Task, synthetic
from pymicro.errors import Unavailable
from pymicro.workloads import traces
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import Model

# Enough steps for a median; the first ones also make states and pick kernels.
_WARM_STEPS, _STEPS, _TOKENS = 3, 8, 12
_BATCH, _LENGTH = 2, 16


class HostProbe:
    """A narrow copy of a job that stays ready, to be timed whenever it matters.

    Attributes:
        products_s: seconds in each phase for which its products' true shapes are to blame;
            empty on a CPU and where the job has no trace.
    """

    def __init__(self, row: Model, wanted: Job, device: str) -> None:
        self._row, self._device = row, device
        narrow = replace(
            wanted, batch=_BATCH, length=_LENGTH, output=_TOKENS if wanted.output else 0
        )
        model = build.build(row, wanted.precision, wanted.attention, device, tiny=True)
        self._task = Task(row, narrow, model, device, synthetic(narrow, model.config.vocab_size))
        # Making a batch is work of the host whose amount does depend on the sizes.
        full = synthetic(wanted, model.config.vocab_size)
        self._full = Task(row, wanted, model, device, full)
        self.products_s = _products_s(row, wanted, device)
        for _ in range(_WARM_STEPS if row.task == "train" else 1):
            self._task.run(lambda phase: None)

    def seconds(self) -> dict[str, float]:
        """Median seconds of host work in each phase; of `decode`, of one step."""
        clock = Clock()
        loading = []
        for _ in range(_STEPS if self._row.task == "train" else 2):
            self._task.run(clock.at)
            clock.stop()
            # Between steps, as in the job, with the host's caches full of other things.
            loading.append(self._full.loader_s(1))
        found = {phase: median(spans) for phase, spans in clock.spans.items()}
        for phase, more_s in self.products_s.items():
            found[phase] = found.get(phase, 0.0) + more_s
        found["loader"] = median(loading)
        return found

    def after_waiting_s(self, wait_s: float = 0.01) -> dict[str, float]:
        """The same where the host has waited for the device before each optimiser's step.

        A host that has waited may issue more slowly. For judging a run, not for predicting it.
        """
        if self._row.task != "train" or not self._device.startswith("cuda"):
            return {}
        import torch

        wait = waiting(self._device)
        clock = Clock()
        # The unit of the device's sleep is a clock of about a GHz and a half or more.
        cycles = int(wait_s * 1.7e9)

        def at(phase: str) -> None:
            if phase == "optimiser":
                clock.stop()
                torch.cuda._sleep(cycles)
                wait()
            clock.at(phase)

        for _ in range(_STEPS):
            self._task.run(at)
            clock.stop()
        return {phase: median(spans) for phase, spans in clock.spans.items()}


def _products_s(row: Model, wanted: Job, device: str) -> dict[str, float]:
    if not device.startswith("cuda"):
        return {}
    try:
        trace = traces.find(row.key, wanted.precision, wanted.attention, "cuda", wanted.beams)
    except Unavailable:
        return {}
    return products.excess_s(row, wanted, trace, device)
