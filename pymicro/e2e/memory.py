"""How much device memory a job needs, from its trace, and what batch would fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pymicro.errors import Unavailable
from pymicro.units import binary_bytes
from pymicro.workloads.jobs import Job, sizes_of
from pymicro.workloads.models import Model
from pymicro.workloads.trace import ITEM_BYTES, Operator, Trace

_WEIGHTS = {"fp16": "float16", "bf16": "bfloat16"}
# AdamW keeps two numbers a weight, in the weight's own format.
_STATES = 2
# What the largest operator reads and writes lies beside copies that are about to be freed.
_WORKING = 2
# A GPU's context and its libraries' workspaces.
_CONTEXT_BYTES = 2**30


@dataclass(frozen=True)
class Need:
    """Bytes by owner. `activations` is what a forward pass leaves for the backward one."""

    weights: int
    gradients: int
    states: int
    activations: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        return sum(vars(self).values()) + _CONTEXT_BYTES


def need(row: Model, wanted: Job, trace: Trace) -> Need:
    """An upper bound: every result of a forward operator is taken to be kept in training."""
    item = ITEM_BYTES[_WEIGHTS.get(wanted.precision, "float32")]
    weights = trace.parameters * item
    phases = {phase.name: phase.operators for phase in trace.phases}
    values = sizes_of(row, wanted)
    working = _WORKING * max(
        operator.bytes(values)
        for name, operators in phases.items()
        if name not in ("optimiser", "decode")
        for operator in operators
    )
    if row.task == "train":
        kept = sum(_written(operator, values) for operator in phases["forward"])
        return Need(weights, weights, _STATES * weights, kept, 0, working)
    last = sizes_of(row, wanted, values["limit"] - 2)
    # A cache grows by concatenation: keys and values of the prompt first, then of each token.
    cached = [o for o in phases["decode"] if _grows_cache(o)]
    cache = sum(_written(operator, last) for operator in cached)
    cross = [o for o in phases["first"] if _grows_cache(o)]
    cache += sum(_written(operator, values) for operator in cross)
    return Need(weights, 0, 0, 0, cache, working)


def refuse_too_large(row: Model, wanted: Job, trace: Trace, free_bytes: int) -> None:
    """Say before starting that a job does not fit, and what would.

    Raises:
        Unavailable: it does not.
    """
    needed = need(row, wanted, trace)
    if needed.total <= free_bytes:
        return
    fits = _largest_batch(row, wanted, trace, free_bytes)
    hint = f"a batch of {fits} fits." if fits else "no batch fits."
    raise Unavailable(
        f"{row.key} at batch {wanted.batch} needs about {binary_bytes(needed.total)}, "
        f"{binary_bytes(free_bytes)} are free; {hint}"
    )


def _largest_batch(row: Model, wanted: Job, trace: Trace, free_bytes: int) -> int:
    """By halving: memory grows with the batch."""
    low, high = 0, wanted.batch
    while high - low > 1:
        middle = (low + high) // 2
        if need(row, replace(wanted, batch=middle), trace).total <= free_bytes:
            low = middle
        else:
            high = middle
    return low


def _written(operator: Operator, values: dict[str, int]) -> int:
    return sum(t.bytes(values) for t in operator.writes if t.place == "device")


def _grows_cache(operator: Operator) -> bool:
    return operator.name == "aten::cat" and operator.details.get("dim") == -2
