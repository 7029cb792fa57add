"""Matrix products in Triton: C[m,n] = A[m,k] · B, with B stored n×k (`nt`) or k×n (`nn`).

Two kernels. `tiled` reads through pointers with masks: any size, any chip Triton compiles for, and
its interpreter. `descriptor` stays on its SM and reads through tensor descriptors, which Hopper and
later serve with bulk tensor copies. Which tile runs is tried out in `prepare`, on the caller's own
matrices; the returned call launches the winner and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from .binding import bound, compiled_only

GROUP_M = 8  # Tile rows that run side by side, so that their panel of A stays in L2.


@triton.jit
def _place(tile, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a tile when GROUP rows of tiles are walked column by column."""
    tiles_m = tl.cdiv(m, BLOCK_M)
    band = GROUP * tl.cdiv(n, BLOCK_N)
    first_m = tile // band * GROUP
    height = tl.minimum(tiles_m - first_m, GROUP)
    return first_m + tile % band % height, tile % band // height


@triton.jit
def tiled_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k,
    B_IS_NK: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, EVEN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of C a program. EVEN promises that the blocks divide m, n and k.

    The second dimension of the grid counts products, one behind the other in memory.
    """
    product = tl.program_id(1).to(tl.int64)
    a_ptr += product * m * k
    b_ptr += product * n * k
    c_ptr += product * m * n
    row, column = _place(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP)
    ms = row * BLOCK_M + tl.arange(0, BLOCK_M)
    ns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    # 64-bit row offsets: 32 bits end at 46341 squared elements.
    a_ptrs = a_ptr + ms.to(tl.int64)[:, None] * k + ks[None, :]
    if B_IS_NK:
        b_ptrs = b_ptr + ns.to(tl.int64)[None, :] * k + ks[:, None]
    else:
        b_ptrs = b_ptr + ks.to(tl.int64)[:, None] * n + ns[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for k_left in range(k, 0, -BLOCK_K):
        if EVEN:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=(ms < m)[:, None] & (ks < k_left)[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=(ks < k_left)[:, None] & (ns < n)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K if B_IS_NK else BLOCK_K * n
    c_ptrs = c_ptr + ms.to(tl.int64)[:, None] * n + ns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(ms < m)[:, None] & (ns < n)[None, :])


@triton.jit
def _store_columns(c_desc, acc, row, column, SLICES: tl.constexpr):
    """Store a tile in SLICES slices of its columns: less shared memory, so one stage more."""
    if SLICES == 1:
        c_desc.store([row, column], acc.to(c_desc.dtype))
    else:
        HALF: tl.constexpr = acc.shape[1] // 2
        pair = tl.permute(tl.reshape(acc, (acc.shape[0], 2, HALF)), (0, 2, 1))
        left, right = tl.split(pair)
        _store_columns(c_desc, left, row, column, SLICES // 2)
        _store_columns(c_desc, right, row, column + HALF, SLICES // 2)


@triton.jit
def descriptor_kernel(
    a, b, c, m, n, k, programs,
    B_IS_NK: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr, SPECIALIZE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    SLICES: tl.constexpr,
):  # fmt: skip
    """Every program takes each `programs`-th tile. Descriptors pad with zeros and clip stores.

    a, b and c are descriptors made by the host. Splitting a tile over specialised warp groups
    rewrites block shapes, which Triton can do only for descriptors made here: then pointers.
    """
    if SPECIALIZE:
        a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
        c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BLOCK_M, BLOCK_N // SLICES])
        if B_IS_NK:
            b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BLOCK_N, BLOCK_K])
        else:
            b = tl.make_tensor_descriptor(b, [k, n], [n, 1], [BLOCK_K, BLOCK_N])
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    # Flattening overlaps a tile's store with the next one's loads, but undoes specialisation.
    for tile in tl.range(
        tl.program_id(0), tiles, programs, flatten=not SPECIALIZE, warp_specialize=SPECIALIZE
    ):
        row, column = _place(tile, m, n, BLOCK_M, BLOCK_N, GROUP)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
        for step in range(tl.cdiv(k, BLOCK_K)):
            a_tile = a.load([row * BLOCK_M, step * BLOCK_K])
            if B_IS_NK:
                b_tile = b.load([column * BLOCK_N, step * BLOCK_K]).T
            else:
                b_tile = b.load([step * BLOCK_K, column * BLOCK_N])
            acc = tl.dot(a_tile, b_tile, acc, input_precision=PRECISION, out_dtype=ACC)
        _store_columns(c, acc, row * BLOCK_M, column * BLOCK_N, SLICES)


@dataclass(frozen=True)
class Tile:
    """How one program works: its tile of C, the bytes of K it takes per step, warps and stages."""

    m: int
    n: int
    k_bytes: int
    warps: int
    stages: int
    specialize: bool = False


TILES = {
    "tiled": (
        Tile(128, 256, 128, 8, 4), Tile(128, 256, 128, 8, 3), Tile(128, 128, 128, 8, 3),
        Tile(128, 128, 64, 4, 4), Tile(128, 64, 64, 4, 4), Tile(64, 64, 128, 4, 4),
    ),
    "tiled without tensor cores": (
        Tile(128, 128, 64, 8, 3), Tile(128, 64, 64, 4, 3), Tile(64, 64, 64, 4, 3),
    ),
    "tiled fp64": (
        Tile(128, 128, 128, 8, 3), Tile(128, 64, 128, 4, 3), Tile(64, 64, 128, 4, 3),
    ),
    "descriptor": (
        Tile(128, 256, 128, 8, 4), Tile(128, 256, 128, 8, 3), Tile(256, 128, 128, 8, 4),
        Tile(128, 256, 128, 4, 3, True), Tile(128, 128, 128, 4, 5, True),
        Tile(128, 128, 128, 8, 4), Tile(128, 128, 128, 4, 2), Tile(64, 128, 128, 4, 4),
    ),
}  # fmt: skip
_ACC = {"int8": tl.int32, "fp64": tl.float64}
_MIN_CAPABILITY = {"fp8_e4m3": (8, 9)}


def why_not(
    variant: str, dtype: str, layout: str, capability: tuple[int, int] | None
) -> str | None:
    """Why the case cannot run, None if it can; capability None is Triton's interpreter."""
    if capability is None:
        return "Triton's interpreter computes bf16 products wrongly." if dtype == "bf16" else None
    if capability < (8, 0):
        return "Triton uses tensor cores from compute capability 8.0 on."
    if capability < _MIN_CAPABILITY.get(dtype, (8, 0)):
        return f"Triton has {dtype} from compute capability 8.9 on."
    if variant == "descriptor" and capability < (9, 0):
        return "Bulk tensor copies exist from compute capability 9.0 on."
    if variant == "descriptor" and dtype in ("fp32", "fp64"):
        return f"In {dtype} the arithmetic, not the copy, is the limit: `tiled` serves it."
    return None


