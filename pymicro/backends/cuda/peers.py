"""Copies from one GPU to another: direct where the driver grants it, else by the driver through the
host; by our kernel; or piece by piece through pinned memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pymicro import driver, paths
from pymicro.backends.base import Call, Place, Prepared
from pymicro.backends.cuda import copies, host_memory, topology
from pymicro.benchmark import Case
from pymicro.driver import Buffer, Gpu
from pymicro.errors import Unavailable, WrongResult

_ALREADY = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Memory on both GPUs and the copy between them.

    Raises:
        Unavailable: there is no such pair, or no direct way for a kernel.
        WrongResult: what came back the other way is not what was sent.
    """
    source, target = _gpus(case.params["pair"], place)
    starts = target if case.params["path"] == "p2p-read" else source
    why_not = _access(starts, source if starts is target else target)
    words = arrays["a"].download()
    undo = ExitStack()
    try:
        there = _buffer(undo, source, words)
        here = _buffer(undo, target, ~words)
        call = _call(case, place, undo, source, target, there, here, why_not)
        back = None
        if case.params["path"] == "p2p-both":
            call, back = _both(case, place, undo, source, target, call, words)
        whole = _in(starts, call)
        if back is not None:
            whole()
            _compare(back, source, target, words)
    except BaseException:
        undo.close()
        raise
    notes = paths.notes(case.variant, case.params["path"])
    notes |= {"peer_access": why_not is None, "why_no_peer": why_not}
    return Prepared(whole, notes, undo.close, partial(_read, here, source, target))


def _gpus(pair: str, place: Place) -> tuple[Gpu, Gpu]:
    source, target = paths.ends(pair)
    if source == target:
        few = driver.device_count() == 1
        said = "one GPU has no peer: copies between GPUs need two."
        raise Unavailable(said if few else "a GPU is no peer of itself.")
    try:
        return driver.open_gpu(source), driver.open_gpu(target)
    finally:
        driver.open_gpu(place.index)


def _access(one: Gpu, other: Gpu) -> str | None:
    """Give `one` access to the memory of `other`; the reason if there is none."""
    cuda = driver.cuda()
    if not int(driver.check(cuda.cuDeviceCanAccessPeer(one.handle, other.handle))):
        return topology.why_no_peer(one, other)
    with driver.current(one.context):
        code = cuda.cuCtxEnablePeerAccess(other.context, 0)[0]
    if int(code) in (0, _ALREADY):
        return None
    return f"the driver offers peer access but refuses it ({getattr(code, 'name', code)})."


def _buffer(undo: ExitStack, gpu: Gpu, words: Any) -> Buffer:
    with driver.current(gpu.context):
        buffer = Buffer(words.shape, "int32")
        undo.callback(_in(gpu, buffer.free))
        buffer.upload(words)
    return buffer


def _in(gpu: Gpu, call: Call) -> Call:
    """The call with the GPU current, whichever is before and after."""

    def there() -> None:
        with driver.current(gpu.context):
            call()

    return there


def _call(
    case: Case,
    place: Place,
    undo: ExitStack,
    source: Gpu,
    target: Gpu,
    there: Buffer,
    here: Buffer,
    why_not: str | None,
    stream: Any = None,
) -> Call:
    """A copy of `there` to `here` in the queue of who starts it."""
    if case.variant == "staged":
        return _staged(case, undo, source, target, there, here)
    if case.variant == "engine":
        on = driver.cuda().CUstream(place.stream) if stream is None else stream
        ends = (here.ptr, target.context, there.ptr, source.context)
        function, size = driver.cuda().cuMemcpyPeerAsync, case.params["size"]
        return lambda: driver.check(function(*ends, size, on))
    if why_not is not None:
        raise Unavailable(why_not)
    starts = target if case.params["path"] == "p2p-read" else source
    with driver.current(starts.context):
        sms = starts.attribute("MULTIPROCESSOR_COUNT")
        own = replace(place, capability=starts.capability, sm_count=sms)
        return copies.sm(own, case.params["size"])("p2p", here.ptr, there.ptr, stream)


def _both(
    case: Case, place: Place, undo: ExitStack, source: Gpu, target: Gpu, first: Call, words: Any
) -> tuple[Call, Buffer]:
    """The copy and another against it, started by the other GPU; and where that one arrives."""
    from pymicro.backends.cuda.transfer import together

    why_not = _access(target, source)
    there, back = _buffer(undo, target, words), _buffer(undo, source, ~words)
    with driver.current(target.context):
        other = _stream(undo, target)
        end = _event(undo, target)
    second = _call(case, place, undo, target, source, there, back, why_not, other)
    with driver.current(source.context):
        begin = _event(undo, source)
    return together(place, first, _in(target, second), other, (begin, end), is_joint=True), back


def _stream(undo: ExitStack, gpu: Gpu) -> Any:
    stream = driver.check(driver.cuda().cuStreamCreate(copies.NON_BLOCKING))
    undo.callback(_in(gpu, lambda: driver.check(driver.cuda().cuStreamDestroy(stream))))
    return stream


def _event(undo: ExitStack, gpu: Gpu) -> Any:
    event = driver.check(driver.cuda().cuEventCreate(copies.NO_TIME))
    undo.callback(_in(gpu, partial(copies.destroy, event)))
    return event


def _staged(
    case: Case, undo: ExitStack, source: Gpu, target: Gpu, there: Buffer, here: Buffer
) -> Call:
    """Two pinned buffers take turns: one is filled from the first GPU while the other is emptied
    to the second."""
    cuda, check, size = driver.cuda(), driver.check, case.params["size"]
    piece = paths.stage_bytes(size)
    room = host_memory.staging(2 * piece)
    undo.callback(room.free)
    with driver.current(source.context):
        ours, full = cuda.CUstream(0), [_event(undo, source) for _ in range(2)]
    with driver.current(target.context):
        theirs = _stream(undo, target)
        empty = [_event(undo, target) for _ in range(2)]

    def call() -> None:
        for number, begin in enumerate(range(0, size, piece)):
            turn, nbytes = number % 2, min(piece, size - begin)
            buffer = room.address + turn * piece
            check(cuda.cuStreamWaitEvent(ours, empty[turn], 0))
            check(cuda.cuMemcpyDtoHAsync(buffer, there.ptr + begin, nbytes, ours))
            check(cuda.cuEventRecord(full[turn], ours))
            check(cuda.cuStreamWaitEvent(theirs, full[turn], 0))
            check(cuda.cuMemcpyHtoDAsync(here.ptr + begin, buffer, nbytes, theirs))
            check(cuda.cuEventRecord(empty[turn], theirs))
        for event in empty:
            check(cuda.cuStreamWaitEvent(ours, event, 0))

    return call


def _read(buffer: Buffer, source: Gpu, target: Gpu) -> Any:
    """What a buffer holds once both GPUs have done their work."""
    for gpu in (source, target):
        with driver.current(gpu.context):
            driver.check(driver.cuda().cuCtxSynchronize())
    with driver.current(target.context):
        return buffer.download()


def _compare(back: Buffer, source: Gpu, target: Gpu, words: Any) -> None:
    wrong = int((_read(back, target, source) != words).sum())
    if wrong:
        raise WrongResult(f"wrong result: {wrong} of {words.size} words differ on the way back.")
