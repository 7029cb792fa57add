"""Copies between host and device: by the copy engines or by a kernel, one way or both at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Call, Place, Prepared
from pymicro.backends.cuda.host_memory import HostMemory
from pymicro.backends.cuda.near import near
from pymicro.benchmark import Case
from pymicro.errors import Unavailable, WrongResult

_THREADS, _PACK_BYTES = 512, 16
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: the legacy stream does not wait for it


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return ("engine", "sm")


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Memory of the host, filled, and the copy; what goes to the host is compared here.

    Raises:
        Unavailable: so much cannot be pinned, or the size is none for the SMs.
        WrongResult: what arrived at the host differs.
    """
    path, size = case.params["path"], case.params["size"]
    notes: dict[str, Any] = {"ran_on": [], "host_memory": case.params["host"]}
    a, c = arrays["a"], arrays["c"]
    copy = _sm(place, size) if case.variant == "sm" else _engine(place, case, size)
    if path == "d2d":
        return Prepared(copy("d2d", c.ptr, a.ptr), notes)
    hosts: list[HostMemory] = []
    closing: list[Call] = []
    try:
        with near(driver.open_gpu(place.index).pci_bus_id) as node:
            for _ in range(2 if path == "both" else 1):
                hosts.append(HostMemory(case.params["host"], size))
                closing.append(hosts[-1].free)
            notes["host_numa_node"] = node
        if path == "both":
            call, close = _both(place, copy, hosts, a.ptr, c.ptr)
            closing.insert(0, close)
        else:
            there = hosts[0].device if case.variant == "sm" else hosts[0].address
            ends = (c.ptr, there) if path == "h2d" else (there, a.ptr)
            call = copy(path, *ends)
        words = a.download()
        hosts[0].words[:] = words
        if path != "h2d":
            _compare(call, hosts[-1], words)
    except BaseException:
        _all(closing)
        raise
    return Prepared(call, notes, lambda: _all(closing))


def _all(closing: list[Call]) -> None:
    for close in closing:
        close()


def _compare(call: Call, host: HostMemory, words: Any) -> None:
    """One copy onto memory that holds something else."""
    host.words[:] = ~words
    call()
    driver.check(driver.cuda().cuCtxSynchronize())
    wrong = int((host.words != words).sum())
    if wrong:
        raise WrongResult(f"wrong result: {wrong} of {words.size} words differ on the host.")


Copy = Callable[..., Call]


def _engine(place: Place, case: Case, size: int) -> Copy:
    """The driver's copies: queued, or for pageable memory those that return when done."""
    cuda, queued = driver.cuda(), case.params["host"] != "pageable"
    names = {"h2d": "cuMemcpyHtoD", "d2h": "cuMemcpyDtoH", "d2d": "cuMemcpyDtoD"}

    def copy(path: str, to: int, source: int, stream: Any = None) -> Call:
        if not queued:
            function = getattr(cuda, names[path])
            return lambda: driver.check(function(to, source, size))
        function = getattr(cuda, f"{names[path]}Async")
        on = cuda.CUstream(place.stream) if stream is None else stream
        return lambda: driver.check(function(to, source, size, on))

    return copy


def _sm(place: Place, size: int) -> Copy:
    if size % _PACK_BYTES:
        raise Unavailable(f"the SMs copy multiples of {_PACK_BYTES} bytes.")
    assert place.capability is not None
    major, minor = place.capability
    kernel = driver.Kernel.load(
        compiler.compile_cubin("transfer/copy.cu", f"sm_{major}{minor}"), "copy"
    )

    def copy(path: str, to: int, source: int) -> Call:
        values = (to, source, size // _PACK_BYTES)
        given = [kind(v) for kind, v in zip(_TYPES, values, strict=True)]
        return kernel.bind((place.sm_count, 1, 1), (_THREADS, 1, 1), given, place.stream)

    return copy


_TYPES = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64)


def _both(place: Place, copy: Copy, hosts: list[HostMemory], a: int, c: int) -> tuple[Call, Call]:
    """Host to device on the measured stream, device to host on another that starts and ends with
    it; the time is that of the slower."""
    cuda, check = driver.cuda(), driver.check
    ours, other = cuda.CUstream(place.stream), check(cuda.cuStreamCreate(_NON_BLOCKING))
    begin, end = (check(cuda.cuEventCreate(2)) for _ in range(2))  # 2: without a time
    down = copy("h2d", c, hosts[0].address)
    up = copy("d2h", hosts[1].address, a, other)

    def call() -> None:
        check(cuda.cuEventRecord(begin, ours))
        check(cuda.cuStreamWaitEvent(other, begin, 0))
        down()
        up()
        check(cuda.cuEventRecord(end, other))
        check(cuda.cuStreamWaitEvent(ours, end, 0))

    def close() -> None:
        for event in (begin, end):
            check(cuda.cuEventDestroy(event))
        check(cuda.cuStreamDestroy(other))

    return call, close
