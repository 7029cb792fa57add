"""What the cuda rows of the launch benchmark ask the driver for; the driver is a double."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from pymicro import calls
from pymicro.backends.base import Place
from pymicro.backends.cuda import launch
from pymicro.benchmark import Case
from pymicro.driver import DriverError
from pymicro.errors import Unavailable

HOPPER = Place("cuda", 0, (9, 0), 132)
ARRAYS = {"a": SimpleNamespace(ptr=2**40 + 8), "c": SimpleNamespace(ptr=2**41 + 16)}


class FakeDriver:
    """Notes each call by name; allocations get addresses that must come back."""

    def __init__(self):
        self.asked, self.held, self.nodes, self.failing = [], {}, [], {}
        self.CUstream = lambda handle: ("stream", handle)
        self.CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def _note(self, name, *values):
        self.asked.append(name)
        return (self.failing.get(name, 0), *values)

    def _take(self, name, what):
        self.held[what] = name
        return self._note(name, what)

    def _give(self, name, what):
        del self.held[what]
        return self._note(name)

    def cuEventCreate(self, flags):
        return self._take("cuEventCreate", "event")

    def cuEventDestroy(self, event):
        return self._give("cuEventDestroy", event)

    def cuMemAlloc(self, nbytes):
        assert nbytes == calls.ALLOCATED_BYTES
        return self._take("cuMemAlloc", "memory")

    def cuMemFree(self, pointer):
        return self._give("cuMemFree", pointer)

    def cuMemAllocAsync(self, nbytes, stream):
        return self._take("cuMemAllocAsync", "memory")

    def cuMemFreeAsync(self, pointer, stream):
        return self._give("cuMemFreeAsync", pointer)

    def cuGraphCreate(self, flags):
        return self._take("cuGraphCreate", "graph")

    def cuGraphAddKernelNode(self, graph, before, count, node):
        assert len(before) == count
        self.nodes.append((list(before), node))
        return self._note("cuGraphAddKernelNode", len(self.nodes))

    def cuGraphInstantiate(self, graph, flags):
        return self._take("cuGraphInstantiate", "ready")

    def cuGraphExecDestroy(self, ready):
        return self._give("cuGraphExecDestroy", ready)

    def cuGraphDestroy(self, graph):
        return self._give("cuGraphDestroy", graph)

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *given: self._note(name)


class FakeKernel:
    function = 4711

    def __init__(self, entry):
        self.entry, self.launched = entry, []

    def bind(self, grid, block, arguments, stream):
        assert (grid, block, stream) == ((1, 1, 1), (1, 1, 1), 0)
        return lambda: self.launched.append([a.value for a in arguments])


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeDriver()
    fake.kernels = []
    monkeypatch.setattr(launch.driver, "cuda", lambda: fake)
    monkeypatch.setattr(launch.compiler, "compile_cubin", lambda source, arch: b"cubin")

    def load(cubin, entry):
        fake.kernels.append(FakeKernel(entry))
        return fake.kernels[-1]

    monkeypatch.setattr(launch.driver.Kernel, "load", staticmethod(load))
    return fake


def prepared(variant, call, count=4):
    point = {"call": call, "side": "host", "calls": count}
    return launch.prepare(Case("launch", "cuda", variant, "int32", point), HOPPER, ARRAYS)


def expected(call):
    return list(calls.arguments(call, ARRAYS["c"].ptr, ARRAYS["a"].ptr))


@pytest.mark.parametrize("call", calls.LAUNCHES)
def test_bindings_launch_with_every_argument(cuda, call):
    made = prepared("bindings", call)
    made.call()
    (kernel,) = cuda.kernels
    assert kernel.entry == call
    assert kernel.launched == [expected(call)] * 4
    assert made.notes["ran_on"] == ["h200_sxm_141gb"]


def values_at(address, pointers, count):
    """What an array of addresses of 8-byte pointers and 4-byte numbers holds."""
    places = (ctypes.c_void_p * count).from_address(address)
    types = [ctypes.c_uint64] * pointers + [ctypes.c_uint32] * (count - pointers)
    return [t.from_address(place).value for t, place in zip(types, places, strict=True)]


def pointers_of(call):
    return calls.LAUNCHES[call][0] + 1


@pytest.mark.parametrize("call", ["args3", "args16"])
def test_the_cpp_loop_gets_handles_and_addresses(cuda, call, monkeypatch):
    seen = []

    def loop(function, stream, count, address):
        seen.append((function, stream, count))
        assert values_at(address, pointers_of(call), len(expected(call))) == expected(call)

    native = pytest.importorskip("pymicro._native")
    monkeypatch.setattr(native, "launch_loop", loop)
    prepared("cpp", call).call()
    assert seen == [(4711, 0, 4)]


def test_the_cpp_loop_without_a_driver_fails_in_one_sentence(cuda, monkeypatch):
    native = pytest.importorskip("pymicro._native")

    def loop(*given):
        raise RuntimeError("the CUDA driver answered a launch with error 719")

    monkeypatch.setattr(native, "launch_loop", loop)
    with pytest.raises(DriverError, match="719"):
        prepared("cpp", "args0").call()
    monkeypatch.setitem(sys.modules, "pymicro._native", None)
    monkeypatch.delattr("pymicro._native")
    with pytest.raises(Unavailable, match="not built"):
        prepared("cpp", "args0")


@pytest.mark.parametrize("call", ["args0", "args16"])
def test_a_graph_is_a_chain_of_as_many_nodes_as_calls(cuda, call):
    made = prepared("graph", call, 5)
    assert [before for before, _ in cuda.nodes] == [[], [1], [2], [3], [4]]
    for _, node in cuda.nodes:
        assert node.func == 4711
        assert (node.gridDimX, node.blockDimX) == (1, 1)
    if call == "args16":
        assert values_at(node.kernelParams, 6, 16) == expected(call)
    made.call()
    assert cuda.asked.count("cuGraphLaunch") == 1
    assert set(cuda.held) == {"graph", "ready"}
    made.close()
    assert not cuda.held


@pytest.mark.parametrize("call", calls.LAUNCHES)
def test_core_launches_with_every_argument(cuda, call, monkeypatch):
    launched = []
    core = SimpleNamespace(
        Device=lambda index: SimpleNamespace(set_current=lambda: None),
        ObjectCode=SimpleNamespace(
            from_cubin=lambda cubin: SimpleNamespace(get_kernel=lambda name: ("kernel", name))
        ),
        LaunchConfig=lambda grid, block: ("config", grid, block),
        LEGACY_DEFAULT_STREAM="legacy",
        launch=lambda *given: launched.append(given),
    )
    monkeypatch.setattr(launch, "import_library", lambda name: core)
    prepared("core", call).call()
    stream, config, kernel, *given = launched[0]
    assert (stream, config, kernel) == ("legacy", ("config", 1, 1), ("kernel", call))
    assert [getattr(x, "value", x) for x in given] == expected(call)
    # A plain Python number would travel as 8 bytes.
    numbers = given[len(given) - len(calls.numbers(call)) :]
    assert all(isinstance(x, ctypes.c_uint32) for x in numbers)
    assert len(launched) == 4


def test_what_is_named_there_exists_in_cuda_core():
    core = pytest.importorskip("cuda.core")
    for name in ("Device", "ObjectCode", "LaunchConfig", "LEGACY_DEFAULT_STREAM", "launch"):
        assert hasattr(core, name)
    assert hasattr(core.ObjectCode, "from_cubin")
    core.LaunchConfig(grid=1, block=1)


OTHERS = {
    "record": ["cuEventRecord"],
    "query": ["cuEventQuery"],
    "synchronise": ["cuStreamSynchronize"],
    "allocate": ["cuMemAlloc", "cuMemFree"],
    "pool": ["cuMemAllocAsync", "cuMemFreeAsync"],
}


@pytest.mark.parametrize("call", OTHERS)
def test_other_calls_ask_the_driver_for_just_that(cuda, call):
    made = prepared("bindings", call, 3)
    cuda.asked.clear()
    made.call()
    assert cuda.asked == OTHERS[call] * 3
    made.close()
    assert not cuda.held
    cuda.failing[OTHERS[call][-1]] = 700
    made = prepared("bindings", call, 3) if call != "query" else made
    with pytest.raises(DriverError, match="700"):
        made.call()


def test_every_call_of_the_cuda_rows_has_its_function():
    for row in calls.rows_of("cuda", "cuda"):
        for call in row.makes:
            assert (row.variant in launch._LAUNCHES) if calls.is_launch(call) else True
            assert calls.is_launch(call) or call in launch._OTHERS


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_the_kernels_compile_and_use_no_local_memory(arch):
    pytest.importorskip("cuda.core")
    from pymicro.compiler import compile_logged, supported_archs

    if arch not in supported_archs():
        pytest.skip("not an architecture of the installed NVRTC")
    made = compile_logged("launch/empty.cu", arch)
    assert all(name.encode() in made.cubin for name in calls.LAUNCHES)
    log = made.log.replace("\0", "")
    assert log.count("0 bytes stack frame") == len(calls.LAUNCHES)
