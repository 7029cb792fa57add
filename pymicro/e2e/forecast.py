"""About how long a job will take on a CPU, worked out before it begins.

Some formats have no fast path there: mixed precision may take a hundred times as long as FP32,
and nothing would tell until the first step is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pymicro.analysis.cases import of_job
from pymicro.e2e.runner import QUICK_STEPS, QUICK_TOKENS
from pymicro.errors import Unavailable
from pymicro.units import si
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import Model
from pymicro.workloads.precisions import PRECISIONS

# Sizes of a linear layer as in the jobs, small enough for the slowest path. The best of the tries
# of a second counts: on a shared machine most are disturbed.
_ROWS, _WIDTH = 1024, 768
_TRIES, _TRYING_S = 2, 1.0
# Beside the job itself `measure` warms up, looks at the phases and profiles a step: in steps of
# training, and in runs of generating, of which these make a few tokens only.
_MORE_STEPS, _MORE_RUNS, _MORE_SHARE = 5, 1, 0.5


@dataclass(frozen=True)
class Forecast:
    """Seconds of measuring a job here, whole and `--quick`, as if it were products alone.

    `flop_per_s` is the rate of a linear layer in the job's precision, `wide_flop_per_s` in FP32.
    """

    model: str
    precision: str
    whole_s: float
    quick_s: float
    flop_per_s: float
    wide_flop_per_s: float

    def sentence(self, quick: bool) -> str:
        """What to expect, and what would be faster."""
        seconds = self.quick_s if quick else self.whole_s
        text = (
            f"{self.model} in {self.precision} will take about {_minutes(seconds)} on this CPU, "
            f"where its products run at {si(self.flop_per_s, 'FLOP/s', 2)}"
        )
        if self.wide_flop_per_s > 2 * self.flop_per_s:
            text += f" (in fp32 at {si(self.wide_flop_per_s, 'FLOP/s', 2)})"
        hint = "" if quick else f" --quick takes {_minutes(self.quick_s)}."
        return f"{text}.{hint} Ctrl-C ends it."


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def forecast(
    row: Model, wanted: Job, rate: Callable[[str, bool], float] | None = None
) -> Forecast | None:
    """The forecast for a job; None if its operators are not known.

    `rate` gives FLOP/s of a linear layer: of a precision, and whether it is trained.
    """
    try:
        case = of_job(row, wanted, "cpu")
    except Unavailable:
        return None
    is_training = row.task == "train"
    measured = rate or flop_per_s
    here = measured(wanted.precision, is_training)
    recorded = PRECISIONS[wanted.precision].recorded_as
    wide = here if recorded == "fp32" else measured("fp32", is_training)
    batch_s = case.program.flop / here
    runs = wanted.batches * wanted.epochs
    if is_training:
        steps = [n + max(2, n // 2) + _MORE_STEPS for n in (runs, min(runs, QUICK_STEPS))]
        whole_s, quick_s = (batch_s * n for n in steps)
    else:
        whole_s = batch_s * (runs + _MORE_RUNS + _MORE_SHARE)
        share = min(1.0, QUICK_TOKENS / wanted.output)
        quick_s = batch_s * (share * (1 + _MORE_RUNS) + _MORE_SHARE)
    return Forecast(row.key, wanted.precision, whole_s, quick_s, here, wide)


def flop_per_s(precision: str, is_trained: bool) -> float:
    """The rate of a linear layer on the CPU, forward and, if trained, backward."""
    import torch

    how = PRECISIONS[precision]
    dtype, narrow = getattr(torch, how.weights_torch), how.autocast_torch
    layer = torch.nn.Linear(_WIDTH, _WIDTH, dtype=dtype)
    rows = torch.randn(_ROWS, _WIDTH, dtype=dtype, requires_grad=is_trained)

    def once() -> float:
        began_s = time.perf_counter()
        with torch.autocast(
            "cpu", dtype=getattr(torch, narrow or "bfloat16"), enabled=bool(narrow)
        ):
            made = layer(rows)
        if is_trained:
            made.sum().backward()
        return time.perf_counter() - began_s

    products = 3 if is_trained else 1
    began_s, tries = time.perf_counter(), [once()]
    while len(tries) < _TRIES or time.perf_counter() - began_s < _TRYING_S:
        tries.append(once())
    return products * 2 * _ROWS * _WIDTH**2 / min(tries)
