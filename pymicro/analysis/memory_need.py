"""How much memory a job needs, and whether a device has it: the one judge of both.

A need is worked out from a job's trace, or from a number of parameters alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pymicro.analysis.assumed import number
from pymicro.analysis.cases import Case
from pymicro.analysis.work import class_of, short_name
from pymicro.workloads.jobs import sizes_of
from pymicro.workloads.precisions import PRECISIONS, Precision
from pymicro.workloads.sizes import elements
from pymicro.workloads.trace import ITEM_BYTES, Operator, Phase, pasts_of

# Two moments of Adam, each like the weights.
_MOMENTS = 2


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
        return (
            self.fixed + (self.activations + self.cache) * number("holes") + number("context_bytes")
        )

    @property
    def fixed(self) -> float:
        """What lies there from the first step to the last, whatever the batch."""
        return self.weights + self.gradients + self.optimiser

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
    precision, count = PRECISIONS[case.job.precision], case.trace.parameters
    if case.trace.task == "train":
        kept = sum(_kept(case, p) for p in case.trace.phases if p.name == "forward")
        return of_parameters(count, precision, True, activations=kept)
    widest = max((_widest(case, phase) for phase in case.trace.phases), default=0.0)
    cache = sum(_cache(case, p) for p in case.trace.phases)
    return of_parameters(count, precision, False, activations=3 * widest, cache=cache)


def of_parameters(
    count: float, precision: Precision, trained: bool, activations: float = 0.0, cache: float = 0.0
) -> Need:
    """What a model of so many parameters needs, with what a batch needs besides.

    Args:
        count: parameters on this device. activations, cache: bytes.
    """
    weights = count * (precision.weights_bytes + precision.cast_bytes)
    if not trained:
        return Need(count * precision.weights_bytes, 0.0, 0.0, activations, cache)
    own = float(count * precision.weights_bytes)
    return Need(weights, own, _MOMENTS * own, activations, cache)


def missing_bytes(wanted: Need, memory_bytes: float | None) -> float:
    """Bytes that a device of this memory lacks; 0 where it has them, or where it is not known."""
    return max(0.0, wanted.total - memory_bytes * number("usable_share")) if memory_bytes else 0.0


def most_batch_on(case: Case, wanted: Need, memory_bytes: float | None) -> int:
    """The largest batch that fits a device of this memory, which nothing else uses."""
    return most_batch(case, wanted, (memory_bytes or 0) * number("usable_share"))


def most_batch(case: Case, wanted: Need, room_bytes: float) -> int:
    """The largest batch that fits: what grows with the batch grows in proportion."""
    growing = (wanted.activations + wanted.cache) * number("holes") / case.job.batch
    left = room_bytes - number("context_bytes") - wanted.fixed
    return max(0, math.floor(left / growing)) if growing > 0 else 0


def _kept(case: Case, phase: Phase) -> float:
    """Bytes of a forward pass that its backward pass reads again."""
    values = sizes_of(case.model, case.job)
    total = 0.0
    following = [*phase.operators[1:], None]
    for operator, after in zip(phase.operators, following, strict=True):
        kept = [t for t in operator.writes if "batch" in "*".join(t.shape)]
        if not _is_kept(operator, after):
            # Of dropout the mask alone, its smallest result.
            masks = kept[1:] if class_of(operator.name) == "random" else []
            kept = masks
        total += operator.calls * sum(t.bytes(values) for t in kept)
    return total


# Operators whose gradient needs what they read or what they made.
_NEEDS_INPUT = ("product", "normalisation", "attention")
_NEEDS_OUTPUT = ("softmax", "normalisation", "copy", "attention")
_ACTIVATIONS = ("gelu", "relu", "silu", "tanh", "pow")


def _is_kept(operator: Operator, after: Operator | None) -> bool:
    """Whether a result outlives the next operator: its own gradient or the next one's needs it."""
    short = short_name(operator.name)
    if short.endswith("_"):
        return False
    kind = class_of(operator.name)
    if kind in _NEEDS_OUTPUT or short in _ACTIVATIONS:
        return True
    if after is None:
        return False
    next_name = short_name(after.name)
    if kind == "product":
        # Queries, keys and values follow one another; others go on into a sum or into dropout.
        return (
            next_name in (*_ACTIVATIONS, "addmm", "linear") or class_of(after.name) == "attention"
        )
    return class_of(after.name) in _NEEDS_INPUT or next_name in _ACTIVATIONS


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
