"""Nearly empty kernels in Triton: out = the sum of what the inputs point to and the numbers.

`jit` is how users launch: Triton looks at the type, alignment and value of each argument. `bound`
launches the compiled kernel past that look.
"""

from __future__ import annotations

from collections.abc import Callable

import triton
import triton.language as tl

GRID = (1, 1, 1)


@triton.jit
def args0():
    pass


@triton.jit
def args3(out, i0, n0):
    tl.store(out, tl.load(i0) + n0)


@triton.jit
def args16(out, i0, i1, i2, i3, i4, n0, n1, n2, n3, n4, n5, n6, n7, n8, n9):
    inputs = tl.load(i0) + tl.load(i1) + tl.load(i2) + tl.load(i3) + tl.load(i4)
    tl.store(out, inputs + n0 + n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9)


KERNELS = {"args0": args0, "args3": args3, "args16": args16}


def _prepare_jit(call: str, given: tuple) -> tuple[Callable, tuple]:
    kernel = KERNELS[call]

    def launch(*arguments):
        kernel[GRID](*arguments, num_warps=1)

    launch(*given)  # Compiles and loads.
    return launch, given


def _prepare_bound(call: str, given: tuple) -> tuple[Callable, tuple]:
    compiled = KERNELS[call][GRID](*given, num_warps=1)
    if compiled is None:  # The interpreter has nothing to launch.
        return KERNELS[call][GRID], given
    return compiled[GRID], given


VARIANTS = {"jit": _prepare_jit, "bound": _prepare_bound}
