"""Nearly empty functions in Numba: out[0] = the sum of the inputs' first items and the numbers.

`jit` is a CUDA kernel with a declared signature, `njit` a function on the CPU called from Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numba
from numba import cuda, njit

from . import numpy_aliases  # noqa: F401

_ARRAY, _NUMBER = numba.int32[::1], numba.int32


def args0():
    pass


def args3(out, i0, n0):
    out[0] = i0[0] + n0


def args16(out, i0, i1, i2, i3, i4, n0, n1, n2, n3, n4, n5, n6, n7, n8, n9):
    inputs = i0[0] + i1[0] + i2[0] + i3[0] + i4[0]
    out[0] = inputs + n0 + n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9


FUNCTIONS = {"args0": args0, "args3": args3, "args16": args16}


def signature(given: tuple) -> tuple:
    """The types of the arguments: whatever is no number is an array."""
    return tuple(_NUMBER if isinstance(x, int) else _ARRAY for x in given)


def _prepare_jit(call: str, given: tuple) -> tuple[Callable, tuple]:
    if numba.config.ENABLE_CUDASIM:
        kernel = cuda.jit(FUNCTIONS[call])
    else:
        kernel = cuda.jit(signature(given))(FUNCTIONS[call])
    configured = kernel[1, 1]
    configured(*given)  # Loads.
    return configured, given


@cache
def _compiled(call: str) -> Callable:
    return njit(FUNCTIONS[call])


def _prepare_njit(call: str, given: tuple) -> tuple[Callable, tuple]:
    function = _compiled(call)
    function(*given)  # Compiles for these types.
    return function, given


VARIANTS = {"jit": _prepare_jit, "njit": _prepare_njit}
