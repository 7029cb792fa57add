"""The CUDA driver, as little of it as pymicro needs: memory, streams, events, launches.

Everything is loaded on use; on a machine without cuda-bindings or without a driver, `open_gpu`
says so in one sentence. Contexts are primary ones, so torch, CuPy and Numba share them.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymicro.errors import PymicroError, Unavailable

Dim = tuple[int, int, int]
_INSTALL = 'pip install "pymicro-gpu[cuda13]" (driver 580 or newer) or "pymicro-gpu[cuda12]"'


class DriverError(PymicroError):
    """A driver call failed; the message names the call's error and what it means."""


def cuda() -> Any:
    """The module `cuda.bindings.driver`.

    Raises:
        Unavailable: cuda-bindings is not installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise Unavailable(f"the CUDA bindings are not installed; {_INSTALL}.") from error
    return driver


def check(returned: tuple) -> Any:
    """Unpack what a binding returned: nothing, one value or a tuple.

    Raises:
        Unavailable: the device is out of memory.
        DriverError: any other error code.
    """
    code, *values = returned
    if int(code) == 2:
        raise Unavailable("the GPU is out of memory.")
    if int(code) != 0:
        raise DriverError(f"the CUDA driver answered {getattr(code, 'name', code)}.")
    return values[0] if len(values) == 1 else tuple(values) if values else None


def initialise() -> None:
    """Load the driver library and initialise it, once and again at no cost.

    Raises:
        Unavailable: no driver library, no device, or a driver too old; each its own sentence.
    """
    try:
        code = int(cuda().cuInit(0)[0])
    except RuntimeError as error:  # cuda-bindings: libcuda cannot be loaded, or lacks a symbol.
        raise Unavailable(
            "no NVIDIA driver: its library (libcuda.so.1, nvcuda.dll) cannot be loaded."
        ) from error
    except ValueError as error:  # A code that the bindings have no name for.
        raise Unavailable(f"the NVIDIA driver fails to start: {error}.") from error
    reasons = {
        3: "the NVIDIA driver library loads but does not initialise.",
        34: "the driver library found is a stub of the toolkit, not an installed driver.",
        35: f"the NVIDIA driver is older than the CUDA libraries installed; {_INSTALL}.",
        100: "no CUDA device is visible (none present, hidden by CUDA_VISIBLE_DEVICES, "
        "or not passed into this container).",
        101: "CUDA_VISIBLE_DEVICES names a device that does not exist.",
        803: "the kernel module and the driver library have different versions; reboot or "
        "reload the module.",
        804: "a CUDA compatibility package is on the library path, and this card cannot use one; "
        "update the driver instead.",
        999: "the driver answers 'unknown error'; its kernel module may need a reload.",
    }
    if code != 0:
        raise Unavailable(reasons.get(code, f"the NVIDIA driver fails to start (error {code})."))
    _refuse_old_driver()


def _refuse_old_driver() -> None:
    """A driver serves the bindings of its own major CUDA version and of older ones."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        wanted = int(version("cuda-bindings").split(".")[0])
        have = int(check(cuda().cuDriverGetVersion()))
    except (PackageNotFoundError, AttributeError):
        return
    if have // 1000 < wanted:
        raise Unavailable(
            f"the NVIDIA driver supports CUDA {have // 1000}.{have % 1000 // 10} and the CUDA "
            f"libraries installed need {wanted}.0; {_INSTALL}."
        )


@dataclass(frozen=True)
class Gpu:
    """A device with its primary context current in this thread."""

    index: int
    handle: int
    context: Any

    def attribute(self, name: str) -> int:
        """A device attribute by its enum name without the common prefix, `MULTIPROCESSOR_COUNT`."""
        enum = getattr(cuda().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(cuda().cuDeviceGetAttribute(enum, self.handle)))

    @property
    def capability(self) -> tuple[int, int]:
        return (
            self.attribute("COMPUTE_CAPABILITY_MAJOR"),
            self.attribute("COMPUTE_CAPABILITY_MINOR"),
        )

    @property
    def name(self) -> str:
        return check(cuda().cuDeviceGetName(256, self.handle)).split(b"\0")[0].decode()

    @property
    def uuid(self) -> str:
        raw = bytes(check(cuda().cuDeviceGetUuid(self.handle)).bytes).hex()
        return f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"

    @property
    def pci_bus_id(self) -> str:
        return check(cuda().cuDeviceGetPCIBusId(32, self.handle)).split(b"\0")[0].decode()


def device_count() -> int:
    """How many devices CUDA sees; raises Unavailable where it cannot start."""
    initialise()
    return int(check(cuda().cuDeviceGetCount()))


def open_gpu(index: int = 0) -> Gpu:
    """Make device `index` current with its primary context.

    Raises:
        Unavailable: no driver or no such device.
    """
    count = device_count()
    if not 0 <= index < count:
        raise Unavailable(f"cuda:{index} does not exist; this process sees {count} device(s).")
    handle = check(cuda().cuDeviceGet(index))
    context = check(cuda().cuDevicePrimaryCtxRetain(handle))
    check(cuda().cuCtxSetCurrent(context))
    return Gpu(index, handle, context)


@contextlib.contextmanager
def current(context: Any) -> Iterator[None]:
    """Another device's context meanwhile; memory, streams and kernels belong to one."""
    check(cuda().cuCtxPushCurrent(context))
    try:
        yield
    finally:
        check(cuda().cuCtxPopCurrent())


