"""Pointer chases: which kernel follows the ring, how it is laid, the launch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymicro import chains, compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

Capability = tuple[int, int]
_MOST_SHARED_BYTES = 48 * 1024
_LINKERS = 256  # threads that lay a ring on chip, or a block of those that lay one in memory


@dataclass(frozen=True)
class ChaseKernel:
    """One compiled chase; `step` and `hop` as in the sources, `first` the oldest chip for it."""

    source: str
    step: str
    hop: int = 0
    first: Capability = (6, 1)

    @property
    def name(self) -> str:
        where = "on_chip" if "on_chip" in self.source else "chase"
        return f"{where}_{self.step}{f'_hop{self.hop}' if self.hop else ''}"

    def macros(self) -> tuple[tuple[str, str | int], ...]:
        return (("STEP", self.step), ("HOP", self.hop))


# (where, step) -> kernel. A load of device memory may be kept in L1; the ring's size decides.
ROWS: dict[tuple[str, str], ChaseKernel] = {
    ("memory", "load"): ChaseKernel("latency/chase.cu", "l1"),
    ("memory", "atomic"): ChaseKernel("latency/chase.cu", "atomic"),
    ("host", "load"): ChaseKernel("latency/chase.cu", "host"),
    ("shared", "load"): ChaseKernel("latency/on_chip.cu", "load"),
    ("shared", "atomic"): ChaseKernel("latency/on_chip.cu", "atomic"),
    ("dsmem", "load"): ChaseKernel("latency/on_chip.cu", "load", 1, (9, 0)),
    ("dsmem", "atomic"): ChaseKernel("latency/on_chip.cu", "atomic", 1, (9, 0)),
}


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return ("chase",)


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Lay the ring and bind the chase.

    Raises:
        Unavailable: this kind of step does not exist there, or the ring does not fit.
    """
    where, step = case.params["where"], case.params["step"]
    row = ROWS.get((where, step))
    if row is None:
        raise Unavailable(f"an {step} on {where} memory is not measured.")
    assert place.capability is not None
    if place.capability < row.first:
        raise Unavailable("clusters need compute capability 9.0 or later.")
    if chains.is_on_chip(case.params):
        return _on_chip(row, case, place, arrays)
    return _in_memory(row, case, place, arrays)


def _on_chip(row: ChaseKernel, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    size, count = case.params["size"], chains.places(case.params)
    if size > _MOST_SHARED_BYTES:
        raise Unavailable("a ring in shared memory has 48 KiB at most; try --size 16KiB.")
    arguments = [
        ctypes.c_uint64(arrays["order"].ptr),
        ctypes.c_uint32(count),
        ctypes.c_uint32(0),
        ctypes.c_uint32(chains.steps(case.params) // chains.STEPS_A_ROUND),
        ctypes.c_uint64(arrays["c"].ptr),
    ]
    blocks = row.hop + 1
    call = _load(row, "chase", place).bind(
        (blocks, 1, 1), (_LINKERS, 1, 1), arguments, place.stream, size, (blocks, 1, 1)
    )
    return Prepared(call, {"kernel": row.name})


def _in_memory(row: ChaseKernel, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    count, stride = chains.places(case.params), case.params["stride"]
    ring = _HostMemory(count * stride) if row.step == "host" else _device(count * stride)
    order, first = arrays["order"], driver.Buffer((1,), "uint64")
    _lay(row, place, ring.ptr, order, count, stride)
    import numpy as np

    start = int(order.download()[0]) * stride
    first.upload(np.array([ring.ptr + start], np.uint64))
    kernel = _load(row, "chase", place)
    _prefer_l1(kernel)
    arguments = [
        ctypes.c_uint64(ring.ptr),
        ctypes.c_uint64(first.ptr),
        ctypes.c_uint32(0),
        ctypes.c_uint32(chains.steps(case.params) // chains.STEPS_A_ROUND),
        ctypes.c_uint64(arrays["c"].ptr),
    ]
    call = kernel.bind((1, 1, 1), (1, 1, 1), arguments, place.stream)

    def close() -> None:
        ring.free()
        first.free()

    return Prepared(call, {"kernel": row.name}, close)


def _lay(row: ChaseKernel, place: Place, base: int, order: Any, count: int, stride: int) -> None:
    """Link the ring and bring it into the caches as far as they hold it."""
    blocks = (4 * place.sm_count, 1, 1)
    threads = (_LINKERS, 1, 1)
    ring = [ctypes.c_int64(count), ctypes.c_int64(stride)]
    link = [ctypes.c_uint64(base), ctypes.c_uint64(order.ptr), *ring]
    _load(row, "link", place).bind(blocks, threads, link, place.stream)()
    touch = [ctypes.c_uint64(base), *ring, ctypes.c_uint64(base)]
    _load(row, "touch", place).bind(blocks, threads, touch, place.stream)()
    driver.check(driver.cuda().cuCtxSynchronize())


class _HostMemory:
    """Pinned memory of the host that the device reads over the link."""

    def __init__(self, nbytes: int) -> None:
        cuda = driver.cuda()
        self._host = int(driver.check(cuda.cuMemHostAlloc(nbytes, 2)))  # 2: mapped
        self.ptr = int(driver.check(cuda.cuMemHostGetDevicePointer(self._host, 0)))

    def free(self) -> None:
        driver.check(driver.cuda().cuMemFreeHost(self._host))


def _device(nbytes: int) -> driver.Buffer:
    return driver.Buffer((nbytes,), "uint8")


def _prefer_l1(kernel: driver.Kernel) -> None:
    """Leave all of the SM's memory to L1."""
    cuda = driver.cuda()
    wanted = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    driver.check(cuda.cuFuncSetAttribute(kernel.function, wanted, 0))


def _load(row: ChaseKernel, entry: str, place: Place) -> driver.Kernel:
    assert place.capability is not None
    major, minor = place.capability
    cubin = compiler.compile_cubin(row.source, f"sm_{major}{minor}", row.macros())
    return driver.Kernel.load(cubin, entry)
