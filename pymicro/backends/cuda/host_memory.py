"""Memory of the host for transfers: pinned, write-combined, pageable, or pinned after the fact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymicro import driver, pinned
from pymicro.errors import Unavailable

_MAPPED, _WRITE_COMBINED = 2, 4  # CU_MEMHOSTALLOC_DEVICEMAP, _WRITECOMBINED
_REGISTER_MAPPED = 2  # CU_MEMHOSTREGISTER_DEVICEMAP
_PAGE_BYTES = 4096


class HostMemory:
    """`words` as int32 at `address`; `device` is where SMs see them, 0 if they cannot."""

    def __init__(self, kind: str, nbytes: int) -> None:
        """Allocate.

        Raises:
            Unavailable: the system does not pin so much; the size that it does pin comes along.
        """
        import numpy as np

        self._free: Callable[[], Any] = lambda: None
        if kind == "pageable":
            self.words = np.full(nbytes // 4, -1, np.int32)  # Touched, and so placed, here.
            self.address, self.device = self.words.ctypes.data, 0
            return
        take = _register if kind == "registered" else _allocate(kind)
        memory, size, said = pinned.step_down(take, nbytes, pinned.limits())
        self.address, self._free, self.words = memory
        if said is not None:
            self.free()
            raise Unavailable(said, instead={"size": size})
        self.device = int(driver.check(driver.cuda().cuMemHostGetDevicePointer(self.address, 0)))

    def free(self) -> None:
        self._free()
        self._free = lambda: None


def staging(nbytes: int) -> HostMemory:
    """Pinned buffers on the way between others.

    Raises:
        Unavailable: the system does not pin so much; another size of the copy would not help.
    """
    try:
        return HostMemory("pinned", nbytes)
    except Unavailable as error:
        raise Unavailable(f"no room for pinned buffers: {error}") from error


Memory = tuple[int, Callable[[], Any], Any]


def _allocate(kind: str) -> Callable[[int], Memory]:
    flags = _MAPPED | (_WRITE_COMBINED if kind == "combined" else 0)

    def take(nbytes: int) -> Memory:
        address = int(_pinned(driver.cuda().cuMemHostAlloc(nbytes, flags)))
        return (
            address,
            lambda: driver.check(driver.cuda().cuMemFreeHost(address)),
            _view(address, nbytes),
        )

    return take


def _register(nbytes: int) -> Memory:
    """Ordinary memory from a page's start on, touched, then pinned."""
    import numpy as np

    raw = np.full(nbytes + _PAGE_BYTES, 255, np.uint8)
    address = -(-raw.ctypes.data // _PAGE_BYTES) * _PAGE_BYTES
    _pinned(driver.cuda().cuMemHostRegister(address, nbytes, _REGISTER_MAPPED))

    def free(_keep: Any = raw) -> None:
        driver.check(driver.cuda().cuMemHostUnregister(address))

    return address, free, _view(address, nbytes)


def _pinned(returned: tuple) -> Any:
    """What the driver returned; every refusal to pin is a reason to try less.

    Raises:
        Unavailable: it refused.
    """
    code = returned[0]
    if int(code) != 0:
        raise Unavailable(f"the driver pins no more memory ({getattr(code, 'name', code)}).")
    return driver.check(returned)


def _view(address: int, nbytes: int) -> Any:
    import ctypes

    import numpy as np

    return np.frombuffer(memoryview((ctypes.c_char * nbytes).from_address(address)), np.int32)
