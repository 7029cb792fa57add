"""GEMM kernels of every generation that take plain pointers: their rows, a choice, a launch.

Hopper's own kernels (tensor maps, wgmma) live elsewhere; these serve all other chips, and Hopper
where rows are not aligned or an older path is asked for. A kernel computes C[m,n] = A[m,k] B with
`extern "C" kernel(A, B, C, int m, int n, int k)`, one block per tile of C, blocks in one row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

from pymicro.backends.cuda.gemm_kernel import Capability, GemmKernel
from pymicro.driver import Kernel
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError

LAYOUTS = ("nt", "nn")
LONGEST_ROW = 2**24 - 1  # elements; kernels other than simt keep offsets within a tile in 32 bits
LARGEST_SIZE = 2**31 - 512  # m, n, k are int, and loops may step past the end by a tile
ENOUGH_BLOCKS = 96  # a larger tile than 64x64 pays from about this many blocks on


def _simt() -> Iterator[GemmKernel]:
    for dtype in ("fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "int8"):
        for layout in LAYOUTS:
            yield GemmKernel(
                path="simt",
                dtype=dtype,
                source="gemm/simt.cu",
                entry="gemm_simt",
                tile=(64, 64, 16),
                threads=256,
                first=(6, 1),
                variant="" if layout == "nt" else "nn",
                defines=(("DTYPE", dtype), ("LAYOUT_NN", int(layout == "nn"))),
                layouts=(layout,),
                alignment=DTYPES[dtype].itemsize_bytes,
            )


def _tensor_core(
    path: str,
    dtype: str,
    layout: str,
    tile: tuple[int, int, int],
    warps: tuple[int, int],
    first: Capability,
    *,
    stages: int,
    alignment: int,
) -> GemmKernel:
    """A row of `gemm/sm80.cu`, or of `gemm/sm75.cu` where `stages` is 0.

    tile: rows, columns, and bytes of k in a stage.
    """
    itemsize = DTYPES[dtype].itemsize_bytes
    rows, columns, row_bytes = tile
    depth = row_bytes // itemsize
    # tf32 read as k rows of n lies in rows longer by 32 bytes; all else is of the tile's size.
    padding = depth * 32 if stages and layout == "nn" and dtype == "tf32" else 0
    shared_bytes = (stages or 2) * ((rows + columns) * row_bytes + padding)
    own: tuple[tuple[str, int], ...] = (
        (("STAGES", stages), ("COPY_BYTES", alignment))
        if stages
        else (("ALIGNED", int(alignment == 16)), ("MMA_SM75", int(path == "sm75")))
    )
    any_rows = "" if alignment == 16 else "any" if alignment == itemsize else f"rows{alignment}"
    return GemmKernel(
        path=path,
        dtype=dtype,
        source="gemm/sm80.cu" if stages else "gemm/sm75.cu",
        entry="gemm_sm80" if stages else "gemm_sm75",
        tile=(rows, columns, depth),
        threads=32 * warps[0] * warps[1],
        first=first,
        variant="-".join(filter(None, ("" if layout == "nt" else "nn", any_rows))),
        defines=(
            ("DTYPE", dtype),
            ("LAYOUT_NN", int(layout == "nn")),
            ("TILE_M", rows),
            ("TILE_N", columns),
            ("ROW_BYTES", row_bytes),
            ("WARPS_M", warps[0]),
            ("WARPS_N", warps[1]),
            *own,
            ("SHARED_BYTES", shared_bytes),
        ),
        shared_bytes=shared_bytes,
        layouts=(layout,),
        alignment=alignment,
    )


def _sm75() -> Iterator[GemmKernel]:
    for dtype in ("fp16", "int8"):
        for layout in LAYOUTS:
            for alignment in (16, DTYPES[dtype].itemsize_bytes):
                for tile, warps in (((128, 128, 64), (2, 4)), ((64, 64, 64), (2, 2))):
                    yield _tensor_core(
                        "sm75", dtype, layout, tile, warps, (7, 5), stages=0, alignment=alignment
                    )


# Rows, columns and bytes of k of a tile; warps over rows and columns; stages. The first two fit
# the 99 KiB of a block on sm_86, sm_89 and sm_120.
_SM80_TILES = (
    ((128, 128, 64), (2, 2), 4),
    ((64, 64, 128), (2, 2), 4),
    ((128, 256, 64), (2, 4), 4),
)


def _sm80() -> Iterator[GemmKernel]:
    for dtype in ("fp16", "bf16", "tf32", "int8", "fp8_e4m3"):
        path, first = ("sm89", (8, 9)) if dtype == "fp8_e4m3" else ("sm80", (8, 0))
        itemsize = DTYPES[dtype].itemsize_bytes
        for layout in LAYOUTS:
            copied = layout == "nt" or itemsize > 1
            for tile, warps, stages in _SM80_TILES if copied else ():
                yield _tensor_core(
                    path, dtype, layout, tile, warps, first, stages=stages, alignment=16
                )
            if copied:
                yield _tensor_core(
                    path, dtype, layout, (128, 128, 64), (2, 2), first, stages=4, alignment=4
                )
            if itemsize < 4:
                for alignment in (itemsize,) if copied else (16, itemsize):
                    yield _tensor_core(
                        path, dtype, layout, (128, 128, 64), (2, 4), first,
                        stages=0, alignment=alignment,
                    )  # fmt: skip


def _sgemm(layout: str, stages: int, part_k: int) -> GemmKernel:
    """fp32 without tensor cores, fed by `cp.async`."""
    shared_bytes = stages * 32 * 388 * 4
    return GemmKernel(
        path="sm80",
        dtype="fp32",
        source="gemm/sgemm.cu",
        entry="gemm_sgemm",
        tile=(128, 256, 32),
        threads=256,
        first=(8, 0),
        variant="" if layout == "nt" else "nn",
        defines=(
            ("LAYOUT_NN", int(layout == "nn")),
            ("STAGES", stages),
            ("PART_K", part_k),
            ("SHARED_BYTES", shared_bytes),
        ),
        shared_bytes=shared_bytes,
        layouts=(layout,),
        alignment=4 if layout == "nt" else 16,
    )


def _dgemm(
    layout: str, alignment: int, product_k: int, stages: int, last: Capability | None
) -> GemmKernel:
    """fp64 on tensor cores; `product_k` 4 takes the instructions of sm_80."""
    panel_b = 16 * (128 * 8 + 16) if layout == "nn" else 128 * 128
    shared_bytes = stages * (128 * 128 + panel_b)
    hopper = product_k > 4
    few = "3stages" if stages == 3 else ""
    any_rows = "any" if alignment == 8 else ""
    return GemmKernel(
        path="sm90" if hopper else "sm80",
        dtype="fp64",
        source="gemm/dgemm.cu",
        entry="gemm_dgemm",
        tile=(128, 128, 16),
        threads=256,
        first=(9, 0) if hopper else (8, 0),
        last=last,
        variant="-".join(filter(None, ("" if layout == "nt" else "nn", few, any_rows))),
        defines=(
            ("LAYOUT_NN", int(layout == "nn")),
            ("STAGES", stages),
            ("PRODUCT_K", product_k),
            ("COPY_BYTES", alignment),
            ("SHARED_BYTES", shared_bytes),
        ),
        shared_bytes=shared_bytes,
        layouts=(layout,),
        alignment=alignment,
    )


def _dense_fp() -> Iterator[GemmKernel]:
    for layout in LAYOUTS:
        yield _sgemm(layout, stages=2, part_k=16)
        for alignment in (16, 8):
            yield _dgemm(layout, alignment, product_k=8, stages=6, last=(9, 0))
            yield _dgemm(layout, alignment, product_k=4, stages=5, last=(8, 0))
            yield _dgemm(layout, alignment, product_k=4, stages=3, last=None)


ROWS: tuple[GemmKernel, ...] = (*_simt(), *_sm75(), *_sm80(), *_dense_fp())
PATHS = ("sm90", "sm89", "sm80", "sm75", "simt")  # tried in this order


def choose(
    m: int,
    n: int,
    k: int,
    dtype: str,
    layout: str,
    capability: Capability,
    path: str | None = None,
) -> GemmKernel:
    """The row for a problem: the newest path the chip runs, then what its rows' alignment allows,
    then the largest tile that still gives the chip enough blocks.

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
        and refusal(row, m, n, k, layout) is None
    ]
    if not able:
        where = f"path {path}" if path else "any path"
        raise UsageError(
            f"no portable GEMM kernel of {where} multiplies {dtype} in layout {layout} at "
            f"m={m} n={n} k={k} on compute capability {capability[0]}.{capability[1]}."
        )

    def preference(row: GemmKernel) -> tuple[int, int, bool, int, int]:
        area = row.tile[0] * row.tile[1]
        enough = blocks(row, m, n) >= ENOUGH_BLOCKS
        return (
            -PATHS.index(row.path),
            row.alignment,
            enough,
            area if enough else -area,
            row.shared_bytes,
        )

    return max(able, key=preference)


