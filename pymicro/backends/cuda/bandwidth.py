"""Which of the memory kernels serves a case: a small tuner, and the launch.

The candidates of an operation are tried on the arrays of the case and the fastest is kept.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.backends.cuda.bandwidth_rows import (
    PACK_BYTES,
    RESIDENT,
    SHARED,
    STATIC_SHARED_BYTES,
    STREAMS,
    Capability,
    MemoryKernel,
    fits,
    gather,
    on_chip,
    shared_limit_bytes,
)
from pymicro.benchmark import Case
from pymicro.errors import Unavailable
from pymicro.streams import PARTIALS, SCALARS, is_reduction, passes

Call = Callable[[], None]
_TRIES = 3


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    """The fastest of our kernels, and the driver's own copy and fill; `shared` is how L2 is read
    where pairs of SMs ask for the same lines."""
    return ("fastest", "driver", "shared")


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Compile, load and bind the kernel for a case.

    Raises:
        Unavailable: nothing here does this operation on this level or with this access.
    """
    level, access, op = (case.params[k] for k in ("level", "access", "op"))
    if case.variant == "driver":
        return _prepare_driver(case, place, arrays)
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
    candidates = SHARED if case.variant == "shared" else candidates
    usable = [
        row
        for row in candidates
        if fits(row, op, _capability(place)) and _written_for(row, case.variant)
    ]
    if not usable:
        raise Unavailable(f"no kernel that moves memory is written for {case.variant}.")
    calls = {}
    for row in usable:
        kernel = _load(row, op, case.dtype, place)
        calls[row.name] = bind_stream(row, kernel, case, place, arrays)
    name, tried_s = fastest(calls, place.stream)
    return Prepared(calls[name], {"kernel": name, "tuned_s": tried_s, "passes": times})


def _written_for(row: MemoryKernel, variant: str) -> bool:
    """Whether a row belongs to a generation, `sm75`; planned by name only, for `readiness`.

    Streaming through registers is one kernel for all chips before the bulk-copy engine.
    """
    if not variant.startswith("sm"):
        return True
    number = int(variant[2:])
    path = (number // 10, number % 10)
    return row.first == path if path >= (9, 0) else row.first <= path


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
        clusters = min(grid, fitting // row.cluster, PARTIALS // row.cluster)
        grid = max(clusters, 1) * row.cluster
    out = arrays["c"]
    a, b = (arrays.get(name, out).ptr for name in "ab")
    count = size // _itemsize(case.dtype)
    arguments: list[Any] = [
        ctypes.c_uint64(a),
        ctypes.c_uint64(b),
        ctypes.c_uint64(out.ptr),
        ctypes.c_double(SCALARS[case.dtype]),
        ctypes.c_int64(count),
        ctypes.c_uint32(passes(case.params)),
        ctypes.c_uint32(fitting),
    ]
    grid_, block, cluster = (grid, 1, 1), (row.threads, 1, 1), (row.cluster, 1, 1)
    return kernel.bind(grid_, block, arguments, place.stream, shared, cluster)


def _prepare_driver(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """The driver's copy between two places of the device, and its fill of 1, 2 or 4 bytes."""
    op, itemsize, out = case.params["op"], _itemsize(case.dtype), arrays["c"]
    plain = case.params["level"] == "memory" and case.params["access"] == "sequential"
    if (
        not plain
        or passes(case.params) > 1
        or op not in ("copy", "write")
        or (op == "write" and itemsize == 8)
    ):
        raise Unavailable("the driver copies, and fills with values of up to 4 bytes, in memory.")
    cuda, queue = driver.cuda(), driver.cuda().CUstream(place.stream)
    if op == "copy":
        source = arrays["a"].ptr
        return Prepared(
            lambda: driver.check(cuda.cuMemcpyDtoDAsync(out.ptr, source, out.nbytes, queue))
        )
    fill = getattr(cuda, f"cuMemsetD{8 * itemsize}Async")
    bits, count = _scalar_bits(case.dtype), out.nbytes // itemsize
    return Prepared(lambda: driver.check(fill(out.ptr, bits, count, queue)))


def _scalar_bits(dtype: str) -> int:
    import numpy as np

    from pymicro.dtypes import DTYPES
    from pymicro.operands import encode

    row = DTYPES[dtype]
    stored = encode(np.array([SCALARS[dtype]], np.float32), row).astype(row.storage)
    return int(stored.view(f"u{stored.itemsize}")[0])


def _prepare_on_chip(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    level, op, size, sms = (case.params[k] for k in ("level", "op", "size", "sms"))
    row = on_chip(level, size)
    if not row.runs_on(_capability(place)):
        raise Unavailable("clusters need compute capability 9.0 or later.")
    limit = shared_limit_bytes(_capability(place)) - STATIC_SHARED_BYTES
    if level != "l1" and size > limit:
        raise Unavailable(f"a block of this chip has {limit // 1024} KiB of shared memory.")
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
    row = gather(access)
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
    return Prepared(call, {"kernel": row.name})


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
