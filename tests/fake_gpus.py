"""A driver for several GPUs made up of this process's memory. It is strict about contexts: memory,
streams, events and kernels belong to the one that was current, and are refused in another."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


class FakeGpus:
    """`offered(a, b)`: whether a may reach b's memory; `codes`: (a, b) -> what enabling answers."""

    def __init__(
        self,
        count: int,
        offered: Callable[[int, int], bool] = lambda a, b: True,
        codes: dict[tuple[int, int], int] | None = None,
        spoils: bool = False,
    ) -> None:
        self.count, self.offered, self.codes, self.spoils = count, offered, codes or {}, spoils
        self.stack = [0]
        self.owner: dict[int, int] = {}  # memory, streams and events by handle
        self.room: dict[int, Any] = {}
        self.enabled: set[tuple[int, int]] = set()
        self.copied: list[tuple[str, int]] = []  # how, and in whose queue
        self._next = 1000
        self.CUstream = lambda handle: handle
        self.CUdevice_attribute = SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="sms",
        )

    # Contexts are 100 + the device's number.
    def cuInit(self, flags):
        return (0,)

    def cuDriverGetVersion(self):
        return 0, 13000

    def cuDeviceGetCount(self):
        return 0, self.count

    def cuDeviceGet(self, index):
        return 0, index

    def cuDevicePrimaryCtxRetain(self, handle):
        return 0, 100 + handle

    def cuCtxSetCurrent(self, context):
        self.stack[-1] = context - 100
        return (0,)

    def cuCtxPushCurrent(self, context):
        self.stack.append(context - 100)
        return (0,)

    def cuCtxPopCurrent(self):
        return 0, 100 + self.stack.pop()

    def cuCtxSynchronize(self):
        return (0,)

    def cuDeviceGetAttribute(self, name, handle):
        return 0, {"major": 9, "minor": 0, "sms": 132}[name]

    def cuDeviceGetUuid(self, handle):
        return 0, SimpleNamespace(bytes=bytes([handle] * 16))

    def cuDeviceGetPCIBusId(self, size, handle):
        return 0, f"00000000:{handle:02x}:00.0\0".encode()

    def cuDeviceCanAccessPeer(self, one, other):
        return 0, int(self.offered(one, other))

    def cuCtxEnablePeerAccess(self, context, flags):
        pair = (self.stack[-1], context - 100)
        code = self.codes.get(pair, 704 if pair in self.enabled else 0)
        if code in (0, 704):
            self.enabled.add(pair)
        return (code,)

    def _own(self, handle=None):
        if handle is None:
            self._next += 1
            handle = self._next
        self.owner[handle] = self.stack[-1]
        return 0, handle

    def _give(self, handle):
        assert self.owner.pop(handle) == self.stack[-1]
        return (0,)

    def cuMemAlloc(self, nbytes):
        room = np.zeros(nbytes, np.uint8)
        self.room[room.ctypes.data] = room
        return self._own(room.ctypes.data)

    def cuMemFree(self, pointer):
        return self._give(pointer)

    def cuMemHostAlloc(self, nbytes, flags):
        room = np.zeros(nbytes, np.uint8)
        self.room[room.ctypes.data] = room
        return 0, room.ctypes.data

    def cuMemFreeHost(self, pointer):
        del self.room[pointer]
        return (0,)

    def cuMemHostGetDevicePointer(self, address, flags):
        return 0, address

    def cuStreamCreate(self, flags):
        return self._own()

    def cuStreamDestroy(self, stream):
        return self._give(stream)

    def cuEventCreate(self, flags):
        return self._own()

    def cuEventDestroy(self, event):
        return self._give(event)

    def _queue(self, stream):
        """Whose queue it is; the legacy stream is the current device's."""
        return self.owner[stream] if stream else self.stack[-1]

    def cuEventRecord(self, event, stream):
        return (0 if self.owner[event] == self._queue(stream) else 400,)

    def cuStreamWaitEvent(self, stream, event, flags):
        return (0,)

    def _move(self, to, source, nbytes):
        ctypes.memmove(to, source, nbytes - (8 if self.spoils else 0))
        return (0,)

    def cuMemcpyHtoD(self, to, source, nbytes):
        ctypes.memmove(to, source, nbytes)
        return (0,)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuMemcpyPeerAsync(self, to, to_context, source, source_context, nbytes, stream):
        if (self.owner[to], self.owner[source]) != (to_context - 100, source_context - 100):
            return (201,)
        self.copied.append(("engine", self._queue(stream)))
        return self._move(to, source, nbytes)

    def cuMemcpyDtoHAsync(self, to, source, nbytes, stream):
        assert self._home(source) == self._queue(stream)
        self.copied.append(("d2h", self._queue(stream)))
        return self._move(to, source, nbytes)

    def cuMemcpyHtoDAsync(self, to, source, nbytes, stream):
        assert self._home(to) == self._queue(stream)
        self.copied.append(("h2d", self._queue(stream)))
        return self._move(to, source, nbytes)

    def _home(self, address):
        """The device on whose memory an address lies."""
        inside = [p for p, room in self.room.items() if p <= address < p + room.nbytes]
        return self.owner[inside[0]]

    def kernel(self):
        """Stands in for `driver.Kernel`: our copy, which reaches what was opened to its device."""
        gpus = self

        class Kernel:
            def __init__(self, home):
                self.home = home

            @staticmethod
            def load(cubin, entry):
                return Kernel(gpus.stack[-1])

            def bind(self, grid, block, arguments, stream, overlap=False):
                to, source, packs = (a.value for a in arguments)

                def call():
                    here = gpus._queue(stream)
                    assert self.home == here == gpus.stack[-1]
                    for owner in (gpus.owner[to], gpus.owner[source]):
                        assert owner == here or (here, owner) in gpus.enabled
                    gpus.copied.append(("sm", here))
                    gpus._move(to, source, 16 * packs)

                return call

        return Kernel
