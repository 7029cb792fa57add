"""Matrix products in Numba: C[m,n] = A[m,k] · B, with B stored n×k (`nt`) or k×n (`nn`).

`tiled` is a CUDA kernel on device arrays (also in Numba's simulator): Numba reaches no tensor
cores, so this is what plain arithmetic gives. `parallel` runs on the CPU on NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numba
import numpy as np
from numba import cuda, njit, prange

from . import numpy_aliases  # noqa: F401

# Storage, what a product is summed in, and the square that one of 16×16 threads holds.
_CUDA_TYPES = {
    "fp32": (numba.float32, numba.float32, 8),
    "fp64": (numba.float64, numba.float64, 4),
    "fp16": (numba.types.float16, numba.float32, 8),
    "int8": (numba.int8, numba.int32, 8),
}
_OUTPUTS = {"fp16": numba.types.float16}
DEPTH = 8  # Steps along k between two barriers.


def cuda_kernel(dtype: str, layout: str, per: int) -> Callable:
    """The kernel to be compiled: 256 threads hold a square of 16·per of C, both halves in turn."""
    _, number, _ = _CUDA_TYPES[dtype]
    output = _OUTPUTS.get(dtype, number)
    b_is_nk = layout == "nt"
    block = 16 * per
    shape = (2 * DEPTH, per, 17)
    loads = block * DEPTH // 256
    across = block.bit_length() - 1  # Shifts and masks: Python's // and % mind the sign.

    def kernel(a, b, c):
        # Rows of 17: turned stores meet each bank twice at most, and offsets of i are constants.
        a_tile = cuda.shared.array(shape, number)
        b_tile = cuda.shared.array(shape, number)
        acc = cuda.local.array((per, per), number)
        next_a = cuda.local.array(loads, number)
        next_b = cuda.local.array(loads, number)
        m, k = a.shape
        n = c.shape[1]
        first_m = cuda.blockIdx.y * block
        first_n = cuda.blockIdx.x * block
        thread = cuda.threadIdx.x
        tm = (thread >> 4) & 15
        tn = thread & 15
        for i in range(per):
            for j in range(per):
                acc[i, j] = 0
        steps = (k + DEPTH - 1) // DEPTH
        for step in range(-1, steps):
            more = step + 1 < steps
            if more:
                at = (step + 1) * DEPTH
                for i in range(loads):
                    item = thread + 256 * i
                    row, column = first_m + (item >> 3), at + (item & 7)
                    next_a[i] = number(a[row, column]) if row < m and column < k else number(0)
                    if b_is_nk:
                        row = first_n + (item >> 3)
                        inside = row < n and column < k
                    else:
                        row, column = at + (item >> across), first_n + (item & (block - 1))
                        inside = row < k and column < n
                    next_b[i] = number(b[row, column]) if inside else number(0)
            if step >= 0:
                for s in range((step & 1) * DEPTH, (step & 1) * DEPTH + DEPTH):
                    for i in range(per):
                        left = a_tile[s, i, tm]
                        for j in range(per):
                            acc[i, j] += left * b_tile[s, j, tn]
            if more:
                half = (~step & 1) * DEPTH
                for i in range(loads):
                    item = thread + 256 * i
                    a_tile[half + (item & 7), item >> 7, (item >> 3) & 15] = next_a[i]
                    if b_is_nk:
                        b_tile[half + (item & 7), item >> 7, (item >> 3) & 15] = next_b[i]
                    else:
                        across_n = item & (block - 1)
                        b_tile[half + (item >> across), across_n >> 4, across_n & 15] = next_b[i]
            cuda.syncthreads()
        for i in range(per):
            for j in range(per):
                row, column = first_m + tm + 16 * i, first_n + tn + 16 * j
                if row < m and column < n:
                    c[row, column] = output(acc[i, j])

    return kernel


def cuda_signature(dtype: str):
    """Types of a, b and c: rows without padding, which spares the kernel a multiplication."""
    storage, number, _ = _CUDA_TYPES[dtype]
    output = _OUTPUTS.get(dtype, number)
    return (storage[:, ::1], storage[:, ::1], output[:, ::1])


def _prepare_tiled(a, b, c, *, dtype: str, layout: str) -> Callable[[], None]:
    simulated = numba.config.ENABLE_CUDASIM
    per = 2 if simulated else _CUDA_TYPES[dtype][2]  # Simulated threads are Python threads.
    kernel = cuda_kernel(dtype, layout, per)
    if simulated:
        compiled = cuda.jit(kernel)
    else:  # 128 registers let two blocks share an SM.
        compiled = cuda.jit(cuda_signature(dtype), max_registers=128)(kernel)
    (m, n), block = c.shape, 16 * per
    configured = compiled[(-(-n // block), -(-m // block)), 256]

    def call() -> None:
        configured(a, b, c)

    return call


# A task computes ROWS×COLUMNS of C in steps of K_STEP. Its panel of B, 256 KB of fp32, sits in L2.
# 512 products of int8 cannot leave the integers that fp32 holds, so K_STEP may not pass 512.
ROWS, COLUMNS, K_STEP = 128, 256, 256
_CPU_TYPES = {  # Type of the arithmetic, of the sum over all steps, and how storage is decoded.
    "fp32": (np.float32, np.float32, False),
    "fp64": (np.float64, np.float64, False),
    "fp16": (np.float32, np.float32, True),
    "int8": (np.float32, np.int32, False),
}
# Fused multiply-adds change no sum's order; `reassoc` would.
_FAST = {"contract", "nsz"}


@njit(fastmath=_FAST, nogil=True)
def _multiply(strip, panel, part, depth):
    """part[4,COLUMNS] = strip[4,depth] · panel; 16 numbers of the strip stay in registers."""
    p0, p1, p2, p3 = part[0], part[1], part[2], part[3]
    part[:] = 0
    for s in range(0, depth, 4):
        a00, a01, a02, a03 = strip[0, s], strip[0, s + 1], strip[0, s + 2], strip[0, s + 3]
        a10, a11, a12, a13 = strip[1, s], strip[1, s + 1], strip[1, s + 2], strip[1, s + 3]
        a20, a21, a22, a23 = strip[2, s], strip[2, s + 1], strip[2, s + 2], strip[2, s + 3]
        a30, a31, a32, a33 = strip[3, s], strip[3, s + 1], strip[3, s + 2], strip[3, s + 3]
        b0, b1, b2, b3 = panel[s], panel[s + 1], panel[s + 2], panel[s + 3]
        for j in range(COLUMNS):
            x0, x1, x2, x3 = b0[j], b1[j], b2[j], b3[j]
            p0[j] = p0[j] + a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
            p1[j] = p1[j] + a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
            p2[j] = p2[j] + a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
            p3[j] = p3[j] + a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3


@njit
def _as_is(x, table):
    return x


@njit
def _looked_up(x, table):
    return table[x]


@cache
def _cpu_kernel(number, total_type, lookup: bool, b_is_nk: bool) -> Callable:
    """The blocked product; `table` maps raw bits of fp16 to numbers, unused otherwise."""
    decode = _looked_up if lookup else _as_is

    @njit(nogil=True)
    def pack(b, panel, k0, n0, depth, width, table):
        if b_is_nk:
            last = b.shape[0] - 1
            for j in range(0, width, 4):  # Four rows at once: more would fight for sets of L1.
                r0, r1 = b[min(n0 + j, last)], b[min(n0 + j + 1, last)]
                r2, r3 = b[min(n0 + j + 2, last)], b[min(n0 + j + 3, last)]
                for s in range(depth):
                    to = panel[s]
                    to[j], to[j + 1] = decode(r0[k0 + s], table), decode(r1[k0 + s], table)
                    to[j + 2], to[j + 3] = decode(r2[k0 + s], table), decode(r3[k0 + s], table)
        else:
            for s in range(depth):
                row, to = b[k0 + s], panel[s]
                for j in range(width):
                    to[j] = decode(row[n0 + j], table)
        panel[depth : depth + 3] = 0  # The inner loop takes four steps at a time.

    @njit(nogil=True)
    def load_strip(a, strip, first, k0, depth, table):
        strip[:] = 0
        for i in range(min(4, a.shape[0] - first)):
            row, to = a[first + i], strip[i]
            for s in range(depth):
                to[s] = decode(row[k0 + s], table)

    @njit(parallel=True, fastmath=_FAST)
    def blocked(a, b, c, table):
        m, k = a.shape
        n = c.shape[1]
        across = (n + COLUMNS - 1) // COLUMNS
        for task in prange((m + ROWS - 1) // ROWS * across):
            m0, n0 = task // across * ROWS, task % across * COLUMNS
            height, width = min(ROWS, m - m0), min(COLUMNS, n - n0)
            panel = np.zeros((K_STEP + 3, COLUMNS), number)
            strip = np.empty((4, K_STEP + 3), number)
            part = np.empty((4, COLUMNS), number)
            total = np.zeros((ROWS, COLUMNS), total_type)
            for k0 in range(0, k, K_STEP):
                depth = min(K_STEP, k - k0)
                pack(b, panel, k0, n0, depth, width, table)
                for i in range(0, height, 4):
                    load_strip(a, strip, m0 + i, k0, depth, table)
                    _multiply(strip, panel, part, depth)
                    for line in range(4):
                        to, add = total[i + line], part[line]
                        for j in range(COLUMNS):
                            to[j] += total_type(add[j])
            for i in range(height):
                c[m0 + i, n0 : n0 + width] = total[i, :width]

    return blocked


def _prepare_parallel(a, b, c, *, dtype: str, layout: str) -> Callable[[], None]:
    number, total_type, lookup = _CPU_TYPES[dtype]
    blocked = _cpu_kernel(number, total_type, lookup, layout == "nt")
    table = np.zeros(1, number)
    result = c
    if lookup:  # Numba has no fp16 on the CPU: bits in, a table of all 65536 values, fp32 out.
        table = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
        a, b, result = a.view(np.uint16), b.view(np.uint16), np.empty(c.shape, np.float32)

    def call() -> None:
        blocked(a, b, result, table)
        if lookup:
            np.copyto(c, result, casting="same_kind")

    call()  # Compiles.
    return call


VARIANTS = {"tiled": _prepare_tiled, "parallel": _prepare_parallel}
BATCHED = ()
_TYPES = {"tiled": _CUDA_TYPES, "parallel": _CPU_TYPES}


def why_not(
    variant: str, dtype: str, layout: str, capability: tuple[int, int] | None
) -> str | None:
    """Why the case cannot run, None if it can; capability None is the CPU or the simulator."""
    if dtype not in _TYPES[variant]:
        return f"Numba has no {dtype}." if dtype != "tf32" else "Numba reaches no tensor cores."
    if variant == "parallel" and capability is not None:
        return "This kernel runs on the CPU."
    if variant == "tiled" and capability is None and not numba.config.ENABLE_CUDASIM:
        return "This kernel needs a GPU, or Numba's simulator (NUMBA_ENABLE_CUDASIM=1)."
    return None
