"""How a row of `gemm_sm90` is launched: its share-out of tiles, tensor maps and work space.

It knows shapes and pointers, and nothing of which row suits which shape.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable

from pymicro import driver
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.backends.cuda.tensor_maps import tensor_map
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable

SPAN_BYTES = 128  # k of one stage, and width of one store: the span of the TMA swizzle
WARP_ROWS = 16  # of C that one warp stores at a time
_LONG_CYCLES = 200_000  # about 0.15 ms
_CUT_COST_STEPS = 24  # what adding up the parts of cut tiles costs, in steps of k
_LEAST_SAVED = 0.04  # of the time: under a power limit idle blocks cost little, and cutting energy
_MOST_CUT = 0.55  # of the clusters: with more, shares read the same operands at odd times
_PANEL_BYTES = 34 * 2**20  # of A that may stay in the second-level cache while B streams past
_SQUARE_ROWS = 2048  # of C: about as many as columns that are under way at a time
_MORE_ROUNDS = 1.02  # at most, to keep blocks in step


class Plan(ctypes.Structure):
    """`struct Plan` of sm90_schedule.cuh, field for field."""

    _fields_ = (
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
        ("product_rows", ctypes.c_int),
    )


def macro(kernel: GemmKernel, name: str) -> int:
    """The number that a row gives to a macro of the source."""
    return int(dict(kernel.defines)[name])


def cluster_tiles(kernel: GemmKernel, m: int, n: int) -> tuple[int, int]:
    """How many tiles of a whole cluster lie down and across C."""
    return (
        math.ceil(m / (kernel.tile[0] * macro(kernel, "CLUSTER_M"))),
        math.ceil(n / (kernel.tile[1] * macro(kernel, "CLUSTER_N"))),
    )


def plan(kernel: GemmKernel, m: int, n: int, k: int, clusters: int) -> tuple[Plan, int]:
    """How `clusters` resident clusters divide the product, and how many of them to launch.

    Tiles that fill whole rounds go one to a cluster. Those of the last round are cut along k
    where that saves more than adding up their parts costs.
    """
    rows, columns = cluster_tiles(kernel, m, n)
    k_steps = math.ceil(k / kernel.tile[2])
    tiles, group = rows * columns, panel_rows(kernel, rows, k)
    cut, share = _cut_tiles(tiles, k_steps, clusters)
    if not cut:
        clusters = _in_step(tiles, group, clusters)
    chosen = Plan(m=m, n=n, k_steps=k_steps, rows=rows, columns=columns, group=group)
    chosen.whole, chosen.share = tiles - cut, share
    if chosen.whole:
        return chosen, min(clusters, tiles)
    return chosen, math.ceil(cut * k_steps / share)


def _cut_tiles(tiles: int, k_steps: int, clusters: int) -> tuple[int, int]:
    """How many tiles of the last round to cut along k, and steps of k of each cluster's share."""
    cut = tiles % clusters
    share = math.ceil(cut * k_steps / clusters)
    saved = (k_steps - share) / (math.ceil(tiles / clusters) * k_steps)
    is_dear = cut > _MOST_CUT * clusters or k_steps - share < _CUT_COST_STEPS
    return (0, 0) if is_dear or saved < _LEAST_SAVED else (cut, share)


def _in_step(tiles: int, group: int, clusters: int) -> int:
    """As many clusters as make whole columns of a group of rows, if that takes hardly more rounds.

    Else each round begins in the middle of a column, which is then read at two different times.
    """
    fewer = clusters - clusters % group if group < clusters else clusters
    is_worth = math.ceil(tiles / fewer) <= _MORE_ROUNDS * math.ceil(tiles / clusters)
    return fewer if is_worth else clusters


def panel_rows(kernel: GemmKernel, rows: int, k: int) -> int:
    """Cluster tiles, counted down C, that are walked together.

    All `rows` if their panel of A fits the second-level cache, as B is then read once; else as many
    as make a round of clusters about square: nothing then lasts from round to round.
    """
    height = kernel.tile[0] * macro(kernel, "CLUSTER_M")
    panel_bytes = rows * height * k * DTYPES[kernel.dtype].itemsize_bytes
    return rows if panel_bytes <= _PANEL_BYTES else min(rows, round(_SQUARE_ROWS / height))


