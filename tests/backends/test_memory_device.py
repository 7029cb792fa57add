"""Every bandwidth and latency kernel that the GPU here can run, against the host's references;
skipped where there is none."""

import pytest

from pymicro import chains, driver, operands
from pymicro.backends.base import Place
from pymicro.backends.cuda import bandwidth, bandwidth_rows, latency
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable
from pymicro.suite import benchmark

# Nothing but a tail, tiles and a tail, whole tiles, and arrays past L2, in bytes.
SIZES = (8, 56, 4096, 100_008, 3 * 2**20 + 16, 2**24, 2**28 + 40)
STREAMED = list(
    dict.fromkeys((row, op) for row, op in bandwidth_rows.rows() if row.entry == "stream")
)


@pytest.fixture(scope="module")
def place() -> Place:
    try:
        gpu = driver.open_gpu(0)
    except Unavailable as reason:
        pytest.skip(str(reason))
    return Place("cuda", 0, gpu.capability, gpu.attribute("MULTIPROCESSOR_COUNT"))


def checked(name, dtype, params, place, bind):
    """Draw, place, run on poisoned output, and compare."""
    suite, arrays, inputs = benchmark(name), {}, {}
    try:
        for number, wanted in enumerate(suite.operands(dtype, params)):
            row = DTYPES[wanted.dtype]
            arrays[wanted.name] = driver.Buffer(wanted.shape, row.storage)
            if wanted.fill == "input":
                inputs[wanted.name] = operands.draw(wanted.shape, row, "normal", number)
            elif wanted.fill == "cycle":
                inputs[wanted.name] = operands.cycle(wanted.shape[0], number)
            else:
                arrays[wanted.name].fill_bytes(0xFF)
                continue
            arrays[wanted.name].upload(inputs[wanted.name])
        driver.check(driver.cuda().cuCtxSynchronize())
        bind(Case(name, "cuda", "fastest", dtype, params), arrays)()
        return suite.reference(dtype, params, inputs).check(arrays["c"].download())
    finally:
        for array in arrays.values():
            array.free()


def point(place, **changes):
    ordinary = {"op": "copy", "size": 2**20, "level": "memory", "access": "sequential", "stride": 8}
    return ordinary | {"sms": place.sm_count} | changes


@pytest.mark.parametrize("dtype", benchmark("bandwidth").dtypes)
@pytest.mark.parametrize(("row", "op"), STREAMED, ids=lambda x: getattr(x, "name", x))
def test_streams(row, op, dtype, place):
    if not row.runs_on(place.capability):
        pytest.skip(f"{row.name} does not run on compute capability {place.capability}")
    kernel = bandwidth._load(row, op, dtype, place)
    for size in SIZES[: None if dtype == "fp32" else -1]:

        def bind(case, arrays):
            return bandwidth.bind_stream(row, kernel, case, place, arrays)

        checked("bandwidth", dtype, point(place, op=op, size=size), place, bind)


@pytest.mark.parametrize(
    ("level", "op"), [("l1", "read"), ("shared", "read"), ("shared", "write"), ("dsmem", "read")]
)
@pytest.mark.parametrize("size", [32768, 65536, 131072])
def test_levels_inside_an_sm(level, op, size, place):
    if level == "dsmem" and place.capability < (9, 0):
        pytest.skip("clusters need compute capability 9.0")
    params = point(place, level=level, op=op, size=size, sms=place.sm_count // 2 * 2)
    checked("bandwidth", "fp32", params, place, prepared(bandwidth, place))


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "int8"])
@pytest.mark.parametrize("access", ["strided", "random"])
def test_gathers(access, dtype, place):
    for size in (4096, 1_000_008, 2**26):
        params = point(place, access=access, size=size)
        checked("bandwidth", dtype, params, place, prepared(bandwidth, place))


@pytest.mark.parametrize(("where", "step"), latency.ROWS)
@pytest.mark.parametrize("size", [4096, 32768, 2**24])
def test_chases(where, step, size, place):
    params = {"size": size, "stride": 128, "where": where, "step": step}
    if place.capability < latency.ROWS[where, step].first:
        pytest.skip("clusters need compute capability 9.0")
    if chains.is_on_chip(params) and size > 48 * 1024:
        pytest.skip("more than shared memory holds")
    checked("latency", "int32", params, place, prepared(latency, place))


def test_partitions_of_l2_lie_at_plausible_distances(place):
    found = latency.partitions(place)
    assert 50 < found["l2_near_cycles"] <= found["l2_far_cycles"] < 2000
    assert 0 <= found["l2_far_share"] <= 1


def prepared(module, place):
    return lambda case, arrays: module.prepare(case, place, arrays).call
