"""How much memory a job needs: weights, gradients, optimiser, activations, cache."""

from __future__ import annotations

from dataclasses import dataclass

from pymicro.analysis.cases import Case
from pymicro.analysis.work import class_of
from pymicro.workloads.jobs import sizes_of
from pymicro.workloads.sizes import elements
from pymicro.workloads.trace import ITEM_BYTES, Operator, Phase, pasts_of

_WIDTH = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "amp_fp16": 4, "amp_bf16": 4}
# What the driver, the context and the libraries take before the first tensor.
CONTEXT_BYTES = 0.8e9
# Two moments of Adam, each like the weights.
_MOMENTS = 2
# The allocator cannot use all that it holds; blocks of unequal sizes leave holes.
_HOLES = 1.1


@dataclass(frozen=True)
class Need:
    """Bytes of a job on one device, at the peak."""

    weights: float
    gradients: float
    optimiser: float
    activations: float
    cache: float

    @property
    def total(self) -> float:
        """All of it, with the holes of the allocator and what a context takes."""
        own = self.weights + self.gradients + self.optimiser + self.activations + self.cache
        return own * _HOLES + CONTEXT_BYTES

    def parts(self) -> dict[str, float]:
        return {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimiser": self.optimiser,
            "activations": self.activations,
            "cache": self.cache,
        }


def need(case: Case) -> Need:
    """What the job needs; activations are what the forward pass leaves for the backward one."""
    weights = case.trace.parameters * _WIDTH[case.job.precision]
    if case.trace.task == "train":
        kept = sum(_written(case, phase, keep=True) for phase in case.trace.phases
                   if phase.name == "forward")  # fmt: skip
        half = weights / 2 if case.job.precision.startswith("amp") else 0.0
        return Need(weights + half, weights, _MOMENTS * weights, kept, 0.0)
    widest = max((_widest(case, phase) for phase in case.trace.phases), default=0.0)
    return Need(weights, 0.0, 0.0, 3 * widest, sum(_cache(case, p) for p in case.trace.phases))


def _written(case: Case, phase: Phase, keep: bool) -> float:
    """Bytes that the operators of a phase write and a backward pass reads again."""
    values = sizes_of(case.model, case.job)
    total = 0.0
    for operator in phase.operators:
        if keep and _is_in_place(operator):
            continue
        total += operator.calls * sum(t.bytes(values) for t in operator.writes)
    return total


def _is_in_place(operator: Operator) -> bool:
    return operator.name.split("::")[-1].split(".")[0].endswith("_")


def _widest(case: Case, phase: Phase) -> float:
    values = sizes_of(case.model, case.job)
    pasts = pasts_of(phase, values)
    if pasts:
        values = sizes_of(case.model, case.job, pasts[-1])
    sizes = [sum(t.bytes(values) for t in o.writes) for o in phase.operators]
    return max(sizes, default=0)


def _cache(case: Case, phase: Phase) -> float:
    """Keys and values of all layers at the last step: what is joined along the past, and, after
    an encoder, those of its output, which the first call of the decoder works out."""
    pasts = pasts_of(phase, sizes_of(case.model, case.job))
    if not pasts:
        return 0.0
    values = sizes_of(case.model, case.job, pasts[-1])
    joined = [
        elements(t.shape, values) * ITEM_BYTES[t.dtype] * o.calls
        for o in phase.operators
        if class_of(o.name) == "copy" and "cat" in o.name and "float" in o.writes[0].dtype
        for t in o.writes
    ]
    total = float(sum(joined))
    if case.model.is_encoder_decoder and joined:
        # As many numbers a token of the input as one of the output.
        total *= 1 + case.job.length * case.job.beams / (max(values["keys"], 1) * case.job.beams)
    # While one layer's is joined, the old one is still there.
    return total + max(joined)