def blocks(row: GemmKernel, m: int, n: int) -> int:
    """Tiles of C, which is the number of blocks launched."""
    return -(-m // row.tile[0]) * -(-n // row.tile[1])


def refusal(row: GemmKernel, m: int, n: int, k: int, layout: str) -> str | None:
    """Why a row cannot multiply this, in a sentence; None if it can."""
    if layout not in row.layouts:
        return f"{row.name} reads B in layout {'/'.join(row.layouts)}, not {layout}."
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
) -> Callable[[], None]:
    """A call that multiplies these operands on `stream`; pointers are device addresses.

    Raises:
        UsageError: the row does not read this layout, alignment or size.
    """
    reason = refusal(row, m, n, k, layout)
    if reason is None and (a_ptr % row.alignment or b_ptr % row.alignment or c_ptr % 16):
        reason = (
            f"{row.name} needs A and B to start at a multiple of {row.alignment} bytes, C at one "
            "of 16."
        )
    if reason is not None:
        raise UsageError(reason)
    if m == 0 or n == 0:
        return lambda: None
    pointers = [ctypes.c_uint64(pointer) for pointer in (a_ptr, b_ptr, c_ptr)]
    sizes = [ctypes.c_int(size) for size in (m, n, k)]
    return loaded.bind(
        (blocks(row, m, n), 1, 1),
        (row.threads, 1, 1),
        [*pointers, *sizes],
        stream,
        row.shared_bytes,
    )
