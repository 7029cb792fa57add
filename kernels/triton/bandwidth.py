"""Memory streams in Triton; `kernels/stream.py` says what each operation computes.

`blocks` gives every program one block, `persistent` as many programs as fit on the chip, which walk
the arrays. For the two sums both walk, since `out` bounds the number of programs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from ..stream import ROLES, SCALAR, SUMS, operands
from .binding import bound

WARPS = 8
# Of each array: 16 bytes a thread for programs that do one block and go, which mix reads and writes
# the best; 128 bytes a thread in flight for those that walk.
BLOCK_BYTES = {"blocks": 4096, "persistent": 32768}
BLOCK_ITEMS = 8192  # At most: 16-bit items become 32-bit ones, and would take twice the registers.
_S = tl.constexpr(SCALAR)


@triton.jit
def _load(pointer, at, n, WIDE: tl.constexpr, MASKED: tl.constexpr):
    if MASKED:
        return tl.load(pointer + at, mask=at < n, other=0.0).to(WIDE)
    return tl.load(pointer + at).to(WIDE)


@triton.jit
def _combined(x, y, at, n, OP: tl.constexpr, WIDE: tl.constexpr, MASKED: tl.constexpr):
    """The operation's elements at `at`, in arithmetic precision."""
    if OP == "write":
        return tl.zeros(at.shape, WIDE) + _S
    first = _load(x, at, n, WIDE, MASKED)
    if OP == "copy" or OP == "read":
        return first
    if OP == "scale":
        return first * _S
    second = _load(y, at, n, WIDE, MASKED)
    if OP == "add":
        return first + second
    if OP == "dot":
        return first * second
    return first + second * _S


@triton.jit(do_not_specialize=["n"])
def map_kernel(
    x, y, target, n, programs, OP: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """target = OP(x, y). The last block alone is masked: masks would split the wide accesses."""
    item: tl.constexpr = target.dtype.element_ty
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n, programs.to(tl.int64) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        if start + BLOCK <= n:
            tl.store(target + at, _combined(x, y, at, n, OP, WIDE, False).to(item))
        else:
            got = _combined(x, y, at, n, OP, WIDE, True)
            tl.store(target + at, got.to(item), mask=at < n)


@triton.jit(do_not_specialize=["n", "programs", "slots"])
def sum_kernel(
    x, y, out, n, programs, slots, OP: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """out[program] = its part of the sum of OP(x, y); the slots past the programs become zero."""
    program = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=WIDE)
    for start in range(program.to(tl.int64) * BLOCK, n, programs.to(tl.int64) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        if start + BLOCK <= n:
            total += _combined(x, y, at, n, OP, WIDE, False)
        else:
            total += _combined(x, y, at, n, OP, WIDE, True)
    tl.store(out + program, tl.sum(total, axis=0).to(out.dtype.element_ty))
    for slot in range(program + programs, slots, programs):
        tl.store(out + slot, 0.0)


_WIDE = {"fp64": tl.float64, "fp32": tl.float32, "fp16": tl.float32, "bf16": tl.float32}


def why_not(
    variant: str, operation: str, dtype: str, capability: tuple[int, int] | None
) -> str | None:
    """Why the case cannot run, None if it can; capability None is Triton's interpreter."""
    if operation not in ROLES:
        return f"There is no stream operation {operation}."
    if dtype not in _WIDE:
        return f"The stream operations are not defined for {dtype}."
    if capability is not None and capability < (7, 0):
        return "Triton compiles for compute capability 7.0 and later."
    return None


def block_items(item_bytes: int, variant: str = "persistent") -> int:
    return min(BLOCK_BYTES[variant] // item_bytes, BLOCK_ITEMS)


def _prepare(
    variant: str, programs_of: Callable, operation: str, arrays: dict, *, dtype: str
) -> Callable:
    x, y, target = operands(operation, arrays)
    block = block_items(x.element_size(), "persistent" if operation in SUMS else variant)
    programs = programs_of(triton.cdiv(x.numel(), block), x)
    constants = (operation, _WIDE[dtype], block)
    options = {"num_warps": WARPS}
    if operation not in SUMS:
        arguments = (x, y, target, x.numel(), programs, *constants)
        return bound(map_kernel, (programs, 1, 1), arguments, options)
    programs = min(programs, target.numel())
    arguments = (x, y, target, x.numel(), programs, target.numel(), *constants)
    return bound(sum_kernel, (programs, 1, 1), arguments, options)


def _resident(blocks: int, array: torch.Tensor) -> int:
    """As many programs as the chip holds at once, where registers allow all of its threads."""
    if not array.is_cuda:
        return min(blocks, 3)
    chip = torch.cuda.get_device_properties(array.device)
    per_sm = chip.max_threads_per_multi_processor // (32 * WARPS)
    return min(blocks, per_sm * chip.multi_processor_count)


VARIANTS = {
    "blocks": partial(_prepare, "blocks", lambda blocks, array: blocks),
    "persistent": partial(_prepare, "persistent", _resident),
}
