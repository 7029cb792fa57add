"""Rows of the GEMM kernels of every generation that take plain pointers: which exist, and where.

Each is one configuration of a source under `csrc/cuda/gemm`; `gemm_portable` chooses and launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pymicro.backends.cuda.gemm_kernel import Capability, GemmKernel
from pymicro.backends.cuda.gemm_skinny_rows import skinny
from pymicro.dtypes import DTYPES

LAYOUTS = ("nt", "nn")


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
_TMA_SPAN_BYTES = 128  # of k in a panel, the span of the swizzle
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
                yield replace(row, last=(8, 0))
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


# With TMA: rows and columns of a tile, warps over them, stages. Those of sm_120 fit 99 KiB. With
# the warp that fetches, eight warps have 168 registers each, too few for 64x64 sums a warp.
_SM120_TILES = (((128, 128), (2, 4), 3), ((64, 64), (2, 2), 4))
_SM100_TILES = (((128, 128), (2, 4), 5), ((64, 64), (2, 2), 6))


def _blackwell() -> Iterator[GemmKernel]:
    """TMA and mma.sync. Hopper can run them, which is where they are checked, but has better."""
    for path, tiles, last in (("sm120", _SM120_TILES, None), ("sm100", _SM100_TILES, (10, 3))):
        for dtype in ("fp16", "bf16", "tf32", "int8", "fp8_e4m3"):
            if (path, dtype) == ("sm100", "fp8_e4m3"):
                continue  # Its mma.sync computes them in fp16.
            for (rows, columns), warps, stages in tiles:
                shared_bytes = stages * ((rows + columns) * _TMA_SPAN_BYTES + 16)
                yield GemmKernel(
                    path=path,
                    dtype=dtype,
                    source="gemm/sm120.cu",
                    entry="gemm_sm120",
                    tile=(rows, columns, _TMA_SPAN_BYTES // DTYPES[dtype].itemsize_bytes),
                    threads=32 * (warps[0] * warps[1] + 1),
                    first=(9, 0),
                    last=last,
                    defines=(
                        ("DTYPE", dtype),
                        ("LAYOUT_NN", 0),
                        ("TILE_M", rows),
                        ("TILE_N", columns),
                        ("ROW_BYTES", _TMA_SPAN_BYTES),
                        ("WARPS_M", warps[0]),
                        ("WARPS_N", warps[1]),
                        ("STAGES", stages),
                        ("SHARED_BYTES", shared_bytes),
                    ),
                    shared_bytes=shared_bytes,
                    abi="tma",
                    alignment=16,
                )


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
        cut_k="CUT_K" in own,
    )


def _fp32() -> Iterator[GemmKernel]:
    """fp32 without tensor cores. A line of shared memory holds 388 numbers."""
    for layout, alignment in (("nt", 4), ("nn", 16)):
        yield _dense(
            "sgemm_split", "fp32", layout, (128, 256, 32), first=(9, 0), alignment=alignment,
            STAGE_K=32, STAGES=4, PART_K=8, shared_bytes=4 * (32 * 388 * 4 + 16),
        )  # fmt: skip
        yield _dense(
            "sgemm_split", "fp32", layout, (128, 256, 32), first=(9, 0), alignment=alignment,
            variant="cut", STAGE_K=32, STAGES=4, PART_K=8, CUT_K=1,
            shared_bytes=4 * (32 * 388 * 4 + 16),
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


_SINGLE: tuple[GemmKernel, ...] = (
    *_simt(),
    *_sm61("sm61", ("fp32", "fp64", "int8"), (6, 1)),
    *_sm70(),
    *_sm75(),
    *_sm61("sm80", ("fp32",), (8, 0)),
    *_sm61("sm90", ("fp32",), (9, 0)),
    *_sm80(),
    *_blackwell(),
    *_fp32(),
    *_fp64(),
    *skinny(),
)
_BATCHED_SOURCES = ("gemm/simt.cu", "gemm/sm61.cu", "gemm/sm80.cu")


def _batched(rows: tuple[GemmKernel, ...]) -> Iterator[GemmKernel]:
    """Of some rows a second form for several products at once: the tiles that suit small ones."""
    for row in rows:
        small = max(row.tile[:2]) <= 128 and row.path not in ("sm75", "sm89")
        if row.source in _BATCHED_SOURCES and small and row.alignment in (16, _itemsize(row)):
            if row.source == "gemm/sm61.cu" and row.path != "sm61":
                continue  # The same kernel under a later path's name.
            yield replace(
                row,
                variant="-".join(filter(None, (row.variant, "batch"))),
                defines=(*row.defines, ("BATCH", 1)),
                batched=True,
            )


def _itemsize(row: GemmKernel) -> int:
    return DTYPES[row.dtype].itemsize_bytes


ROWS: tuple[GemmKernel, ...] = (*_SINGLE, *_batched(_SINGLE))
