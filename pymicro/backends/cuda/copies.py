"""Who moves the bytes of a transfer: the copy engines, a kernel on the SMs, or host threads that
fill pinned buffers for the engines. Each offers `copy(way, to, source, stream)`, a call that copies
the case's bytes one way (`h2d`, `d2h`, `d2d`) on a stream, None for the measured one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Call, Place
from pymicro.backends.cuda import host_memory
from pymicro.errors import Unavailable

Copy = Callable[..., Call]
_THREADS, _PACK_BYTES = 512, 16
_TYPES = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64)
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: the legacy stream does not wait for it
NO_TIME = 2  # CU_EVENT_DISABLE_TIMING
# Copies this long have a rate, and those in a queue may overlap at their ends, as in nvbandwidth,
# which makes sixteen in one kernel; shorter ones show what one costs, its launch included.
_OVERLAP_BYTES = 2**24
_FIRST_TO_OVERLAP = (9, 0)  # programmatic dependent launch

# Buffers of a staged copy: large enough that the link does not wait between them, small enough that
# each of several threads has some to move. Beyond a dozen threads the memory is what they wait for.
_LEAST_BYTES, _MOST_BYTES, _PIECES = 2**18, 2**21, 16
_MOST_THREADS, _PIECES_A_THREAD = 12, 2


def engine(place: Place, size: int, is_queued: bool = True) -> Copy:
    """The driver's copies: queued, or for pageable memory those that return when done."""
    cuda = driver.cuda()
    names = {"h2d": "cuMemcpyHtoD", "d2h": "cuMemcpyDtoH", "d2d": "cuMemcpyDtoD"}

    def copy(way: str, to: int, source: int, stream: Any = None) -> Call:
        if not is_queued:
            function = getattr(cuda, names[way])
            return lambda: driver.check(function(to, source, size))
        function = getattr(cuda, f"{names[way]}Async")
        on = cuda.CUstream(place.stream) if stream is None else stream
        return lambda: driver.check(function(to, source, size, on))

    return copy


def sm(place: Place, size: int) -> Copy:
    """Our kernel, two blocks an SM.

    Raises:
        Unavailable: the size is none for it.
    """
    if size % _PACK_BYTES:
        raise Unavailable(f"the SMs copy multiples of {_PACK_BYTES} bytes.")
    assert place.capability is not None
    major, minor = place.capability
    kernel = driver.Kernel.load(
        compiler.compile_cubin("transfer/copy.cu", f"sm_{major}{minor}"), "copy"
    )

    def copy(way: str, to: int, source: int, stream: Any = None) -> Call:
        values = (to, source, size // _PACK_BYTES)
        given = [kind(v) for kind, v in zip(_TYPES, values, strict=True)]
        on = place.stream if stream is None else int(stream)
        grid, block = (2 * place.sm_count, 1, 1), (_THREADS, 1, 1)
        return kernel.bind(grid, block, given, on, overlap=overlaps(place, size))

    return copy


def overlaps(place: Place, size: int) -> bool:
    """Whether copies by SMs that are queued one behind the other overlap at their ends."""
    can = place.capability is not None and place.capability >= _FIRST_TO_OVERLAP
    return can and size >= _OVERLAP_BYTES


def destroy(event: Any) -> None:
    driver.check(driver.cuda().cuEventDestroy(event))


def stages(size: int, cores: int) -> tuple[int, int]:
    """Host threads of a staged copy, and bytes of each of their two buffers."""
    chunk_bytes = min(max(size // _PIECES, _LEAST_BYTES), _MOST_BYTES)
    pieces = -(-size // chunk_bytes)
    return max(1, min(pieces // _PIECES_A_THREAD, _MOST_THREADS, cores)), chunk_bytes


class Staging:
    """Pinned buffers, events and streams for a staged copy; `close` gives them back."""

    def __init__(self, context: Any, size: int, threads: int, chunk_bytes: int) -> None:
        """Take them from the driver.

        Raises:
            Unavailable: the C++ module was not built, or so much cannot be pinned.
        """
        try:
            from pymicro import _native
        except ImportError as error:
            raise Unavailable("the C++ module was not built when pymicro was installed.") from error
        self._copy, self._size, self._context = _native.staged_copy, size, int(context)
        self._chunk_bytes = chunk_bytes
        self._closing: list[Call] = []
        try:
            room = host_memory.staging(2 * threads * chunk_bytes)
            self._closing.append(room.free)
            starts = [room.address + 2 * i * chunk_bytes for i in range(threads)]
            self._stages = [self._stage(start, chunk_bytes) for start in starts]
        except BaseException:
            self.close()
            raise

    def _stage(self, start: int, chunk_bytes: int) -> tuple[int, ...]:
        cuda, check = driver.cuda(), driver.check
        stream = check(cuda.cuStreamCreate(NON_BLOCKING))
        self._closing.append(lambda: check(cuda.cuStreamDestroy(stream)))
        events = [check(cuda.cuEventCreate(NO_TIME)) for _ in range(2)]
        self._closing += [partial(destroy, event) for event in events]
        first, second = map(int, events)
        return start, first, start + chunk_bytes, second, int(stream)

    def copy(self, way: str, to: int, source: int, stream: Any = None) -> Call:
        """Waits until all has arrived, whatever the stream."""

        def call() -> None:
            given = (to, source, self._size, way == "h2d", self._context, self._stages)
            try:
                self._copy(*given, self._chunk_bytes)
            except RuntimeError as error:
                raise driver.DriverError(f"{error}.") from error

        return call

    def close(self) -> None:
        for close in reversed(self._closing):
            close()
        self._closing = []
