"""Every bandwidth and latency kernel that the GPU here can run, against the host's references;
skipped where there is none.

Best in one process: all kernels are then compiled at once, and operands are drawn once a format.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pymicro import chains, compiler, operands
from pymicro.backends.cuda import bandwidth, bandwidth_rows, latency
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable, WrongResult
from pymicro.outputs import DeviceOutput
from pymicro.suite import benchmark
from pymicro.workbench import Workbench

# Nothing but a tail, tiles and a tail, whole tiles; and for one format arrays past L2, in bytes.
SIZES, LARGE = (8, 100_008, 3 * 2**20 + 16, 2**24), 2**28 + 40
# Also prime, and so short that the host, which compares the first period, is not what takes long.
PERIOD = 100_003
STREAMED = sorted(
    dict.fromkeys((row, op) for row, op in bandwidth_rows.rows() if row.entry == "stream"),
    key=lambda pair: pair[1],
)
FORMATS = benchmark("bandwidth").dtypes


@pytest.fixture(scope="module", autouse=True)
def short_period():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operands, "_PERIOD", PERIOD)
        yield


@pytest.fixture(scope="module")
def bench():
    try:
        return Workbench("cuda")
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def place(bench):
    return bench.place


@pytest.fixture(scope="module")
def compiled(place):
    """All kernels at once: the compiler is where the time goes, and it runs on every core.

    Several processes of tests share them anyhow, through the disk.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    arch = "sm_{}{}".format(*place.capability)
    wanted = {
        (row.source, row.macros(op, dtype))
        for row, op in STREAMED
        if row.runs_on(place.capability)
        for dtype in FORMATS
    }
    compiler.compile_cubin("cache.cu", arch)  # Threads that import NVRTC at once get in the way.
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda w: compiler.compile_cubin(w[0], arch, w[1]), wanted))


@pytest.fixture(scope="module")
def problems(bench):
    """Operands and references of one operation and format in all sizes, shared by its kernels."""
    kept = {}

    def problem(dtype, params):
        key = (dtype, params["op"], params["access"], params["level"])
        if kept.get("key") != key:
            release()
            kept["key"] = key
        size = params["size"]
        if size not in kept:
            case = Case("bandwidth", "cuda", "fastest", dtype, params)
            kept[size] = bench._draw(benchmark("bandwidth"), case, "normal", 0, None)
        return kept[size]

    def release():
        for entry in kept.values():
            for array in getattr(entry, "arrays", {}).values():
                array.free()
        kept.clear()

    yield problem
    release()


def checked(bench, problem, call):
    problem.poison()
    bench.synchronise()
    call()
    bench.synchronise()
    return problem.check()


def point(place, **changes):
    ordinary = {"op": "copy", "size": 2**20, "level": "memory", "access": "sequential", "stride": 8}
    return ordinary | {"sms": place.sm_count} | changes


# Kernels change fastest, so that those of one operation and format share its operands.
@pytest.mark.parametrize(("row", "op"), STREAMED, ids=lambda x: getattr(x, "name", x))
@pytest.mark.parametrize("dtype", FORMATS)
def test_streams(row, op, dtype, bench, place, problems, compiled):
    if not row.runs_on(place.capability):
        pytest.skip(f"{row.name} does not run on compute capability {place.capability}")
    kernel = bandwidth._load(row, op, dtype, place)
    for size in (*SIZES, LARGE) if dtype == "fp32" else SIZES:
        params = point(place, op=op, size=size)
        problem = problems(dtype, params)
        case = Case("bandwidth", "cuda", "fastest", dtype, params)
        checked(bench, problem, bandwidth.bind_stream(row, kernel, case, place, problem.arrays))


def run(name, dtype, params, bench):
    case = Case(name, "cuda", "fastest", dtype, params)
    module = {"bandwidth": bandwidth, "latency": latency}[name]
    problem = bench.problem(benchmark(name), case, "normal", 0)
    prepared = module.prepare(case, bench.place, problem.arrays)
    try:
        return checked(bench, problem, prepared.call)
    finally:
        prepared.close()


@pytest.mark.parametrize(
    ("level", "op"), [("l1", "read"), ("shared", "read"), ("shared", "write"), ("dsmem", "read")]
)
@pytest.mark.parametrize("size", [32768, 65536, 131072])
def test_levels_inside_an_sm(level, op, size, bench, place):
    if level == "dsmem" and place.capability < (9, 0):
        pytest.skip("clusters need compute capability 9.0")
    params = point(place, level=level, op=op, size=size, sms=place.sm_count // 2 * 2)
    run("bandwidth", "fp32", params, bench)


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "int8"])
@pytest.mark.parametrize("access", ["strided", "random"])
def test_gathers(access, dtype, bench, place):
    for size in (4096, 1_000_008, 2**27):
        run("bandwidth", dtype, point(place, access=access, size=size), bench)


@pytest.mark.parametrize(("where", "step"), latency.ROWS)
@pytest.mark.parametrize("size", [4096, 32768, 2**24])
def test_chases(where, step, size, bench, place):
    params = {"size": size, "stride": 128, "where": where, "step": step}
    if place.capability < latency.ROWS[where, step].first:
        pytest.skip("clusters need compute capability 9.0")
    if chains.is_on_chip(params) and size > 48 * 1024:
        pytest.skip("more than shared memory holds")
    run("latency", "int32", params, bench)


@pytest.mark.parametrize("dtype", FORMATS)
def test_an_element_that_was_left_out_is_found_on_the_device(dtype, bench, place):
    """The comparison on the device sees one poisoned element in any period, and says where."""
    params = point(place, size=2**27)
    case = Case("bandwidth", "cuda", "driver", dtype, params)
    problem = bench.problem(benchmark("bandwidth"), case, "normal", 0)
    call = bandwidth.prepare(case, place, problem.arrays).call
    checked(bench, problem, call)
    itemsize, c = DTYPES[dtype].itemsize_bytes, problem.arrays["c"]
    count, whole = c.nbytes // itemsize, c.ptr
    arch = "sm_{}{}".format(*place.capability)
    total = DeviceOutput(c, arch).bit_sum()
    for at in (0, count // 2 + 1, count - 1):
        c.ptr, c.nbytes = whole + at * itemsize, itemsize
        before = DeviceOutput(c, arch).part(0, 1)[0]
        c.fill_bytes(0x7E)
        c.ptr, c.nbytes = whole, count * itemsize
        assert DeviceOutput(c, arch).bit_sum() != total
        with pytest.raises(WrongResult, match=f"element {at}\\b" if at else "wrong result"):
            problem.check()
        c.ptr, c.nbytes = whole + at * itemsize, itemsize
        c.upload(before.reshape(1))
        c.ptr, c.nbytes = whole, count * itemsize
    problem.check()


def test_parts_of_l2_lie_at_plausible_distances(place):
    found = latency.partitions(place)
    assert 50 < found["l2_least_cycles"] <= found["l2_cycles"] <= found["l2_most_cycles"] < 2000
    if "l2_other_part_cycles" in found:
        assert found["l2_cycles"] < found["l2_other_part_cycles"] < found["memory_far_cycles"]
        assert found["l2_cycles"] < found["memory_near_cycles"] < found["memory_far_cycles"]
