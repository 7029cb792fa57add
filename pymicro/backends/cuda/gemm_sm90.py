"""Hopper's GEMM rows: which configurations of `gemm/sm90.cu` exist, and which suits a shape.

B is n×k; every row of A, B and C is a multiple of 16 bytes (TMA's strides): `alignment`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.backends.cuda.gemm_sm90_launch import (
    SPAN_BYTES,
    WARP_ROWS,
    bind,
    cluster_tiles,
    macro,
    refusal,
)
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable

__all__ = ["ROWS", "bind", "choose", "estimated_cycles", "refusal", "row"]

_FORMATS = {"fp16": "FP16", "bf16": "BF16", "fp8_e4m3": "E4M3", "int8": "INT8", "tf32": "TF32"}
_BARRIER_BYTES = 16  # per stage: full and empty
_LOADER_BYTES = 64


def row(
    dtype: str,
    block: tuple[int, int],
    warpgroups: int,
    stages: int,
    cluster: tuple[int, int] = (2, 1),
    instruction_n: int | None = None,
    producer: bool = True,
    resident: int = 1,
    late_store: bool = False,
    promote: bool = False,
    policies: tuple[str, str] = ("evict_normal", "evict_normal"),
    batched: bool = False,
    variant: str = "",
) -> GemmKernel:
    """A configuration: `block` is the tile of C of one block, `cluster` blocks down and across C
    that share operands, `stages` of 128 bytes of k; the rest as the source explains its macros.
    """
    producer_registers, consumer_registers = (32, 160) if warpgroups == 3 else (40, 232)
    staging_bytes = warpgroups * 4 * 2 * WARP_ROWS * SPAN_BYTES
    defines: dict[str, str | int] = {
        f"FORMAT_{_FORMATS[dtype]}": 1,
        "BLOCK_M": block[0],
        "BLOCK_N": block[1],
        "WARPGROUPS": warpgroups,
        "INSTRUCTION_N": instruction_n or block[1],
        "STAGES": stages,
        "CLUSTER_M": cluster[0],
        "CLUSTER_N": cluster[1],
        "PRODUCER": int(producer),
        "PRODUCER_REGISTERS": producer_registers,
        "CONSUMER_REGISTERS": consumer_registers,
        "RESIDENT": resident,
        "LATE_STORE": int(late_store),
        "PROMOTE": int(promote),
        "POLICY_A": policies[0],
        "POLICY_B": policies[1],
    }
    if batched:
        defines["BATCH"] = 1
    return GemmKernel(
        path="sm90",
        dtype=dtype,
        source="gemm/sm90.cu",
        entry="gemm_sm90",
        defines=tuple(defines.items()),
        tile=(*block, SPAN_BYTES // DTYPES[dtype].itemsize_bytes),
        threads=(warpgroups + producer) * 128,
        shared_bytes=stages * (sum(block) * SPAN_BYTES + _BARRIER_BYTES)
        + staging_bytes
        + _LOADER_BYTES,
        cluster=(math.prod(cluster), 1, 1),
        first=(9, 0),
        last=(9, 0),
        arch_suffix="a",
        abi="tma",
        alignment=16,
        variant=variant,
        batched=batched,
    )


# A band of A is read for every column of tiles, B once for every band: B is first to leave the
# second-level cache, A last. It saved a hundredth of the time under the power limit of an H200.
_KEEP_A = ("evict_last", "evict_first")


def _rows(dtype: str, variant: str = "") -> tuple[GemmKernel, ...]:
    """The configurations of one format, preferred ones first: the large tile of least energy per
    FLOP as measured (on a power-capped card that counts, not cycles), then those for shapes that
    it divides badly.
    """
    sixteen_bit_output = DTYPES[DTYPES[dtype].output].itemsize_bytes == 2
    large = (
        row(dtype, (128, 256), 2, 4, policies=_KEEP_A, late_store=sixteen_bit_output,
            variant=variant),
        row(dtype, (192, 256), 3, 3, cluster=(1, 2), producer=False, policies=_KEEP_A,
            variant=variant),
    )  # fmt: skip
    # Without the late store of 16-bit results the larger tile won: 8192 cubed on an H200 under
    # load, by 1.7 % in int8 and 1.0 % in tf32.
    return (
        *(large if sixteen_bit_output else reversed(large)),
        row(dtype, (128, 192), 2, 4, variant=variant),
        row(dtype, (128, 128), 2, 6, variant=variant),
        row(dtype, (64, 128), 1, 4, resident=2, variant=variant),
    )


_BATCHED = tuple(
    row(
        dtype,
        block,
        groups,
        stages,
        cluster=(1, 1),
        resident=resident,
        batched=True,
        variant="batch",
    )
    for dtype in ("bf16", "fp16")
    for block, groups, stages, resident in (
        ((128, 128), 2, 4, 1),
        ((64, 128), 1, 4, 2),
        ((64, 64), 1, 3, 3),
    )
)

ROWS: tuple[GemmKernel, ...] = (
    *_rows("bf16"),
    *_rows("fp16"),
    *_rows("fp8_e4m3", "fast-accumulate"),
    row("fp8_e4m3", (128, 192), 2, 4, promote=True, variant="promoted"),
    row("fp8_e4m3", (64, 128), 1, 6, promote=True, variant="promoted"),
    *_rows("int8"),
    *_rows("tf32"),
    *_BATCHED,
)


def choose(
    m: int,
    n: int,
    k: int,
    dtype: str,
    sm_count: int,
    variant: str = "",
    measure: Callable[[GemmKernel], float] | None = None,
    batch: int = 1,
) -> GemmKernel:
    """The row for a shape: that of least `measure` (seconds) if given; else, of those that have
    run on a card and are estimated within 5 % of the least, the one that comes first in ROWS.

    Raises:
        Unavailable: no row of this format and variant.
    """
    if dtype == "fp8_e4m3" and not variant:
        variant = "fast-accumulate"
    if batch > 1 and not variant:
        variant = "batch"
    rows = [r for r in ROWS if r.dtype == dtype and r.variant == variant]
    rows = [r for r in rows if refusal(r, m, n, k, batch=batch) is None]
    if not rows:
        raise Unavailable(f"Hopper's TMA kernel has no {dtype} {variant}".rstrip() + ".")
    if measure is not None:
        return min(rows, key=measure)
    rows = [r for r in rows if r.is_trusted] or rows
    cycles = [estimated_cycles(r, m * batch, n, k, sm_count) for r in rows]
    return next(r for r, own in zip(rows, cycles, strict=True) if own <= 1.05 * min(cycles))


# Readings of one H200 with clock64 in the kernel (per tile and per launch) and from the times of
# 64x128 tiles with and without multicast, which the second-level cache's rate explains.
_START_CYCLES = 2000
_STORE_CYCLES = 2200
_LATE_STORE_CYCLES = 400
_L2_BYTES_PER_CYCLE = 40  # of one SM while all of them load


def estimated_cycles(kernel: GemmKernel, m: int, n: int, k: int, sm_count: int) -> float:
    """SM cycles of one product: rounds of tiles, each bound by the tensor cores or the L2 cache."""
    block_m, block_n, step = kernel.tile
    rows, columns = cluster_tiles(kernel, m, n)
    resident = sm_count * macro(kernel, "RESIDENT") if kernel.batched else sm_count
    clusters = resident // kernel.cluster[0]
    rounds: float = math.ceil(rows * columns / clusters)
    loaded_rows = block_m / macro(kernel, "CLUSTER_N") + block_n / macro(kernel, "CLUSTER_M")
    # 128 bytes of k take as many cycles in every format: 4096 fp16 FLOP a cycle, 64 x 2 a pair.
    step_cycles = max(block_m * block_n / 32, loaded_rows * SPAN_BYTES / _L2_BYTES_PER_CYCLE)
    store_cycles = _LATE_STORE_CYCLES if macro(kernel, "LATE_STORE") else _STORE_CYCLES
    return (
        _START_CYCLES + _STORE_CYCLES + rounds * (math.ceil(k / step) * step_cycles + store_cycles)
    )