def refusal(
    kernel: GemmKernel, m: int, n: int, k: int, *pointers: int, batch: int = 1
) -> str | None:
    """Why this row cannot take these sizes and addresses, in plain words; None if it can."""
    dtype = DTYPES[kernel.dtype]
    in_bytes, out_bytes = dtype.itemsize_bytes, DTYPES[dtype.output].itemsize_bytes
    height = kernel.tile[0] * macro(kernel, "CLUSTER_M")
    if kernel.batched != (batch > 1) or (batch > 1 and m % height):
        return f"{kernel.name} multiplies several matrices at once, of a multiple of {height} rows."
    if min(m, n, k) < 1 or max(m * batch, n * batch, k) >= 2**31:
        return "m, n and k must be from 1 to 2^31 - 1."
    if k * in_bytes % kernel.alignment or n * out_bytes % kernel.alignment:
        return (
            f"the Hopper kernel copies by TMA, which needs rows of a multiple of "
            f"{kernel.alignment} bytes: k of {kernel.alignment // in_bytes} and n of "
            f"{kernel.alignment // out_bytes} elements."
        )
    if any(pointer % kernel.alignment for pointer in pointers):
        return f"the Hopper kernel needs A, B and C at multiples of {kernel.alignment} bytes."
    return None


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
    batch: int = 1,
) -> Callable[[], None]:
    """A call that launches C = A·Bᵀ on `stream`; its descriptors and work space are made here.

    The work space belongs to the call, so one call must not run on two streams at once.

    Raises:
        Unavailable: sizes or addresses that TMA cannot serve.
    """
    reason = refusal(kernel, m, n, k, a_ptr, b_ptr, c_ptr, batch=batch)
    if reason:
        raise Unavailable(reason)
    clusters = sm_count if kernel.cluster[0] == 1 else resident_clusters(kernel, loaded)
    if kernel.batched:
        clusters *= macro(kernel, "RESIDENT")
    chosen, launched = plan(kernel, m * batch, n, k, clusters)
    chosen.product_rows = max(1, m // (kernel.tile[0] * macro(kernel, "CLUSTER_M")))
    space = _work_space(kernel, chosen, launched)
    if space is not None:
        chosen.ready = space.ptr
        chosen.partials = space.ptr + _flag_bytes(kernel, launched)
    call = loaded.bind(
        grid=(launched * kernel.cluster[0], 1, 1),
        block=(kernel.threads, 1, 1),
        arguments=(*tensor_maps(kernel, a_ptr, b_ptr, c_ptr, m, n, k, batch), chosen),
        stream=stream,
        shared_bytes=kernel.shared_bytes,
        cluster=kernel.cluster,
        overlap=not _is_long(kernel, chosen, launched),
    )
    if space is not None:
        weakref.finalize(call, space.free)
    return call


def _is_long(kernel: GemmKernel, chosen: Plan, launched: int) -> bool:
    """Whether a launch is so long that to begin beside the end of the one before saves nothing.

    Under the power limit of an H200 such launches ran a hundredth slower (bf16, 4096 and 8192).
    """
    step_cycles = kernel.tile[0] * kernel.tile[1] / 32
    return chosen.rows * chosen.columns / launched * chosen.k_steps * step_cycles > _LONG_CYCLES


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
    """Lowered flags and one block tile of 4-byte sums per block, where tiles are cut."""
    if chosen.share == 0:
        return None
    flag_bytes = _flag_bytes(kernel, launched)
    sums_bytes = launched * kernel.cluster[0] * kernel.tile[0] * kernel.tile[1] * 4
    space = driver.Buffer((flag_bytes + sums_bytes,), "uint8")
    driver.check(driver.cuda().cuMemsetD8(space.ptr, 0, flag_bytes))
    driver.check(driver.cuda().cuCtxSynchronize())  # Streams of ours do not wait for a memset.
    return space


def box_rows(rows: int, parts: int) -> int:
    """Rows of one copy where `parts` blocks load a tile for each other, as the source has it."""
    return rows // parts if rows % (8 * parts) == 0 else 32


def tensor_maps(
    kernel: GemmKernel, a_ptr: int, b_ptr: int, c_ptr: int, m: int, n: int, k: int, batch: int = 1
) -> tuple[driver.TensorMap, driver.TensorMap, driver.TensorMap]:
    """Descriptors of A, B and C with the boxes that one block loads and one warp stores.

    Several products are one below the other in each of the three.
    """
    m, n_of_b = m * batch, n * batch
    block_m, block_n, step = kernel.tile
    dtype = DTYPES[kernel.dtype]
    out_bytes = DTYPES[dtype.output].itemsize_bytes
    return (  # Promotion to 256 bytes reads more from the cache, and ran slower on an H200.
        tensor_map(dtype.name, a_ptr, m, k, (box_rows(block_m, macro(kernel, "CLUSTER_N")), step)),
        tensor_map(
            dtype.name, b_ptr, n_of_b, k, (box_rows(block_n, macro(kernel, "CLUSTER_M")), step)
        ),
        tensor_map(dtype.output, c_ptr, m, n, (WARP_ROWS, SPAN_BYTES // out_bytes)),
    )
