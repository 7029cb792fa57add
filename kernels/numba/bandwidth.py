"""Memory streams in Numba; `kernels/stream.py` says what each operation computes.

`unrolled` is a CUDA kernel on device arrays (also in Numba's simulator), `parallel` runs on the
CPU's threads on NumPy arrays. Neither reaches non-temporal stores, so on a CPU each written line
is read first, unless the chip sees that it is overwritten whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numba
import numpy as np
from numba import cuda, njit, prange

from ..stream import ROLES, SCALAR, SUMS, operands
from . import numpy_aliases  # noqa: F401

THREADS = 256
UNROLL = 8  # Loads of each array that a thread has in flight; Numba makes them 4 or 8 bytes wide.
_STORAGE = {"fp64": numba.float64, "fp32": numba.float32, "fp16": numba.types.float16}


def combination(operation: str, number: Callable) -> Callable:
    """What the operation does with one item of each input, as a function to be compiled."""
    s = number(SCALAR)
    return {
        "write": lambda x, y: s,
        "copy": lambda x, y: x,
        "scale": lambda x, y: s * x,
        "add": lambda x, y: x + y,
        "triad": lambda x, y: x + s * y,
        "read": lambda x, y: x,
        "dot": lambda x, y: x * y,
    }[operation]


def cuda_kernel(operation: str, dtype: str) -> Callable:
    """The CUDA kernel to be compiled; inputs that the operation ignores cost no load."""
    item = _STORAGE[dtype]
    number = numba.float64 if dtype == "fp64" else numba.float32
    combine = cuda.jit(device=True, inline="always")(combination(operation, _constant(dtype)))
    tile = THREADS * UNROLL

    def map_stream(x, y, target, n):
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        if first - cuda.threadIdx.x + tile <= n:
            got = cuda.local.array(UNROLL, item)
            for u in range(UNROLL):
                i = first + u * THREADS
                got[u] = item(combine(number(x[i]), number(y[i])))
            for u in range(UNROLL):
                target[first + u * THREADS] = got[u]
        else:
            for i in range(first, n, THREADS):
                target[i] = item(combine(number(x[i]), number(y[i])))

    def sum_stream(x, y, out, n):
        total = cuda.local.array(UNROLL, number)
        for u in range(UNROLL):
            total[u] = 0
        thread = cuda.threadIdx.x
        for start in range(cuda.blockIdx.x * tile, n, cuda.gridDim.x * tile):
            if start + tile <= n:
                for u in range(UNROLL):
                    i = start + thread + u * THREADS
                    total[u] += combine(number(x[i]), number(y[i]))
            else:
                for i in range(start + thread, n, THREADS):
                    total[0] += combine(number(x[i]), number(y[i]))
        for u in range(1, UNROLL):
            total[0] += total[u]
        shared = cuda.shared.array(THREADS, number)
        shared[thread] = total[0]
        cuda.syncthreads()
        half = THREADS // 2
        while half > 0:
            if thread < half:
                shared[thread] += shared[thread + half]
            cuda.syncthreads()
            half //= 2
        if thread == 0:
            out[cuda.blockIdx.x] = shared[0]
            for slot in range(cuda.blockIdx.x + cuda.gridDim.x, out.size, cuda.gridDim.x):
                out[slot] = 0

    return sum_stream if operation in SUMS else map_stream


def _constant(dtype: str) -> Callable:
    return np.float64 if dtype == "fp64" else np.float32


def cuda_signature(operation: str, dtype: str, out_item=numba.float64):
    item = _STORAGE[dtype]
    return (item[::1], item[::1], (out_item if operation in SUMS else item)[::1], numba.int64)


def _prepare_unrolled(operation: str, arrays: dict, *, dtype: str) -> Callable[[], None]:
    x, y, target = operands(operation, arrays)
    blocks = max(1, -(-x.size // (THREADS * UNROLL)))
    if operation in SUMS:
        blocks = min(blocks, _resident_blocks(), target.size)
    kernel = cuda_kernel(operation, dtype)
    if numba.config.ENABLE_CUDASIM:
        compiled = cuda.jit(kernel)
    else:
        out_item = numba.from_dtype(target.dtype)
        compiled = cuda.jit(cuda_signature(operation, dtype, out_item))(kernel)
    configured, n = compiled[blocks, THREADS], x.size

    def call() -> None:
        configured(x, y, target, n)

    return call


def _resident_blocks() -> int:
    if numba.config.ENABLE_CUDASIM:
        return 2
    chip = cuda.get_current_device()
    return chip.MULTIPROCESSOR_COUNT * (chip.MAX_THREADS_PER_MULTIPROCESSOR // THREADS)


# The order of a sum is nobody's promise here, and vector units need another one.
_FAST = {"contract", "nsz", "reassoc"}
_CHUNK = 4096  # Items summed in their own format before fp64 takes over.


@cache
def _cpu_kernel(operation: str, dtype: str) -> Callable:
    combine = njit(inline="always")(combination(operation, _constant(dtype)))
    zero = _constant(dtype)(0)

    @njit(fastmath=_FAST, nogil=True)
    def chunk_sum(x, y):
        total = zero
        for i in range(x.size):
            total += combine(x[i], y[i])
        return total

    @njit(parallel=True, fastmath=_FAST)
    def map_stream(x, y, target):
        for i in prange(target.size):
            target[i] = combine(x[i], y[i])

    @njit(parallel=True, fastmath=_FAST)
    def sum_stream(x, y, out):
        per_slot = (x.size + out.size - 1) // out.size
        for slot in prange(out.size):
            total = 0.0
            last = min(x.size, (slot + 1) * per_slot)
            for first in range(slot * per_slot, last, _CHUNK):
                end = min(last, first + _CHUNK)
                total += np.float64(chunk_sum(x[first:end], y[first:end]))
            out[slot] = total

    return sum_stream if operation in SUMS else map_stream


def _prepare_parallel(operation: str, arrays: dict, *, dtype: str) -> Callable[[], None]:
    """The sums run on as many threads as `out` has slots, so give it several for each thread."""
    x, y, target = operands(operation, arrays)
    kernel = _cpu_kernel(operation, dtype)

    def call() -> None:
        kernel(x, y, target)

    call()  # Compiles.
    return call


VARIANTS = {"unrolled": _prepare_unrolled, "parallel": _prepare_parallel}


def why_not(
    variant: str, operation: str, dtype: str, capability: tuple[int, int] | None
) -> str | None:
    """Why the case cannot run, None if it can; capability None is the CPU or the simulator."""
    if operation not in ROLES:
        return f"There is no stream operation {operation}."
    if dtype not in _STORAGE or (dtype == "fp16" and variant == "parallel"):
        return f"Numba's {variant} streams have no {dtype}."
    if variant == "parallel" and capability is not None:
        return "This kernel runs on the CPU."
    if variant == "unrolled" and capability is None and not numba.config.ENABLE_CUDASIM:
        return "This kernel needs a GPU, or Numba's simulator (NUMBA_ENABLE_CUDASIM=1)."
    return None
