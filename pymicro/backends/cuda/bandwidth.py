"""Kernels that move memory: their rows, which of them suit a case, a small tuner, the launch.

Arrays in device memory are streamed through registers (`stream.cu`) or by Hopper's bulk-copy
engine (`bulk.cu`); which is faster differs from chip to chip, so the candidates are tried on the
arrays of the case and the fastest is kept. On-chip levels have a kernel each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.benchmark import Case
from pymicro.errors import Unavailable
from pymicro.streams import PARTIALS, SCALARS, inputs_of, is_reduction, passes

Capability = tuple[int, int]
Call = Callable[[], None]
PACK_BYTES = 16
_TRIES = 3


@dataclass(frozen=True)
class MemoryKernel:
    """One compiled configuration of one source file.

    Attributes:
        name: the row's word in results; the operation and dtype are not part of it.
        threads: threads of a block.
        unroll: packs of each input that a thread has in flight (`stream.cu` and on-chip kernels).
        tile_bytes: of each array, done by a block in one turn.
        stages: tiles in the ring of `bulk.cu`.
        hints: cache hints of loads and stores, words of `access.cuh`.
        persistent: as many blocks as fit at once take turns, else one block does one tile.
        first, last: compute capabilities it runs on, both included; last None is open.
        defines: further macros.
    """

    name: str
    source: str
    entry: str
    threads: int
    unroll: int = 0
    tile_bytes: int = 0
    stages: int = 0
    hints: tuple[str, str] = ("plain", "plain")
    persistent: bool = True
    first: Capability = (6, 1)
    last: Capability | None = None
    defines: tuple[tuple[str, str | int], ...] = ()

    def runs_on(self, capability: Capability) -> bool:
        return self.first <= capability and (self.last is None or capability <= self.last)

    def macros(self, op: str, dtype: str) -> tuple[tuple[str, str | int], ...]:
        """Everything the compiler must know."""
        load, store = self.hints
        own: list[tuple[str, str | int]] = [("OP", op), ("DTYPE", dtype), ("THREADS", self.threads)]
        own += [("LOAD", load), ("STORE", store)]
        if self.stages:
            own += [("TILE_BYTES", self.tile_bytes), ("STAGES", self.stages)]
        if self.unroll:
            own.append(("UNROLL", self.unroll))
        return (*own, *self.defines)

    def shared_bytes(self, op: str) -> int:
        """Dynamic shared memory of a block."""
        return self.tile_bytes * (1 if op == "write" else self.stages * inputs_of(op))


def stream(
    threads: int,
    unroll: int,
    hints: tuple[str, str],
    persistent: bool = True,
    pack_bytes: int = PACK_BYTES,
    first: Capability = (6, 1),
) -> MemoryKernel:
    """A row of `stream.cu`."""
    name = f"stream{8 * pack_bytes}_t{threads}_u{unroll}_{'_'.join(hints)}"
    return MemoryKernel(
        name=name if persistent else f"{name}_tiles",
        source="bandwidth/stream.cu",
        entry="stream",
        threads=threads,
        unroll=unroll,
        tile_bytes=threads * unroll * pack_bytes,
        hints=hints,
        persistent=persistent,
        first=first,
        defines=(("PACK_BYTES", pack_bytes),),
    )


def bulk(
    threads: int, tile_bytes: int, stages: int, hints: tuple[str, str], drain_bulk: bool = True
) -> MemoryKernel:
    """A row of `bulk.cu`; `drain_bulk` lets the engine carry results out as well."""
    return MemoryKernel(
        name=f"bulk_{tile_bytes // 1024}k_x{stages}_t{threads}_{'_'.join(hints)}"
        + ("" if drain_bulk else "_stores"),
        source="bandwidth/bulk.cu",
        entry="stream",
        threads=threads,
        tile_bytes=tile_bytes,
        stages=stages,
        hints=hints,
        first=(9, 0),
        defines=(("DRAIN_BULK", int(drain_bulk)),),
    )


# Candidates by operation; the tuner decides among those that the chip can run.
STREAMS: dict[str, tuple[MemoryKernel, ...]] = {
    "read": (
        stream(512, 4, ("once", "plain")),
        stream(1024, 4, ("once", "plain")),
        stream(512, 4, ("once", "plain"), pack_bytes=32, first=(10, 0)),
        bulk(128, 32768, 6, ("plain", "plain")),
        bulk(256, 16384, 6, ("plain", "plain")),
    ),
    "write": (
        stream(512, 4, ("plain", "plain")),
        stream(256, 2, ("plain", "stream"), persistent=False),
        bulk(32, 16384, 8, ("plain", "plain")),
    ),
    "copy": (
        stream(256, 4, ("once", "stream")),
        stream(512, 4, ("first", "plain"), persistent=False),
        stream(512, 4, ("once", "plain"), pack_bytes=32, first=(10, 0)),
        bulk(32, 16384, 6, ("first", "plain")),
    ),
    "triad": (
        stream(256, 4, ("once", "stream")),
        stream(512, 4, ("first", "plain"), persistent=False),
        stream(512, 4, ("once", "plain"), pack_bytes=32, first=(10, 0)),
        bulk(256, 16384, 3, ("plain", "plain"), drain_bulk=False),
    ),
}
STREAMS |= {"scale": STREAMS["copy"], "add": STREAMS["triad"], "dot": STREAMS["read"]}

# Arrays that stay in L2, several passes a launch: past L1 without prefetching neighbours.
RESIDENT = (stream(1024, 4, ("l2", "plain")), stream(512, 4, ("l2", "plain")))

_L1 = MemoryKernel(
    "l1_t512_u4", "bandwidth/l1.cu", "l1", 512, 4, 512 * 4 * PACK_BYTES, hints=("l1", "plain")
)


def on_chip(level: str, size_bytes: int) -> MemoryKernel:
    """The kernel for `size_bytes` in each SM: `l1`, `shared`, or `dsmem` (a neighbour's shared).

    Raises:
        Unavailable: no kernel has chunks of this size.
    """
    if level == "l1":
        if size_bytes % _L1.tile_bytes or size_bytes > 192 * 1024:
            raise Unavailable(
                f"an L1 of one SM is read in whole tiles of {_L1.tile_bytes // 1024} KiB, "
                "192 KiB at most; try --size 64KiB."
            )
        return _L1
    threads = 1024 if size_bytes % (1024 * PACK_BYTES) == 0 else 256
    unroll, rest = divmod(size_bytes, threads * PACK_BYTES)
    if rest or not 1 <= unroll <= 14:
        raise Unavailable(
            "shared memory of one SM is gone through in chunks of whole 4 KiB up to 56 KiB or "
            "whole 16 KiB up to 224 KiB; try --size 64KiB."
        )
    return MemoryKernel(
        name=f"{level}_t{threads}_u{unroll}",
        source="bandwidth/shared.cu",
        entry="shared_memory",
        threads=threads,
        unroll=unroll,
        tile_bytes=size_bytes,
        first=(9, 0) if level == "dsmem" else (6, 1),
        defines=(("HOP", int(level == "dsmem")),),
    )


_GATHER = MemoryKernel("gather_t256_u8", "bandwidth/gather.cu", "gather", 256, 8)


def rows() -> Iterator[tuple[MemoryKernel, str]]:
    """Every row with each operation that it may be compiled for."""
    for op, candidates in STREAMS.items():
        yield from ((row, op) for row in candidates)
        yield from ((row, op) for row in RESIDENT)
    yield _L1, "read"
    for level in ("shared", "dsmem"):
        yield on_chip(level, 65536), "read"
    yield on_chip("shared", 65536), "write"


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return ("fastest",)


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Compile, load and bind the kernel for a case.

    Raises:
        Unavailable: nothing here does this operation on this level or with this access.
    """
    level, access, op = (case.params[k] for k in ("level", "access", "op"))
    if access != "sequential":
        return _prepare_gather(case, place, arrays)
    if level == "memory":
        return _prepare_stream(case, place, arrays)
    if op != "read" and (op, level) != ("write", "shared"):
        raise Unavailable(f"{level} is measured by --op read only{_also_write(level)}.")
    return _prepare_on_chip(case, place, arrays)


def _also_write(level: str) -> str:
    return " or write" if level == "shared" else ""


def _prepare_stream(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    op, times = case.params["op"], passes(case.params)
    candidates = RESIDENT if times > 1 else STREAMS[op]
    usable = [row for row in candidates if row.runs_on(_capability(place))]
    calls = {}
    for row in usable:
        kernel = _load(row, op, case.dtype, place)
        calls[row.name] = bind_stream(row, kernel, case, place, arrays)
    name, tried_s = fastest(calls, place.stream)
    return Prepared(calls[name], {"kernel": name, "tuned_s": tried_s, "passes": times})


def bind_stream(
    row: MemoryKernel, kernel: driver.Kernel, case: Case, place: Place, arrays: Mapping[str, Any]
) -> Call:
    """A launch of a streaming kernel on the arrays of a case."""
    op, size = case.params["op"], case.params["size"]
    shared = row.shared_bytes(op) if row.stages else 0
    tiles = max(size // row.tile_bytes, 1)
    fitting = case.params["sms"] * blocks_per_sm(kernel, row.threads, shared)
    grid = min(fitting, tiles) if row.persistent or is_reduction(op) else tiles
    if is_reduction(op):
        grid = min(grid, PARTIALS)
    out = arrays["c"]
    a, b = (arrays.get(name, out).ptr for name in "ab")
    count = size // _itemsize(case.dtype)
    arguments = [
        ctypes.c_uint64(a),
        ctypes.c_uint64(b),
        ctypes.c_uint64(out.ptr),
        ctypes.c_double(SCALARS[case.dtype]),
        ctypes.c_int64(count),
        ctypes.c_uint32(passes(case.params)),
    ]
    return kernel.bind((grid, 1, 1), (row.threads, 1, 1), arguments, place.stream, shared)


def _prepare_on_chip(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    level, op, size, sms = (case.params[k] for k in ("level", "op", "size", "sms"))
    row = on_chip(level, size)
    if not row.runs_on(_capability(place)):
        raise Unavailable("clusters need compute capability 9.0 or later.")
    cluster = 2 if level == "dsmem" else 1
    if sms % cluster:
        raise Unavailable("SMs read one another's shared memory in pairs; --sms must be even.")
    shared = 0 if level == "l1" else size
    kernel = _load(row, op, "int32", place, shared)
    arguments: list[Any] = [ctypes.c_uint64(arrays[name].ptr) for name in "ac"]
    if level == "l1":
        arguments.append(ctypes.c_int64(size // PACK_BYTES))
    arguments.append(ctypes.c_uint32(passes(case.params)))
    call = kernel.bind(
        (sms, 1, 1), (row.threads, 1, 1), arguments, place.stream, shared, (cluster, 1, 1)
    )
    return Prepared(call, {"kernel": row.name, "passes": passes(case.params)})


def _prepare_gather(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    op, access, level = (case.params[k] for k in ("op", "access", "level"))
    if op != "copy" or level != "memory":
        raise Unavailable(f"{access} access is measured by --op copy in memory only.")
    row = replace(_GATHER, defines=(("ACCESS", access),))
    kernel = _load(row, op, case.dtype, place)
    count = case.params["size"] // _itemsize(case.dtype)
    stride = case.params["stride"] if access == "strided" else 1
    arguments = [
        ctypes.c_uint64(arrays["a"].ptr),
        ctypes.c_uint64(arrays["c"].ptr),
        ctypes.c_int64(count // stride),
        ctypes.c_int64(stride),
        ctypes.c_int64(count),
    ]
    grid = case.params["sms"] * blocks_per_sm(kernel, row.threads, 0)
    call = kernel.bind((grid, 1, 1), (row.threads, 1, 1), arguments, place.stream)
    return Prepared(call, {"kernel": f"{row.name}_{access}"})


def fastest(calls: Mapping[str, Call], stream_handle: int) -> tuple[str, dict[str, float]]:
    """Which call is the fastest, and the best seconds of each; they take turns."""
    if len(calls) == 1:
        return next(iter(calls)), {}
    cuda = driver.cuda()
    stream_ = cuda.CUstream(stream_handle)
    start, stop = (driver.check(cuda.cuEventCreate(0)) for _ in range(2))
    seconds: dict[str, float] = {}
    for turn in range(1 + _TRIES):  # The first warms up.
        for name, call in calls.items():
            driver.check(cuda.cuEventRecord(start, stream_))
            call()
            driver.check(cuda.cuEventRecord(stop, stream_))
            driver.check(cuda.cuEventSynchronize(stop))
            taken = driver.check(cuda.cuEventElapsedTime(start, stop)) * 1e-3
            if turn:
                seconds[name] = min(taken, seconds.get(name, taken))
    for event in (start, stop):
        driver.check(cuda.cuEventDestroy(event))
    return min(seconds, key=seconds.__getitem__), seconds


def blocks_per_sm(kernel: driver.Kernel, threads: int, shared_bytes: int) -> int:
    """How many blocks an SM holds at once."""
    asked = driver.cuda().cuOccupancyMaxActiveBlocksPerMultiprocessor
    return max(1, int(driver.check(asked(kernel.function, threads, shared_bytes))))


def _load(
    row: MemoryKernel, op: str, dtype: str, place: Place, shared_bytes: int | None = None
) -> driver.Kernel:
    major, minor = _capability(place)
    cubin = compiler.compile_cubin(row.source, f"sm_{major}{minor}", row.macros(op, dtype))
    if shared_bytes is None:
        shared_bytes = row.shared_bytes(op) if row.stages else 0
    return driver.Kernel.load(cubin, row.entry, shared_bytes)


def _capability(place: Place) -> Capability:
    assert place.capability is not None
    return place.capability


def _itemsize(dtype: str) -> int:
    from pymicro.dtypes import DTYPES

    return DTYPES[dtype].itemsize_bytes
