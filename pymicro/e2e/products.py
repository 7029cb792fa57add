"""What the host needs to issue a job's products at their true sizes, beyond what tiny ones take.

The library picks a kernel by the shape at each call, on the host. A narrow model has other shapes,
so its probe misses that; here each distinct product of a trace is issued, alone, at both sizes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Any

from pymicro.e2e.clock import waiting
from pymicro.workloads.jobs import Job, sizes_of
from pymicro.workloads.models import Model
from pymicro.workloads.sizes import evaluate
from pymicro.workloads.trace import Operator, Phase, Trace, pasts_of, running

_PRODUCTS = {"aten::mm": "mm", "aten::bmm": "bmm", "aten::addmm": "addmm"}
_WARM, _CALLS = 3, 8
# A dimension of the tiny product; the queue stays short and the device ahead.
_TINY = 16

# Function, operands as (shape, dtype, whether it is read transposed).
Product = tuple[str, tuple[tuple[tuple[int, ...], str, bool], ...]]


def excess_s(row: Model, wanted: Job, trace: Trace, device: str) -> dict[str, float]:
    """Seconds that a phase's products take on the host beyond tiny ones; of decode, one step's."""
    counts = {phase.name: _products(row, wanted, phase) for phase in trace.phases}
    each = {
        product: max(_issue_s(product, device) - _issue_s(_shrunk(product), device), 0.0)
        for product in {one for those in counts.values() for one in those}
    }
    return {
        phase: sum(each[product] * count for product, count in those.items())
        for phase, those in counts.items()
    }


def _products(row: Model, wanted: Job, phase: Phase) -> Counter[Product]:
    pasts = pasts_of(phase, sizes_of(row, wanted))
    values = sizes_of(row, wanted, pasts[len(pasts) // 2] if pasts else None)
    found: Counter[Product] = Counter()
    for operator in running(phase, values):
        if operator.name in _PRODUCTS:
            found[_PRODUCTS[operator.name], _operands(operator, values)] += operator.calls
    return found


def _operands(
    operator: Operator, values: dict[str, int]
) -> tuple[tuple[tuple[int, ...], str, bool], ...]:
    factors = len(operator.reads) - 2  # What comes before the two factors is added.
    return tuple(
        (
            tuple(evaluate(size, values) for size in tensor.shape),
            tensor.dtype,
            place >= factors and "ab"[place - factors] in operator.transposed,
        )
        for place, tensor in enumerate(operator.reads)
    )


def _shrunk(product: Product) -> Product:
    name, operands = product
    return name, tuple(
        (tuple(min(side, _TINY) for side in shape), dtype, turned)
        for shape, dtype, turned in operands
    )


def _issue_s(product: Product, device: str) -> float:
    """Median seconds until a call returns; the device may still be at it."""
    import torch

    name, operands = product
    tensors = [_tensor(*operand, device) for operand in operands]
    function: Callable[..., Any] = getattr(torch, name)
    wait = waiting(device)
    spans = []
    with torch.no_grad():
        for number in range(_WARM + _CALLS):
            if number == _WARM:
                wait()
            began_s = time.perf_counter()
            function(*tensors)
            spans.append(time.perf_counter() - began_s)
    wait()
    return median(spans[_WARM:])


def _tensor(shape: tuple[int, ...], dtype: str, turned: bool, device: str) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if not turned:
        return torch.ones(shape, dtype=kind, device=device)
    stored = (*shape[:-2], shape[-1], shape[-2])
    return torch.ones(stored, dtype=kind, device=device).transpose(-1, -2)
