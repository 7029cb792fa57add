"""Pointer chases: which kernel follows the ring, how it is laid, the launch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pymicro import chains, compiler, driver
from pymicro.backends.base import Call, Place, Prepared
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

Capability = tuple[int, int]
_MOST_SHARED_BYTES = 48 * 1024
_L2_FROM_BYTES = 2**20  # no L1 is as large
# Lines of each SM for the search of L2's parts, at a stride that meets homes in both (they change
# every 4 KiB or more), yet all of one SM's in a page or two; steps as in `partitions.cu`. %smid may
# exceed the number of SMs where some are fused off.
_PROBED_LINES, _PROBE_STRIDE_BYTES, _PROBE_STEPS, _MOST_SMS = 64, 4 * 1024 + 128, 16, 256
# A first load by so much slower than the second crossed from one part to the other; an SM of the
# part that has all lines meets none but a few that wait for a page's translation.
_SLOW_FIRST, _FEWEST_SLOW = 1.25, 0.2
_LINE_BYTES = 128
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
    ("memory", "generic"): ChaseKernel("latency/chase.cu", "generic"),
    ("memory", "atomic"): ChaseKernel("latency/chase.cu", "atomic"),
    ("host", "load"): ChaseKernel("latency/chase.cu", "host"),
    ("shared", "load"): ChaseKernel("latency/on_chip.cu", "load"),
    ("shared", "atomic"): ChaseKernel("latency/on_chip.cu", "atomic"),
    ("dsmem", "load"): ChaseKernel("latency/on_chip.cu", "load", 1, (9, 0)),
    ("dsmem", "atomic"): ChaseKernel("latency/on_chip.cu", "atomic", 1, (9, 0)),
}
# L1 knows lines by their virtual addresses, so a hit there says nothing of translations, which
# places a page or more apart are about.
PAST_L1, _PAGE_BYTES = ChaseKernel("latency/chase.cu", "l2"), 4096


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return ("chase",)


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Lay the ring and bind the chase.

    Raises:
        Unavailable: this kind of step does not exist there, or the ring does not fit.
    """
    row = kernel_of(case.params)
    assert place.capability is not None
    if place.capability < row.first:
        raise Unavailable("clusters need compute capability 9.0 or later.")
    if chains.is_on_chip(case.params):
        return _on_chip(row, case, place, arrays)
    return _in_memory(row, case, place, arrays)


def kernel_of(params: Mapping[str, Any]) -> ChaseKernel:
    """The chase for a case.

    Raises:
        Unavailable: this kind of step does not exist there.
    """
    where, step = params["where"], params["step"]
    if (where, step) == ("memory", "load") and params["stride"] >= _PAGE_BYTES:
        return PAST_L1
    row = ROWS.get((where, step))
    if row is None:
        raise Unavailable(f"{step} on {where} memory is not measured.")
    return row


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
    if row.step != "host":
        _settle(call, case, place, count * min(stride, _LINE_BYTES))
        first.upload(np.array([ring.ptr + start], np.uint64))

    def close() -> None:
        ring.free()
        first.free()

    in_l2 = row.step in ("l1", "generic") and _L2_FROM_BYTES <= count * stride <= _l2_bytes(place)
    return Prepared(call, {"kernel": row.name} | (partitions(place) if in_l2 else {}), close)


def _settle(call: Call, case: Case, place: Place, lines_bytes: int) -> None:
    """Leave in L2 what a walk of many rounds leaves there: of lines that may be there in part,
    what it keeps from round to round; of more lines nothing."""
    if lines_bytes > 2 * _l2_bytes(place):
        _displace(place)
        return
    for _ in range(-(-chains.places(case.params) // chains.steps(case.params))):
        call()


def _l2_bytes(place: Place) -> int:
    return driver.open_gpu(place.index).attribute("L2_CACHE_SIZE")


@cache
def partitions(place: Place) -> dict[str, float]:
    """Cycles of L2 hits and of loads from memory, as far as they depend on who asks for what.

    `l2_cycles` is the median over SMs of a hit, `l2_least_cycles` and `l2_most_cycles` the nearest
    and the farthest SM's. Where L2 has two parts, `l2_other_part_cycles` is a hit that only the
    other part holds, `memory_near_cycles` and `memory_far_cycles` loads of lines whose home is in
    an SM's own part and in the other.
    """
    import numpy as np

    each, stride = ctypes.c_uint32(_PROBED_LINES), ctypes.c_int64(_PROBE_STRIDE_BYTES)
    base = driver.Buffer((_MOST_SMS * _PROBED_LINES * _PROBE_STRIDE_BYTES,), "uint8")
    cycles = driver.Buffer((2, _MOST_SMS, _PROBED_LINES), "uint32")
    cycles.fill_bytes(0)
    at, out = ctypes.c_uint64(base.ptr), ctypes.c_uint64(cycles.ptr)
    every = [at, ctypes.c_uint32(_MOST_SMS * _PROBED_LINES), stride]
    sms = ctypes.c_uint32(_MOST_SMS)

    def launch(entry: str, blocks: int, threads: int, arguments: list[Any]) -> Any:
        kernel = _load(ChaseKernel("latency/partitions.cu", "l2"), entry, place)
        kernel.bind((blocks, 1, 1), (threads, 1, 1), arguments, place.stream)()
        return cycles.download().astype(np.float64)

    blocks = place.sm_count or 1
    launch("place", blocks, _LINKERS, every)
    _displace(place)
    from_memory, _ = launch("firsts", blocks, 1, [at, each, stride, sms, out])
    _displace(place)
    launch("touch", 1, _LINKERS, [*every, at])
    firsts, seconds = launch("firsts", blocks, 1, [at, each, stride, sms, out])
    steady, _ = launch("again", blocks, 1, [at, each, stride, sms, ctypes.c_uint32(4), out])
    base.free()
    cycles.free()
    known = firsts.any(axis=1)
    return distances(*(x[known] for x in (from_memory, firsts, seconds, steady / _PROBE_STEPS)))


def distances(from_memory: Any, firsts: Any, seconds: Any, steady: Any) -> dict[str, float]:
    """What `partitions` gives, of cycles by SM and line: loads that found L2 without the line,
    first loads after one SM had asked for all lines, the loads after those, and loads in a row.

    Single loads carry the cost of reading the clock, loads in a row do not.
    """
    import numpy as np

    by_sm = steady.mean(axis=1)
    hit = float(np.median(by_sm))
    found = {
        "l2_cycles": hit,
        "l2_least_cycles": float(by_sm.min()),
        "l2_most_cycles": float(by_sm.max()),
    }
    is_slow = firsts > _SLOW_FIRST * seconds
    is_other = is_slow.mean(axis=1) > _FEWEST_SLOW
    if not is_other.any():
        return found
    is_far, reading = is_slow[is_other], float(np.median(seconds)) - hit
    extra = (firsts - seconds)[is_other][is_far]
    loads = from_memory[is_other]
    return found | {
        "l2_other_part_cycles": hit + float(np.median(extra)),
        "memory_near_cycles": float(np.median(loads[~is_far])) - reading,
        "memory_far_cycles": float(np.median(loads[is_far])) - reading,
    }


def _displace(place: Place) -> None:
    """Leave nothing of others in L2."""
    other = _device(2 * _l2_bytes(place))
    other.fill_bytes(0)
    driver.check(driver.cuda().cuCtxSynchronize())
    other.free()


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
