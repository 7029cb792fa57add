"""Hopper's GEMM rows: which configurations of `gemm/sm90.cu` exist, which suits a shape, and how
one is launched. B is n×k; every row of A, B and C is a multiple of 16 bytes (TMA's strides).
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable

from pymicro import driver
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.dtypes import DTYPES

SPAN_BYTES = 128  # k of one stage: the span of the TMA swizzle
_SLICE_BYTES = 16 * SPAN_BYTES  # what one warp stores to C at a time
_BARRIER_BYTES = 16  # per stage: full and empty
_LOADER_BYTES = 64
PROMOTION = "L2_256B"
_FORMATS = {"fp16": "FP16", "bf16": "BF16", "fp8_e4m3": "E4M3", "int8": "INT8", "tf32": "TF32"}


class Plan(ctypes.Structure):
    """`struct Plan` of sm90_schedule.cuh, field for field."""

    _fields_ = [
        ("m", ctypes.c_int),
        ("n", ctypes.c_int),
        ("k_steps", ctypes.c_int),
        ("rows", ctypes.c_int),
        ("columns", ctypes.c_int),
        ("group", ctypes.c_int),
        ("whole", ctypes.c_int),
        ("share", ctypes.c_int),
        ("partials", ctypes.c_void_p),
        ("ready", ctypes.c_void_p),
    ]


def row(
    dtype: str,
    block: tuple[int, int],
    warpgroups: int,
    stages: int,
    cluster: tuple[int, int] = (2, 1),
    instruction_n: int | None = None,
    producer: bool = True,
    promote: bool = False,
    policies: tuple[str, str] = ("evict_normal", "evict_normal"),
    variant: str = "",
    prefetch: int = 0,
    serpentine: bool = True,
    late_store: bool = False,
    resident: int = 1,
    ran_on: tuple[str, ...] = (),
) -> GemmKernel:
    """A configuration: `block` is the tile of C of one block, `cluster` blocks down and across C
    that share operands; `producer` False lets a lane of the first multiplying warpgroup load.
    """
    registers = {2: (40, 232), 1: (40, 232), 3: (32, 160)}[warpgroups]
    defines = (
        (f"FORMAT_{_FORMATS[dtype]}", 1),
        ("BLOCK_M", block[0]),
        ("BLOCK_N", block[1]),
        ("WARPGROUPS", warpgroups),
        ("INSTRUCTION_N", instruction_n or block[1]),
        ("STAGES", stages),
        ("CLUSTER_M", cluster[0]),
        ("CLUSTER_N", cluster[1]),
        ("PRODUCER", int(producer)),
        ("PRODUCER_REGISTERS", registers[0]),
        ("CONSUMER_REGISTERS", registers[1]),
        ("PROMOTE", int(promote)),
        ("PREFETCH", prefetch),
        ("SERPENTINE", int(serpentine)),
        ("LATE_STORE", int(late_store)),
        ("RESIDENT", resident),
        ("POLICY_A", policies[0]),
        ("POLICY_B", policies[1]),
    )
    return GemmKernel(
        path="sm90",
        dtype=dtype,
        source="gemm/sm90.cu",
        entry="gemm_sm90",
        defines=defines,
        tile=(*block, SPAN_BYTES // DTYPES[dtype].itemsize_bytes),
        threads=(warpgroups + producer) * 128,
        shared_bytes=stages * (sum(block) * SPAN_BYTES + _BARRIER_BYTES)
        + warpgroups * 4 * 2 * _SLICE_BYTES
        + _LOADER_BYTES,
        cluster=(cluster[0] * cluster[1], 1, 1),
        first=(9, 0),
        last=(9, 0),
        arch_suffix="a",
        abi="tma",
        alignment=16,
        variant=variant,
        ran_on=ran_on,
    )


_H200 = ("h200_sxm_141gb",)
# The first row of a format serves large products, the second those too small to fill the chip.
ROWS: tuple[GemmKernel, ...] = (
    row("bf16", (128, 256), 2, 4, ran_on=_H200),
    row("bf16", (64, 128), 1, 8, ran_on=_H200),
    row("fp16", (128, 256), 2, 4, ran_on=_H200),
    row("fp16", (64, 128), 1, 8, ran_on=_H200),
    row("fp8_e4m3", (128, 256), 2, 4, ran_on=_H200),
    row("fp8_e4m3", (128, 128), 2, 4, promote=True, variant="promoted", ran_on=_H200),
    row("int8", (128, 256), 2, 4, ran_on=_H200),
    row("tf32", (128, 256), 2, 4, ran_on=_H200),
)


def macro(kernel: GemmKernel, name: str) -> int:
    """The number that a row gives to a macro of the source."""
    return int(dict(kernel.defines)[name])


def plan(
    kernel: GemmKernel, m: int, n: int, k: int, clusters: int, group: int | None = None
) -> tuple[Plan, int]:
    """How `clusters` resident clusters divide the product, and how many of them to launch.

    Tiles that fill whole rounds go one to a cluster. Those of the last round are cut along k when
    that saves more than adding up their parts costs.
    """
    block_m, block_n, step = kernel.tile
    k_steps = max(1, math.ceil(k / step))
    rows = math.ceil(m / (block_m * macro(kernel, "CLUSTER_M")))
    columns = math.ceil(n / (block_n * macro(kernel, "CLUSTER_N")))
    tiles = rows * columns
    cut = tiles % clusters
    share = math.ceil(cut * k_steps / clusters)
    if cut > _MOST_CUT * clusters or k_steps - share < _CUT_COST_STEPS:
        cut = share = 0
    chosen = Plan(m=m, n=n, k_steps=k_steps, rows=rows, columns=columns)
    chosen.group = group or panel_rows(kernel, m, k)
    chosen.whole, chosen.share = tiles - cut, share
    if chosen.whole:
        return chosen, min(clusters, tiles)
    return chosen, math.ceil(cut * k_steps / share)


_CUT_COST_STEPS = 24
_MOST_CUT = 0.55  # of the clusters; shares of more than half a tile read the same operands at odds
_PANEL_BYTES = 34 * 2**20  # of A that stays in the second-level cache while B streams past


def panel_rows(kernel: GemmKernel, m: int, k: int) -> int:
    """Cluster tiles of A, counted down, that are walked together."""
    height = kernel.tile[0] * macro(kernel, "CLUSTER_M")
    fit = _PANEL_BYTES // (height * k * DTYPES[kernel.dtype].itemsize_bytes)
    return max(1, min(8, fit))


def bind(
    kernel: GemmKernel,
    loaded: driver.Kernel,
    a_ptr: int,
    b_ptr: int,
    c_ptr: int,
    m: int,
    n: int,
    k: int,
    stream: int,
    sm_count: int,
    group: int | None = None,
    overlap: bool = True,
) -> Callable[[], None]:
    """A call that launches C = A·Bᵀ on `stream`; its descriptors and work space are made here.

    The work space belongs to the call, so one call must not run on two streams at once.
    """
    cluster = kernel.cluster[0]
    clusters = sm_count if cluster == 1 else resident_clusters(kernel, loaded)
    chosen, launched = plan(kernel, m, n, k, clusters, group)
    space = _work_space(kernel, chosen, launched)
    if space is not None:
        chosen.ready = space.ptr
        chosen.partials = space.ptr + _flag_bytes(kernel, launched)
    call = loaded.bind(
        grid=(launched * cluster, 1, 1),
        block=(kernel.threads, 1, 1),
        arguments=(*tensor_maps(kernel, a_ptr, b_ptr, c_ptr, m, n, k), chosen),
        stream=stream,
        shared_bytes=kernel.shared_bytes,
        cluster=kernel.cluster,
        overlap=overlap,
    )
    if space is not None:
        weakref.finalize(call, space.free)
    return call


def resident_clusters(kernel: GemmKernel, loaded: driver.Kernel) -> int:
    """How many clusters of this kernel the device holds at once, by the driver's account."""
    config = driver.launch_config(
        grid=kernel.cluster,
        block=(kernel.threads, 1, 1),
        stream=0,
        shared_bytes=kernel.shared_bytes,
        cluster=kernel.cluster,
    )
    cuda = driver.cuda()
    return int(driver.check(cuda.cuOccupancyMaxActiveClusters(loaded.function, config)))