def _prepare_tiled(a, b, c, *, dtype: str, layout: str) -> Callable[[], object]:
    kind = {"fp32": "tiled without tensor cores", "fp64": "tiled fp64"}.get(dtype, "tiled")
    return _fastest(_launch_tiled, TILES[kind], a, b, c, dtype, layout)


def _prepare_descriptor(a, b, c, *, dtype: str, layout: str) -> Callable[[], object]:
    """Raises ValueError where a row of a matrix is not a multiple of 16 bytes."""
    for name, matrix in (("A", a), ("B", b), ("C", c)):
        row_bytes = matrix.shape[1] * matrix.element_size()
        if row_bytes % 16 or matrix.data_ptr() % 16:
            raise ValueError(f"Tensor descriptors need rows of whole 16 bytes, unlike {name}'s.")
    tiles = [t for t in TILES["descriptor"] if not t.specialize or _specializes(t, a, c, layout)]
    return _fastest(_launch_descriptor, tiles, a, b, c, dtype, layout)


VARIANTS = {"tiled": _prepare_tiled, "descriptor": _prepare_descriptor}
BATCHED = ("tiled",)


def _fastest(launch, tiles, a, b, c, dtype, layout) -> Callable[[], object]:
    """The launch of the quickest tile.

    A short look leaves those within a quarter of the best; two interleaved rounds then choose
    among them, since a warm chip clocks lower.
    """
    tiles = _fitting(tiles, *c.shape[-2:])
    if not a.is_cuda:
        return launch(tiles[-1], a, b, c, dtype, layout)
    _compile_ahead(launch, tiles, a, b, c, dtype, layout)
    calls = []
    for tile in tiles:
        try:
            calls.append(launch(tile, a, b, c, dtype, layout))
        except triton.OutOfResources:
            continue  # This chip has less shared memory or fewer registers than the tile needs.
    if not calls:
        raise RuntimeError("No tile of this kernel fits the device.")
    if len(calls) == 1:
        return calls[0]
    bench = partial(triton.testing.do_bench, return_mode="median")
    looks_ms = [bench(call, warmup=1, rep=3) for call in calls]
    close = [call for call, ms in zip(calls, looks_ms, strict=True) if ms < 1.25 * min(looks_ms)]
    rounds_ms = [[bench(call, warmup=5, rep=20) for call in close] for _ in range(2)]
    return min(zip(close, *rounds_ms, strict=True), key=lambda timed: min(timed[1:]))[0]