class Buffer:
    """Device memory with a shape; arrays of torch, CuPy and Numba are made on it without a copy."""

    # Bit formats that no array protocol names travel as unsigned integers of their width.
    def __init__(self, shape: tuple[int, ...], storage: str) -> None:
        import numpy as np

        self.shape, self.storage = shape, np.dtype(storage)
        self.nbytes = int(np.prod(shape)) * self.storage.itemsize
        self.ptr = int(check(cuda().cuMemAlloc(max(self.nbytes, 16))))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.storage.str,
            "data": (self.ptr, False),
            "version": 3,
            "strides": None,
        }

    def upload(self, array: Any) -> None:
        """Copy a C-contiguous numpy array of the same bytes to the device, and wait."""
        check(cuda().cuMemcpyHtoD(self.ptr, array.ctypes.data, self.nbytes))

    def upload_repeated(self, block: Any) -> None:
        """Fill with copies of a C-contiguous numpy array, the last one cut short, and wait."""
        copied = min(block.nbytes, self.nbytes)
        check(cuda().cuMemcpyHtoD(self.ptr, block.ctypes.data, copied))
        while copied < self.nbytes:
            count = min(copied, self.nbytes - copied)
            check(cuda().cuMemcpyDtoD(self.ptr + copied, self.ptr, count))
            copied += count
        check(cuda().cuCtxSynchronize())

    def download(self) -> Any:
        """A numpy array with the contents, after all work queued so far."""
        import numpy as np

        check(cuda().cuCtxSynchronize())
        array = np.empty(self.shape, self.storage)
        check(cuda().cuMemcpyDtoH(array.ctypes.data, self.ptr, self.nbytes))
        return array

    def fill_bytes(self, value: int) -> None:
        check(cuda().cuMemsetD8(self.ptr, value, self.nbytes))

    def free(self) -> None:
        if self.ptr:
            check(cuda().cuMemFree(self.ptr))
            self.ptr = 0


class TensorMap:
    """A 128-byte TMA descriptor, passed by value to `const __grid_constant__ CUtensorMap`."""

    def __init__(self, encoded: Any) -> None:
        # The kernel parameter must be 64-byte aligned; the driver copies it at each launch.
        self._room = ctypes.create_string_buffer(128 + 64)
        self.address = (ctypes.addressof(self._room) + 63) & ~63
        ctypes.memmove(self.address, encoded.getPtr(), 128)


Argument = TensorMap | ctypes._SimpleCData | ctypes.Structure


@dataclass(frozen=True)
class Kernel:
    """A loaded function of a cubin."""

    function: Any
    module: Any = field(repr=False)

    @classmethod
    def load(cls, cubin: bytes, entry: str, shared_bytes: int = 0) -> Kernel:
        """Load `entry` now, so that nothing loads lazily behind a gate; `shared_bytes` of dynamic
        shared memory may be launched with it."""
        module = check(cuda().cuModuleLoadData(cubin))
        function = check(cuda().cuModuleGetFunction(module, entry.encode()))
        if shared_bytes:  # With what it declares itself, even 48 KiB may be more than the default.
            attribute = cuda().CUfunction_attribute
            check(
                cuda().cuFuncSetAttribute(
                    function,
                    attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    shared_bytes,
                )
            )
        return cls(function, module)

    def bind(
        self,
        grid: Dim,
        block: Dim,
        arguments: Sequence[Argument],
        stream: int,
        shared_bytes: int = 0,
        cluster: Dim = (1, 1, 1),
        overlap: bool = False,
    ) -> Callable[[], None]:
        """A call that launches with these arguments; all marshalling is done here, once.

        `overlap` lets the kernel start while the one before drains; it must itself wait for it
        (`griddepcontrol.wait`) before touching memory.
        """
        addresses = [
            a.address if isinstance(a, TensorMap) else ctypes.addressof(a) for a in arguments
        ]
        params = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        pointer = ctypes.addressof(params)
        launch, function = cuda().cuLaunchKernelEx, self.function
        config = launch_config(grid, block, stream, shared_bytes, cluster, overlap)
        keep = (arguments, params, self.module)

        def call(_keep=keep) -> None:
            (code,) = launch(config, function, pointer, 0)
            if code:
                check((code,))

        return call


def launch_config(
    grid: Dim,
    block: Dim,
    stream: int,
    shared_bytes: int,
    cluster: Dim = (1, 1, 1),
    overlap: bool = False,
) -> Any:
    """The driver's description of a launch, also for its questions about occupancy."""
    config = cuda().CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_bytes
    config.hStream = cuda().CUstream(stream)
    attributes = []
    if cluster != (1, 1, 1):
        attributes.append(_launch_attribute("CLUSTER_DIMENSION"))
        value = attributes[-1].value
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster
        attributes[-1].value = value
    if overlap:
        attributes.append(_launch_attribute("PROGRAMMATIC_STREAM_SERIALIZATION"))
        value = attributes[-1].value
        value.programmaticStreamSerializationAllowed = 1
        attributes[-1].value = value
    if attributes:
        config.attrs = attributes
        config.numAttrs = len(attributes)
    return config


def _launch_attribute(name: str) -> Any:
    attribute = cuda().CUlaunchAttribute()
    attribute.id = getattr(cuda().CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
    return attribute
