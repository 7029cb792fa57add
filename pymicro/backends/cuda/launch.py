"""The price of asking the driver: the same launch through four layers, and its other calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from pymicro import calls, compiler, driver
from pymicro.backends.base import Call, Place, Prepared, import_library
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

_ONE = (1, 1, 1)
Closing = tuple[Call, Call]


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return calls.variants_of("cuda", "cuda")


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """The call of a case, `calls` times over.

    Raises:
        Unavailable: its layer is not installed here.
    """
    asked, count = case.params["call"], case.params["calls"]
    if calls.is_launch(asked):
        call, close = _LAUNCHES[case.variant](asked, count, place, arrays)
    else:
        single, close = _OTHERS[asked](place)
        call = calls.repeated(single, count)
    return Prepared(call, calls.notes("cuda", case.variant, "cuda"), close)


def cubin(place: Place) -> bytes:
    assert place.capability is not None
    major, minor = place.capability
    return compiler.compile_cubin("launch/empty.cu", f"sm_{major}{minor}")


class _Arguments:
    """Values of a launch's arguments, and the array of their addresses that the driver takes."""

    def __init__(self, asked: str, arrays: Mapping[str, Any]) -> None:
        given = calls.arguments(asked, arrays["c"].ptr, arrays["a"].ptr)
        pointers = len(given) - len(calls.numbers(asked))
        self.values = [
            (ctypes.c_uint64 if i < pointers else ctypes.c_uint32)(value)
            for i, value in enumerate(given)
        ]
        self._addresses = (ctypes.c_void_p * max(len(given), 1))(
            *(ctypes.addressof(value) for value in self.values)
        )
        self.address = ctypes.addressof(self._addresses)


def _nothing() -> None:
    pass


def _cpp(asked: str, count: int, place: Place, arrays: Mapping[str, Any]) -> Closing:
    """The loop is in C++ too: Python is entered once for all calls."""
    try:
        from pymicro import _native
    except ImportError as error:
        raise Unavailable("the C++ module was not built when pymicro was installed.") from error
    kernel, given = driver.Kernel.load(cubin(place), asked), _Arguments(asked, arrays)
    function = int(kernel.function)

    def call(_keep: Any = (kernel, given)) -> None:
        try:
            _native.launch_loop(function, place.stream, count, given.address)
        except RuntimeError as error:
            raise driver.DriverError(f"{error}.") from error

    return call, _nothing


def _bindings(asked: str, count: int, place: Place, arrays: Mapping[str, Any]) -> Closing:
    kernel, given = driver.Kernel.load(cubin(place), asked), _Arguments(asked, arrays)
    return calls.repeated(kernel.bind(_ONE, _ONE, given.values, place.stream), count), _nothing


def _core(asked: str, count: int, place: Place, arrays: Mapping[str, Any]) -> Closing:
    core = import_library("cuda.core")
    core.Device(place.index).set_current()
    kernel = core.ObjectCode.from_cubin(cubin(place)).get_kernel(asked)
    config, stream = core.LaunchConfig(grid=1, block=1), core.LEGACY_DEFAULT_STREAM
    given = calls.arguments(asked, arrays["c"].ptr, arrays["a"].ptr)
    first_number = len(given) - len(calls.numbers(asked))
    own = (*given[:first_number], *map(ctypes.c_uint32, given[first_number:]))
    return calls.repeated(core.launch, count, stream, config, kernel, *own), _nothing


def _graph(asked: str, count: int, place: Place, arrays: Mapping[str, Any]) -> Closing:
    """A chain of kernel nodes, made node by node: the legacy stream cannot be captured."""
    cuda, check = driver.cuda(), driver.check
    kernel, given = driver.Kernel.load(cubin(place), asked), _Arguments(asked, arrays)
    node = cuda.CUDA_KERNEL_NODE_PARAMS()
    node.func = kernel.function
    node.gridDimX = node.gridDimY = node.gridDimZ = 1
    node.blockDimX = node.blockDimY = node.blockDimZ = 1
    node.kernelParams = given.address
    graph = check(cuda.cuGraphCreate(0))
    before: list[Any] = []
    for _ in range(count):
        before = [check(cuda.cuGraphAddKernelNode(graph, before, len(before), node))]
    ready = check(cuda.cuGraphInstantiate(graph, 0))
    launch, stream = cuda.cuGraphLaunch, cuda.CUstream(place.stream)

    def call(_keep: Any = (kernel, given)) -> None:
        check(launch(ready, stream))

    def close() -> None:
        check(cuda.cuGraphExecDestroy(ready))
        check(cuda.cuGraphDestroy(graph))

    return call, close


def _record(place: Place) -> Closing:
    cuda, event = driver.cuda(), driver.check(driver.cuda().cuEventCreate(0))
    stream = cuda.CUstream(place.stream)
    return lambda: driver.check(cuda.cuEventRecord(event, stream)), _destroyer(event)


def _query(place: Place) -> Closing:
    """Of an event that has passed: one still to come is answered as an error."""
    cuda, event = driver.cuda(), driver.check(driver.cuda().cuEventCreate(0))
    driver.check(cuda.cuEventRecord(event, cuda.CUstream(place.stream)))
    driver.check(cuda.cuEventSynchronize(event))
    return lambda: driver.check(cuda.cuEventQuery(event)), _destroyer(event)


def _destroyer(event: Any) -> Call:
    return lambda: driver.check(driver.cuda().cuEventDestroy(event))


def _synchronise(place: Place) -> Closing:
    cuda = driver.cuda()
    stream = cuda.CUstream(place.stream)
    return lambda: driver.check(cuda.cuStreamSynchronize(stream)), _nothing


def _allocate(place: Place) -> Closing:
    cuda, check = driver.cuda(), driver.check

    def call() -> None:
        check(cuda.cuMemFree(check(cuda.cuMemAlloc(calls.ALLOCATED_BYTES))))

    return call, _nothing


def _pool(place: Place) -> Closing:
    cuda, check = driver.cuda(), driver.check
    stream = cuda.CUstream(place.stream)

    def call() -> None:
        check(
            cuda.cuMemFreeAsync(check(cuda.cuMemAllocAsync(calls.ALLOCATED_BYTES, stream)), stream)
        )

    return call, _nothing


_LAUNCHES: dict[str, Callable[[str, int, Place, Mapping[str, Any]], Closing]] = {
    "cpp": _cpp,
    "bindings": _bindings,
    "core": _core,
    "graph": _graph,
}
_OTHERS: dict[str, Callable[[Place], Closing]] = {
    "record": _record,
    "query": _query,
    "synchronise": _synchronise,
    "allocate": _allocate,
    "pool": _pool,
}