def _compile_ahead(launch, tiles, a, *others) -> None:
    """Compile all tiles side by side: each takes about a second, most of it without Python's lock.

    What fails here fails again, and is judged, where it is launched.
    """

    def compile_one(tile) -> None:
        with suppress(Exception), torch.cuda.device(a.device):  # Kept by each thread for itself.
            launch(tile, a, *others, bind=compiled_only)

    compile_one(tiles[0])  # What all of them share is worked out once, and not in several threads.
    with ThreadPoolExecutor() as pool:
        list(pool.map(compile_one, tiles[1:]))


def _fitting(tiles, m: int, n: int) -> tuple[Tile, ...]:
    """Leave out tiles twice as long as the matrix; the last, smallest one always stays."""
    fits = [t for t in tiles if t.m < 2 * max(m, 64) and t.n < 2 * max(n, 64)]
    return tuple(fits) or tiles[-1:]


def _launch_tiled(tile: Tile, a, b, c, dtype: str, layout: str, bind=None) -> Callable[[], object]:
    """A launch; or what `bind` makes of the kernel, its grid, arguments and options."""
    *products, m, k = a.shape
    n = c.shape[-1]
    block_k = tile.k_bytes // a.element_size()
    even = m % tile.m == 0 and n % tile.n == 0 and k % block_k == 0
    grid = (triton.cdiv(m, tile.m) * triton.cdiv(n, tile.n), *(products or (1,)), 1)
    constants = (*_constants(dtype, layout), even, tile.m, tile.n, block_k, GROUP_M)
    return (bind or _binder(tile))(
        tiled_kernel, grid, (a, b, c, m, n, k, *constants), options(tile)
    )


def _launch_descriptor(
    tile: Tile, a, b, c, dtype: str, layout: str, bind=None
) -> Callable[[], object]:
    """The same of the other kernel."""
    (m, k), n = a.shape, c.shape[1]
    block_k = tile.k_bytes // a.element_size()
    tiles = triton.cdiv(m, tile.m) * triton.cdiv(n, tile.n)
    programs = min(tiles, _chip(a).multi_processor_count) if a.is_cuda else tiles
    slices = _slices(tile, c)
    constants = (*_constants(dtype, layout), tile.specialize, tile.m, tile.n, block_k, GROUP_M)
    matrices = (a, b, c)
    if not tile.specialize:
        b_block = [tile.n, block_k] if layout == "nt" else [block_k, tile.n]
        blocks = ([tile.m, block_k], b_block, [tile.m, tile.n // slices])
        matrices = tuple(map(TensorDescriptor.from_tensor, (a, b, c), blocks))
    arguments = (*matrices, m, n, k, programs, *constants, slices)
    return (bind or _binder(tile))(descriptor_kernel, (programs, 1, 1), arguments, options(tile))


def _specializes(tile: Tile, a, c, layout: str) -> bool:
    """What Triton 3.6 compiles: on Hopper, C stored whole, and B read as the tensor cores want it.

    Those read n-contiguous operands of 16 bits only, others would have to be turned on the way.
    """
    hopper = c.is_cuda and _chip(c).major == 9
    return hopper and _slices(tile, c) == 1 and (layout == "nt" or a.element_size() == 2)


def _slices(tile: Tile, c) -> int:
    """Into how many stores C's tile is cut so that its staging fits beside the stages."""
    available = _chip(c).shared_memory_per_block_optin if c.is_cuda else 1 << 30
    stages_bytes = tile.stages * (tile.m + tile.n) * tile.k_bytes + 2048  # Barriers and padding.
    slices = 1
    while slices < 4 and stages_bytes + tile.m * tile.n * c.element_size() // slices > available:
        slices *= 2
    return slices


def _chip(tensor):
    return torch.cuda.get_device_properties(tensor.device)


def _constants(dtype: str, layout: str) -> tuple:
    return layout == "nt", "tf32" if dtype == "tf32" else "ieee", _ACC.get(dtype, tl.float32)


def options(tile: Tile) -> dict[str, int]:
    return {"num_warps": tile.warps, "num_stages": tile.stages}


def _binder(tile: Tile):
    return _bound_with_scratch if tile.specialize else bound


def _bound_with_scratch(*launch) -> Callable[[], object]:
    triton.set_allocator(_scratch)
    return partial(_with_scratch, bound(*launch))


def _with_scratch(launch: Callable[[], object]) -> None:
    triton.set_allocator(_scratch)  # Kept per thread and context by Triton, so set at each call.
    launch()


def _scratch(size: int, alignment: int, stream) -> torch.Tensor:
    """Where a launch keeps the descriptors it makes on the device."""
    return torch.empty(size, dtype=torch.int8, device="cuda")