def _flag_bytes(kernel: GemmKernel, launched: int) -> int:
    flags = launched * kernel.cluster[0] * macro(kernel, "WARPGROUPS")
    return math.ceil(flags * 4 / 256) * 256


def _work_space(kernel: GemmKernel, chosen: Plan, launched: int) -> driver.Buffer | None:
    """Lowered flags and one block tile of partial sums per block, where tiles are cut."""
    if chosen.share == 0:
        return None
    block_m, block_n, _ = kernel.tile
    flag_bytes = _flag_bytes(kernel, launched)
    space = driver.Buffer(
        (flag_bytes + launched * kernel.cluster[0] * block_m * block_n * 4,), "uint8"
    )
    driver.check(driver.cuda().cuMemsetD8(space.ptr, 0, flag_bytes))
    return space


def tensor_maps(
    kernel: GemmKernel, a_ptr: int, b_ptr: int, c_ptr: int, m: int, n: int, k: int
) -> tuple[driver.TensorMap, driver.TensorMap, driver.TensorMap]:
    """Descriptors of A, B and C with the boxes that one block loads and one warp stores."""
    block_m, block_n, step = kernel.tile
    dtype = DTYPES[kernel.dtype]
    out_bytes = DTYPES[dtype.output].itemsize_bytes
    return (
        _map(dtype.name, a_ptr, m, k, (block_m // macro(kernel, "CLUSTER_N"), step)),
        _map(dtype.name, b_ptr, n, k, (block_n // macro(kernel, "CLUSTER_M"), step)),
        _map(dtype.output, c_ptr, m, n, (16, SPAN_BYTES // out_bytes)),
    )


def _map(dtype: str, ptr: int, rows: int, columns: int, box: tuple[int, int]) -> driver.TensorMap:
    cuda = driver.cuda()
    kinds = cuda.CUtensorMapDataType
    # TFLOAT32 makes the copy engine round fp32 to tf32; wgmma alone would cut the low bits off.
    kind = {
        "fp16": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        "bf16": kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        "fp8_e4m3": kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        "int8": kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        "tf32": kinds.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        "fp32": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        "int32": kinds.CU_TENSOR_MAP_DATA_TYPE_INT32,
    }[dtype]
    u32, u64 = cuda.cuuint32_t, cuda.cuuint64_t
    pitch_bytes = columns * DTYPES[dtype].itemsize_bytes
    return driver.TensorMap(
        driver.check(
            cuda.cuTensorMapEncodeTiled(
                kind,
                2,
                ptr,
                [u64(columns), u64(rows)],
                [u64(pitch_bytes)],
                [u32(box[1]), u32(box[0])],
                [u32(1), u32(1)],
                cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
                getattr(cuda.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{PROMOTION}"),
                cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
    )


def choose(
    m: int, n: int, k: int, dtype: str, sm_count: int, variant: str = ""
) -> GemmKernel | None:
    """The row for a problem with B as n×k; None where no row serves it."""
    itemsizes = DTYPES[dtype].itemsize_bytes, DTYPES[DTYPES[dtype].output].itemsize_bytes
    if k * itemsizes[0] % 16 or n * itemsizes[1] % 16:
        return None
    able = [r for r in ROWS if r.dtype == dtype and r.variant == variant]

    def tiles(row: GemmKernel) -> int:
        return math.ceil(m / row.tile[0]) * math.ceil(n / row.tile[1])

    full = (r for r in able if tiles(r) >= sm_count)
    return next(full, able[-1] if able else None)
