"""What the host needs to issue a job's operators: the job's own code with a narrow model.

The layers and the calls are the job's, the tensors a few KB, so the device is always done before
the host. Taken right before and after a run, since a host drifts; nothing of the run enters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from statistics import median

from pymicro.analysis.host_probe import FULL_LOADER
from pymicro.e2e import build, products
from pymicro.e2e.clock import Clock, waiting
from pymicro.e2e.pace import Pace, Paced, Reading
from pymicro.e2e.task import Listener, Task, synthetic
from pymicro.errors import Unavailable
from pymicro.workloads import traces
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import Model

# Enough steps for a median; the first ones also make states and pick kernels.
_WARM_STEPS, _STEPS, _TOKENS = 3, 8, 12
_BATCH, _LENGTH = 2, 16
# Of a paced probe: steps, of which the first one finds an idle device.
_PACED_STEPS = 3
# About 10 ms: a launch and a wait are small beside it.
_CALIBRATION_CYCLES = 20_000_000


class HostProbe:
    """A narrow copy of a job that stays ready, to be timed whenever it matters.

    Attributes:
        products_s: seconds in each phase for which its products' true shapes are to blame;
            empty on a CPU and where the job has no trace.
        products_readings: the pace before and after these were taken, if a gauge was given.
    """

    def __init__(self, row: Model, wanted: Job, device: str, pace: Pace | None = None) -> None:
        self._row, self._device = row, device
        self._cycle_rate: float | None = None
        # A batch of one dispatches fewer operators than any other.
        batch = min(wanted.batch, _BATCH)
        narrow = replace(
            wanted, batch=batch, length=_LENGTH, output=_TOKENS if wanted.output else 0
        )
        model = build.build(row, wanted.precision, wanted.attention, device, tiny=True)
        self._task = Task(row, narrow, model, device, synthetic(narrow, model.config.vocab_size))
        # Making a batch is work of the host whose amount does depend on the sizes.
        full = synthetic(wanted, model.config.vocab_size)
        self._full = Task(row, wanted, model, device, full)
        self.products_readings: list[Reading] = [pace.read()] if pace else []
        self.products_s = _products_s(row, wanted, device)
        self.products_readings += [pace.read()] if pace else []
        for _ in range(_WARM_STEPS if row.task == "train" else 1):
            self._task.run(lambda phase: None)

    def seconds(self, busy_s: float = 0.0, steps: int | None = None) -> dict[str, float]:
        """Median seconds of host work in each phase; of `decode`, of one step.

        Args:
            busy_s: how long the device is expected to work on a step of training. It is kept
                busy for so long from backward on, since a host that meets a busy device, and
                has to wait for it, issues more slowly; the wait itself is not counted.
            steps: how many steps, or prompts, to take the median of; None is enough for a figure
                that stands alone.
        """
        clock = Clock()
        at = self._busy(clock.at, clock.stop, busy_s)
        loading = []
        for _ in range(steps or (_STEPS if self._row.task == "train" else 2)):
            self._task.run(at)
            clock.stop()
            # Between steps, as in the job, with the host's caches full of other things.
            loading.append(self._full.loader_s(1))
        found = {phase: median(spans) for phase, spans in clock.spans.items()}
        for phase, more_s in self.products_s.items():
            found[phase] = found.get(phase, 0.0) + more_s
        found["loader"] = median(loading)
        return found

    def paced(self, pace: Pace, phases: Collection[str], busy_s: float = 0.0) -> Paced:
        """A few steps, or one prompt, with the pace read beside them; the products are not in it.

        Args:
            phases: where the pace is read. busy_s: as in `seconds`.
        """
        seen = Paced(pace, phases)
        at = self._busy(seen.at, seen.pause, busy_s)
        for _ in range(_PACED_STEPS if self._row.task == "train" else 1):
            self._task.run(at)
            seen.pause()
            seen.spans.append((FULL_LOADER, self._full.loader_s(1), len(seen.readings) - 1))
        seen.stop()
        return seen

    def _busy(self, begin: Listener, pause: Callable[[], None], busy_s: float) -> Listener:
        """A listener that puts a kernel of `busy_s` before backward's, and waits before optimiser.

        Only training waits where a phase begins; in generating the wait is inside one.
        """
        if not busy_s or self._row.task != "train" or not self._device.startswith("cuda"):
            return begin
        import torch

        wait = waiting(self._device)
        cycles = int(busy_s * self._cycles_per_s())

        def at(phase: str) -> None:
            if phase == "backward":
                pause()
                torch.cuda._sleep(cycles)
            elif phase == "optimiser":
                pause()
                wait()
            begin(phase)

        return at

    def _cycles_per_s(self) -> float:
        """The rate of the counter that torch's sleeping kernel counts by, measured once."""
        import torch

        if self._cycle_rate is None:
            wait = waiting(self._device)
            torch.cuda._sleep(1000)
            wait()
            began_s = time.perf_counter()
            torch.cuda._sleep(_CALIBRATION_CYCLES)
            wait()
            self._cycle_rate = _CALIBRATION_CYCLES / (time.perf_counter() - began_s)
        return self._cycle_rate


def _products_s(row: Model, wanted: Job, device: str) -> dict[str, float]:
    if not device.startswith("cuda"):
        return {}
    try:
        trace = traces.find(row.key, wanted.precision, wanted.attention, "cuda", wanted.beams)
    except Unavailable:
        return {}
    return products.excess_s(row, wanted, trace, device)
