"""GEMM kernels of every generation that take plain pointers: a choice among rows, and a launch.

Hopper's own kernels (tensor maps, wgmma) live elsewhere; these serve all other chips, and Hopper
where rows are not aligned or an older path is asked for. A kernel computes C[m,n] = A[m,k] B with
`extern "C" kernel(A, B, C, int m, int n, int k)`, one block per tile of C, blocks in one row.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable

from pymicro.backends.cuda import gemm_cut
from pymicro.backends.cuda.gemm_kernel import Capability, GemmKernel
from pymicro.backends.cuda.gemm_portable_rows import ROWS
from pymicro.backends.cuda.tensor_maps import tensor_map
from pymicro.driver import Argument, Kernel
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError

__all__ = ["ROWS", "bind", "blocks", "choose", "refusal"]

LONGEST_ROW = 2**24 - 1  # elements; kernels other than simt keep offsets within a tile in 32 bits
LARGEST_SIZE = 2**31 - 512  # m, n, k are int, and loops may step past the end by a tile
FED_BY_TMA = ("sm100", "sm120")
MOST_PRODUCTS = 65535  # blocks of a launch along its second dimension
ENOUGH_BLOCKS = 96  # a larger tile than 64x64 pays from about this many blocks on
SMALL_PRODUCT = 256  # rows or columns
PATHS = (
    "sm120",
    "sm100",
    "sm90",
    "sm89",
    "sm80",
    "sm75",
    "sm70",
    "sm61",
    "simt",
)  # tried in this order


def choose(
    m: int,
    n: int,
    k: int,
    dtype: str,
    layout: str,
    capability: Capability,
    path: str | None = None,
    batch: int = 1,
    sm_count: int = 132,
) -> GemmKernel:
    """The row for a problem: the largest tile that still gives the chip enough blocks, of those
    the widest copies that the rows' alignment allows, of those the newest path.

    Unless its path is asked for, a row that is not to be trusted yet gives way to one that is.

    Raises:
        UsageError: no row serves this; the message says which rows of the table were looked at.
    """
    able = [
        row
        for row in ROWS
        if row.dtype == dtype
        and layout in row.layouts
        and row.runs_on(capability)
        and path in (None, row.path)
        and row.batched == (batch > 1)
        and refusal(row, m, n, k, layout, batch) is None
    ]
    if not able:
        where = f"path {path}" if path else "any path"
        several = f" batch={batch}" if batch > 1 else ""
        raise UsageError(
            f"no portable GEMM kernel of {where} multiplies {dtype} in layout {layout} at "
            f"m={m} n={n} k={k}{several} on compute capability {capability[0]}.{capability[1]}."
        )

    if path is None:
        able = [row for row in able if made_for(row) <= capability] or able
        able = [row for row in able if row.is_trusted] or able
    thin = [row for row in able if is_skinny(row) and m <= row.tile[0]]
    if thin:
        return min(thin, key=lambda row: (row.tile[0], PATHS.index(row.path)))
    able = [row for row in able if not is_skinny(row)] or able
    cut = [row for row in able if row.cut_k and gemm_cut.fills(row, m, n, k, sm_count)]
    if cut:
        return cut[0]
    able = [row for row in able if not row.cut_k] or able

    def preference(row: GemmKernel) -> tuple[bool, bool, int, int, int, int]:
        area = row.tile[0] * row.tile[1]
        # Of many small products the smaller tile was the faster one, in fp32 and in fp16.
        enough = blocks(row, m, n) * (batch if max(m, n) > SMALL_PRODUCT else 1) >= ENOUGH_BLOCKS
        return (
            enough,
            row.path in FED_BY_TMA,  # before a larger tile that all warps copy for themselves
            area if enough else -area,
            row.alignment,
            -PATHS.index(row.path),
            row.shared_bytes,
        )

    return max(able, key=preference)


def made_for(row: GemmKernel) -> Capability:
    """The chip that a row was written for; older ones may run it, but have paths of their own."""
    number = row.path.removeprefix("sm")
    return (int(number[:-1]), int(number[-1])) if number.isdecimal() else (0, 0)


def is_skinny(row: GemmKernel) -> bool:
    """Whether a row is made for no more rows of A than its tile has."""
    return row.variant == "skinny"


def blocks(row: GemmKernel, m: int, n: int) -> int:
    """Blocks launched: a cluster, or a block by itself, for each tile of C."""
    return -(-m // row.tile[0]) * -(-n // row.tile[1]) * row.cluster[0]


def refusal(row: GemmKernel, m: int, n: int, k: int, layout: str, batch: int = 1) -> str | None:
    """Why a row cannot multiply this, in a sentence; None if it can."""
    if layout not in row.layouts:
        return f"{row.name} reads B in layout {'/'.join(row.layouts)}, not {layout}."
    if batch > MOST_PRODUCTS:
        return f"{batch} products at once are more than the {MOST_PRODUCTS} of one launch."
    if max(m, n, k) > LARGEST_SIZE:
        return f"a side of {max(m, n, k)} is past the {LARGEST_SIZE} that 32-bit loops allow."
    if row.path != "simt" and max(n, k) > LONGEST_ROW:
        return f"a row of {max(n, k)} elements is past the {LONGEST_ROW} of {row.name}."
    itemsize = DTYPES[row.dtype].itemsize_bytes
    longest = (k, k if layout == "nt" else n)
    if any(elements * itemsize % row.alignment for elements in longest):
        return f"{row.name} needs rows of A and B that are multiples of {row.alignment} bytes."
    return None


def bind(
    row: GemmKernel,
    loaded: Kernel,
    a_ptr: int,
    b_ptr: int,
    c_ptr: int,
    m: int,
    n: int,
    k: int,
    layout: str,
    stream: int,
    batch: int = 1,
    sm_count: int = 132,
) -> Callable[[], None]:
    """A call that multiplies these operands on `stream`; pointers are device addresses.

    Raises:
        UsageError: the row does not read this layout, alignment or size.
    """
    reason = refusal(row, m, n, k, layout, batch)
    if reason is None and (a_ptr % row.alignment or b_ptr % row.alignment or c_ptr % 16):
        reason = (
            f"{row.name} needs A and B to start at a multiple of {row.alignment} bytes, C at one "
            "of 16."
        )
    if reason is not None:
        raise UsageError(reason)
    if m == 0 or n == 0:
        return lambda: None
    sizes: list[Argument] = [ctypes.c_int(size) for size in (m, n, k)]
    operands: list[Argument] = [ctypes.c_uint64(pointer) for pointer in (a_ptr, b_ptr, c_ptr)]
    if row.abi == "tma":
        operands[:2] = _tensor_maps(row, a_ptr, b_ptr, m, n, k, layout)
    space = None
    if row.cut_k:
        batch, space, own = gemm_cut.space(row, m, n, k, sm_count)
        sizes += own
    call = loaded.bind(
        (blocks(row, m, n), batch, 1),
        (row.threads, 1, 1),
        [*operands, *sizes],
        stream,
        row.shared_bytes,
        row.cluster,
        row.overlap,
    )
    if space is not None:
        weakref.finalize(call, space.free)
    return call


def _tensor_maps(
    row: GemmKernel, a_ptr: int, b_ptr: int, m: int, n: int, k: int, layout: str
) -> tuple[Argument, Argument]:
    """Maps of A and B with the boxes that the row's source asks for."""
    if row.dtype != "fp64":
        boxes = [(side, row.tile[2]) for side in row.tile[:2]]
        return (
            tensor_map(row.dtype, a_ptr, m, k, boxes[0]),
            tensor_map(row.dtype, b_ptr, n, k, boxes[1]),
        )
    # Boxes of 128 rows of A, and of half the columns of a tile (or its k) of B.
    b_rows, b_columns, b_box = (n, k, 64) if layout == "nt" else (k, n, 16)
    return (
        tensor_map(row.dtype, a_ptr, m, k, (128, 16), promotion_bytes=256),
        tensor_map(row.dtype, b_ptr, b_rows, b_columns, (b_box, 16), 256),
    )
