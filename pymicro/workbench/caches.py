"""Calls that put everything else out of the caches, on a CPU and on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pymicro import compiler, driver
from pymicro.backends.base import Place

# Larger than the second level of any core so far.
_CORE_CACHE_BYTES = 2**22
# Larger than the last level of most CPUs whose size is not told.
_UNKNOWN_CACHE_BYTES = 2**26


def cpu_flush(written: float) -> Callable[[], None]:
    """Every core takes part: each has caches of its own besides its share of the last level."""
    import numpy as np

    from pymicro.devices.cpu import describe_cpu, usable_cores

    cache_bytes = describe_cpu().last_level_cache_bytes or _UNKNOWN_CACHE_BYTES
    cores = usable_cores()
    parts = np.empty((cores, 2 * cache_bytes // cores + 2 * _CORE_CACHE_BYTES), "uint8")
    pool, dirty = ThreadPoolExecutor(cores), round(written * parts.shape[1])

    def go_over(part: np.ndarray) -> None:
        part[:dirty] = 0
        part[dirty:].max(initial=0)

    def flush() -> None:
        for _ in pool.map(go_over, parts):
            pass

    parts.fill(0)  # Pages that were never written all read the same one.
    return flush


def room(index: int) -> driver.Buffer:
    """Memory of twice the L2 of GPU `index`, to go over."""
    gpu = driver.open_gpu(index)
    buffer = driver.Buffer((2 * gpu.attribute("L2_CACHE_SIZE"),), "uint8")
    buffer.fill_bytes(0)
    return buffer


def gpu_flush(place: Place, arch: str, buffer: driver.Buffer, written: float) -> Callable[[], None]:
    """A launch that goes over a buffer, writing so large a share of its lines (0 to 1)."""
    kernel = driver.Kernel.load(compiler.compile_cubin("cache.cu", arch), "displace")
    arguments = [
        ctypes.c_uint64(buffer.ptr),
        ctypes.c_int64(buffer.nbytes // 16),
        ctypes.c_uint32(round(written * 32) * 32),  # threads that write: whole warps of 1024
        ctypes.c_uint64(buffer.ptr),
    ]
    grid = (2 * (place.sm_count or 1), 1, 1)
    return kernel.bind(grid, (1024, 1, 1), arguments, place.stream)
