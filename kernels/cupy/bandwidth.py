"""Memory streams from CuPy; `kernels/stream.py` says what each operation computes.

`elementwise` and `reduction` are CuPy's own kernel generators, `raw` a kernel of ours with 16-byte
accesses. bf16 arrives as uint16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..stream import ROLES, SCALAR, SUMS, operands
from .bandwidth_cuda import SOURCE

THREADS = 256
# 16-byte loads of each array that a thread has in flight: a map is fastest in many short blocks, a
# sum in few that walk.
UNROLL = {"map": 1, "sum": 4}
_FORMATS = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 1016}
_EXPRESSIONS = {
    "write": "{s}", "copy": "{x}", "scale": "{s} * {x}", "add": "{x} + {y}",
    "triad": "{x} + {s} * {y}", "read": "{x}", "dot": "{x} * {y}",
}  # fmt: skip


def why_not(
    variant: str, operation: str, dtype: str, capability: tuple[int, int] | None
) -> str | None:
    """Why the case cannot run, None if it can."""
    if operation not in ROLES:
        return f"There is no stream operation {operation}."
    if dtype not in _FORMATS:
        return f"The stream operations are not defined for {dtype}."
    if capability is None:
        return "CuPy runs on a GPU only."
    if variant != "raw" and dtype == "bf16":
        return "CuPy has no bf16 arrays."
    if variant != "raw" and (variant == "reduction") is not (operation in SUMS):
        return f"CuPy's {variant} kernels do not serve {operation}."
    return None


def _prepare_elementwise(operation: str, arrays: dict, *, dtype: str) -> Callable[[], object]:
    import cupy

    inputs, parameters, expression = _typed(operation, arrays, dtype)
    kernel = cupy.ElementwiseKernel(
        parameters, "T target", f"target = static_cast<T>({expression})", f"stream_{operation}"
    )
    call = partial(kernel, *inputs, operands(operation, arrays)[2])
    call()
    return call


def _prepare_reduction(operation: str, arrays: dict, *, dtype: str) -> Callable[[], object]:
    """One block for each slot of `out` where the slots divide the array, else one slot for all."""
    import cupy

    inputs, parameters, expression = _typed(operation, arrays, dtype)
    out = arrays["out"]
    kernel = cupy.ReductionKernel(
        parameters, "R out", expression, "a + b", "out = a", "0", f"stream_{operation}",
        reduce_type=_wide(dtype),
    )  # fmt: skip
    slots = out.size if inputs[0].size % out.size == 0 else 1
    reduce = partial(kernel, *(x.reshape(slots, -1) for x in inputs), out[:slots], axis=1)

    def call() -> None:
        if slots < out.size:
            out[slots:] = 0
        reduce()

    call()
    return call


def _typed(operation: str, arrays: dict, dtype: str) -> tuple[list, str, str]:
    """Inputs, their declaration and the expression, computed in fp32 where items are narrower."""
    names = [name for name, role in zip("xy", ROLES[operation], strict=False) if role]
    wide = _wide(dtype)
    cast = {name: f"static_cast<{wide}>({name})" for name in "xy"}
    expression = _EXPRESSIONS[operation].format(s=f"{wide}({SCALAR})", **cast)
    inputs = [arrays[role] for role in ROLES[operation][:2] if role]
    return inputs, ", ".join(f"T {name}" for name in names), expression


def _wide(dtype: str) -> str:
    return "double" if dtype == "fp64" else "float"


def _prepare_raw(operation: str, arrays: dict, *, dtype: str) -> Callable[[], object]:
    """Raises ValueError where an array does not start at a multiple of 16 bytes."""
    import cupy

    x, y, target = operands(operation, arrays)
    if any(array.data.ptr % 16 for array in (x, y, target)):
        raise ValueError("16-byte accesses need arrays that start at a multiple of 16 bytes.")
    summed = operation in SUMS
    options = raw_macros(operation, dtype, "double" if target.dtype == np.float64 else "float")
    module = cupy.RawModule(
        code=SOURCE,
        options=("-std=c++17", *(f"-D{name}={value}" for name, value in options.items())),
    )
    kernel = module.get_function("sum_stream" if summed else "map_stream")
    unroll = UNROLL["sum" if summed else "map"]
    blocks = max(1, -(-x.nbytes // (16 * THREADS * unroll)))
    arguments = (x, y, target, np.uint64(x.size))
    if summed:
        chip = cupy.cuda.Device().attributes
        resident = chip["MultiProcessorCount"] * chip["MaxThreadsPerMultiProcessor"] // THREADS
        blocks = min(blocks, resident, target.size)
        arguments += (np.uint32(target.size),)
    return partial(kernel, (blocks,), (THREADS,), arguments)


def raw_macros(operation: str, dtype: str, sum_type: str) -> dict[str, str | int | float]:
    return {
        "FORMAT": _FORMATS[dtype], "OPERATION": list(ROLES).index(operation), "SCALAR": SCALAR,
        "UNROLL": UNROLL["sum" if operation in SUMS else "map"], "SUM": sum_type,
    }  # fmt: skip


VARIANTS = {
    "elementwise": _prepare_elementwise,
    "reduction": _prepare_reduction,
    "raw": _prepare_raw,
}
