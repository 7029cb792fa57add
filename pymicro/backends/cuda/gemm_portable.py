"""GEMM kernels of every generation that take plain pointers: their rows, a choice, a launch.

Hopper's own kernels (tensor maps, wgmma) live elsewhere; these serve all other chips, and Hopper
where rows are not aligned or an older path is asked for. A kernel computes C[m,n] = A[m,k] B with
`extern "C" kernel(A, B, C, int m, int n, int k)`, one block per tile of C, blocks in one row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace

from pymicro.backends.cuda.gemm_kernel import Capability, GemmKernel
from pymicro.driver import Argument, Kernel, TensorMap, check, cuda
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError

LAYOUTS = ("nt", "nn")
LONGEST_ROW = 2**24 - 1  # elements; kernels other than simt keep offsets within a tile in 32 bits
LARGEST_SIZE = 2**31 - 512  # m, n, k are int, and loops may step past the end by a tile
VERIFIED = ("h200_sxm_141gb",)
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


def _sm61(path: str, dtypes: tuple[str, ...], first: Capability) -> Iterator[GemmKernel]:
    """Multiply-add and DP4A in small tiles, kept as a net below the larger tiles of later paths."""
    for dtype in dtypes:
        for layout in LAYOUTS:
            for tile in (128, 64):
                words = 8 if tile == 128 else 16
                yield GemmKernel(
                    path=path,
                    dtype=dtype,
                    source="gemm/sm61.cu",
                    entry="gemm_sm61",
                    tile=(tile, tile, words * (4 if dtype == "int8" else 1)),
                    threads=256,
                    first=first,
                    variant="" if layout == "nt" else "nn",
                    defines=(("DTYPE", dtype), ("LAYOUT_NN", int(layout == "nn")), ("TILE", tile)),
                    layouts=(layout,),
                    alignment=16,
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
        else (
            ("ALIGNED", int(alignment == 16)),
            ("MMA_SM75", int(path == "sm75")),
            ("MMA_SM70", int(path == "sm70")),
        )
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
        ran_on=() if path == "sm70" else VERIFIED,
    )


def _sm70() -> Iterator[GemmKernel]:
    """The products of sm_70 are emulated from sm_80 on, so these rows end before."""
    for layout in LAYOUTS:
        for alignment in (16, 2):
            for tile, warps in (((128, 128, 64), (2, 4)), ((64, 64, 64), (2, 4))):
                row = _tensor_core(
                    "sm70", "fp16", layout, tile, warps, (7, 0), stages=0, alignment=alignment
                )
                yield replace(row, last=(7, 2))


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
_DEEP_TILE = ((128, 256, 128), (2, 4), 3)  # 144 KiB: sm_80 itself, not sm_86 and sm_89


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
            if copied and itemsize == 2:
                tile, warps, stages = _DEEP_TILE
                row = _tensor_core(
                    path, dtype, layout, tile, warps, first, stages=stages, alignment=16
                )
                yield replace(row, last=(8, 0), ran_on=())
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


def _dense(
    kind: str, dtype: str, layout: str, tile: tuple[int, int, int], *, first: Capability, **own
) -> GemmKernel:
    """A row of one of the fp32 and fp64 sources, `gemm/<kind>.cu` with entry `gemm_<kind>`."""
    variant, alignment = own.pop("variant", ""), own.pop("alignment")
    shared_bytes = own.pop("shared_bytes")
    on_hopper = first == (9, 0)
    uses_tma = kind.endswith("tma")
    return GemmKernel(
        path="sm90" if on_hopper else "sm80",
        dtype=dtype,
        source=f"gemm/{kind}.cu",
        entry=f"gemm_{kind}",
        tile=tile,
        threads=384 if on_hopper else 256,
        first=first,
        last=own.pop("last", (9, 0) if on_hopper else None),
        variant="-".join(filter(None, ("" if layout == "nt" else "nn", variant))),
        defines=(
            ("LAYOUT_NN", int(layout == "nn")),
            *own.items(),
            ("SHARED_BYTES", shared_bytes),
        ),
        shared_bytes=shared_bytes,
        cluster=(2, 1, 1) if uses_tma else (1, 1, 1),
        arch_suffix="a" if on_hopper else "",
        abi="tma" if uses_tma else "pointer",
        layouts=(layout,),
        alignment=alignment,
    )


def _fp32() -> Iterator[GemmKernel]:
    """fp32 without tensor cores. A line of shared memory holds 388 numbers."""
    for layout, alignment in (("nt", 4), ("nn", 16)):
        yield _dense(
            "sgemm_split", "fp32", layout, (128, 256, 32), first=(9, 0), alignment=alignment,
            STAGE_K=32, STAGES=4, PART_K=8, shared_bytes=4 * (32 * 388 * 4 + 16),
        )  # fmt: skip
        yield _dense(
            "sgemm", "fp32", layout, (128, 256, 32), first=(8, 0), alignment=alignment,
            STAGE_K=32, STAGES=2, shared_bytes=2 * 32 * 388 * 4,
        )  # fmt: skip


def _fp64() -> Iterator[GemmKernel]:
    """fp64 on tensor cores. A stage is 16 KiB of A and as much of B; lines of k are padded."""
    for layout in LAYOUTS:
        yield _dense(
            "dgemm_tma", "fp64", layout, (256, 128, 16), first=(9, 0), alignment=16,
            STAGES=6, shared_bytes=6 * (32768 + 16) + 1024,
        )  # fmt: skip
        stage_bytes = 32768 + (16 * 32 if layout == "nn" else 0)
        for alignment in (16, 8):
            any_rows = "any" if alignment == 8 else ""
            for product_k, stages, last in ((4, 5, (8, 0)), (4, 3, None)):
                few = "3stages" if stages == 3 else ""
                yield _dense(
                    "dgemm", "fp64", layout, (128, 128, 16), first=(8, 0), last=last,
                    variant="-".join(filter(None, (few, any_rows))), alignment=alignment,
                    STAGES=stages, PRODUCT_K=product_k, COPY_BYTES=alignment,
                    shared_bytes=stages * stage_bytes,
                )  # fmt: skip
        yield replace(
            _dense(
                "dgemm", "fp64", layout, (128, 128, 16), first=(8, 0), last=None,
                variant="any", alignment=8, STAGES=6, PRODUCT_K=16, COPY_BYTES=8,
                shared_bytes=6 * stage_bytes,
            ),
            path="sm90", first=(9, 0), last=(9, 0),
        )  # fmt: skip


ROWS: tuple[GemmKernel, ...] = (
    *_simt(),
    *_sm61("sm61", ("fp32", "fp64", "int8"), (6, 1)),
    *_sm70(),
    *_sm75(),
    *_sm61("sm80", ("fp32",), (8, 0)),
    *_sm61("sm90", ("fp32",), (9, 0)),
    *_sm80(),
    *_fp32(),
    *_fp64(),
)
PATHS = ("sm90", "sm89", "sm80", "sm75", "sm70", "sm61", "simt")  # tried in this order


def choose(
    m: int,
    n: int,
    k: int,
    dtype: str,
    layout: str,
    capability: Capability,
    path: str | None = None,
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
        and refusal(row, m, n, k, layout) is None
    ]
    if not able:
        where = f"path {path}" if path else "any path"
        raise UsageError(
            f"no portable GEMM kernel of {where} multiplies {dtype} in layout {layout} at "
            f"m={m} n={n} k={k} on compute capability {capability[0]}.{capability[1]}."
        )

    if path is None:
        able = [row for row in able if row.is_trusted] or able

    def preference(row: GemmKernel) -> tuple[bool, int, int, int, int]:
        area = row.tile[0] * row.tile[1]
        enough = blocks(row, m, n) >= ENOUGH_BLOCKS
        return (
            enough,
            area if enough else -area,
            row.alignment,
            -PATHS.index(row.path),
            row.shared_bytes,
        )

    return max(able, key=preference)


def blocks(row: GemmKernel, m: int, n: int) -> int:
    """Blocks launched: a cluster, or a block by itself, for each tile of C."""
    return -(-m // row.tile[0]) * -(-n // row.tile[1]) * row.cluster[0]


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
    sizes = [ctypes.c_int(size) for size in (m, n, k)]
    operands: list[Argument] = [ctypes.c_uint64(pointer) for pointer in (a_ptr, b_ptr, c_ptr)]
    if row.abi == "tma":
        operands[0] = _fp64_map(a_ptr, m, k, 128)
        operands[1] = _fp64_map(b_ptr, n, k, 64) if layout == "nt" else _fp64_map(b_ptr, k, n, 16)
    return loaded.bind(
        (blocks(row, m, n), 1, 1),
        (row.threads, 1, 1),
        [*operands, *sizes],
        stream,
        row.shared_bytes,
        row.cluster,
    )


def _fp64_map(ptr: int, rows: int, columns: int, box_rows: int) -> TensorMap:
    """A map of a row-major matrix in boxes of 16 columns, 128-byte swizzle, zeros outside."""
    u32, u64 = cuda().cuuint32_t, cuda().cuuint64_t
    encoded = cuda().cuTensorMapEncodeTiled(
        cuda().CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        2,
        ptr,
        [u64(max(columns, 1)), u64(max(rows, 1))],
        [u64(max(columns, 2) * 8)],
        [u32(16), u32(box_rows)],
        [u32(1), u32(1)],
        cuda().CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        cuda().CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        cuda().CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        cuda().CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return TensorMap(check(encoded))
