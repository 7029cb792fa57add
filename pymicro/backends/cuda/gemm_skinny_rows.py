"""Rows of the kernels for few rows of A; `gemm_portable` chooses and launches them."""

from __future__ import annotations

from collections.abc import Iterator

from pymicro.backends.cuda.gemm_kernel import GemmKernel

_WARPS = 8
# fp32: groups of lanes over rows and columns; rows and columns of a lane; pieces asked for ahead.
_FP32 = ((1, 4, 1, 1, 8), (2, 2, 4, 4, 2), (2, 2, 16, 4, 1))


def skinny() -> Iterator[GemmKernel]:
    """Strips of C for few rows of A, bound by how fast B is read."""
    for dtype in ("fp16", "bf16"):
        for blocks_m in (1, 2):
            yield from _strips(
                "skinny", dtype, (16 * blocks_m, 8),
                DTYPE=dtype, BLOCKS_M=blocks_m, BLOCKS_N=1, AHEAD=4,
            )  # fmt: skip
    for lanes_m, lanes_n, rows, columns, ahead in _FP32:
        yield from _strips(
            "skinny_fp32", "fp32", (lanes_m * rows, lanes_n * columns),
            LANES_M=lanes_m, LANES_N=lanes_n, ROWS=rows, COLUMNS=columns, AHEAD=ahead,
        )  # fmt: skip


def _strips(kind: str, dtype: str, tile: tuple[int, int], **own: str | int) -> Iterator[GemmKernel]:
    """One kernel twice: where launches may overlap (sm_90 on), a row of its own does."""
    for path, first, last in (("sm80", (8, 0), (8, 9)), ("sm90", (9, 0), None)):
        overlap = path == "sm90"
        yield GemmKernel(
            path=path,
            dtype=dtype,
            source=f"gemm/{kind}.cu",
            entry=f"gemm_{kind}",
            tile=(*tile, 32 * _WARPS),
            threads=32 * _WARPS,
            first=first,
            last=last,
            variant="skinny",
            defines=(*own.items(), ("WARPS", _WARPS), ("OVERLAP", int(overlap))),
            overlap=overlap,
            alignment=16,
        )
