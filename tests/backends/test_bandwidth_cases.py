"""Which bandwidth kernel serves a case and how it is launched; the driver is a double."""

import ctypes
from types import SimpleNamespace

import pytest

from pymicro.backends.base import Place
from pymicro.backends.cuda import bandwidth, bandwidth_rows, latency
from pymicro.benchmark import Case
from pymicro.errors import Unavailable
from pymicro.streams import PARTIALS, passes
from pymicro.suite import benchmark

HOPPER = Place("cuda", 0, (9, 0), 132)


class FakeKernel:
    """Records how it was bound."""

    def __init__(self, cubin, entry, shared_bytes=0):
        self.entry, self.loaded_shared, self.function = entry, shared_bytes, entry

    def bind(self, grid, block, arguments, stream, shared_bytes=0, cluster=(1, 1, 1)):
        launch = SimpleNamespace(
            grid=grid[0],
            threads=block[0],
            arguments=arguments,
            shared=shared_bytes,
            cluster=cluster,
        )
        assert shared_bytes <= max(self.loaded_shared, 48 * 1024)
        BOUND.append(launch)
        return lambda: None


BOUND: list[SimpleNamespace] = []


@pytest.fixture(autouse=True)
def driver(monkeypatch):
    BOUND.clear()
    compiled = []
    monkeypatch.setattr(
        bandwidth.compiler, "compile_cubin", lambda *wanted: compiled.append(wanted) or b""
    )
    monkeypatch.setattr(bandwidth.driver.Kernel, "load", staticmethod(FakeKernel))
    monkeypatch.setattr(bandwidth, "blocks_per_sm", lambda *_: 4)
    monkeypatch.setattr(bandwidth, "fastest", lambda calls, stream: (next(iter(calls)), {}))
    return compiled


def case(variant="fastest", dtype="fp32", **changes):
    params = {"op": "copy", "size": 2**30, "level": "memory", "access": "sequential", "stride": 8}
    return Case("bandwidth", "cuda", variant, dtype, params | {"sms": 132} | changes)


def arrays(nbytes=2**30):
    return {n: SimpleNamespace(ptr=p, nbytes=nbytes) for n, p in (("a", 1), ("b", 2), ("c", 3))}


def prepared(wanted, place=HOPPER):
    return bandwidth.prepare(wanted, place, arrays())


@pytest.mark.parametrize("op", bandwidth_rows.STREAMS)
def test_every_candidate_is_launched_within_its_limits(op):
    prepared(case(op=op))
    usable = [row for row in bandwidth_rows.STREAMS[op] if bandwidth_rows.fits(row, op, (9, 0))]
    assert len(BOUND) == len(usable) >= 3
    for row, launch in zip(usable, BOUND, strict=True):
        tiles = 2**30 // row.tile_bytes
        assert launch.grid == (4 * 132 if row.persistent else tiles)
        assert launch.threads == row.threads
        assert launch.shared <= 227 * 1024
        assert launch.arguments[4].value == 2**28
        assert launch.arguments[5].value == 1
        if op in ("read", "dot"):
            assert launch.grid <= PARTIALS


def test_operands_that_an_operation_lacks_are_never_read():
    bandwidth.prepare(case(op="write"), HOPPER, {"c": arrays()["c"]})
    assert {a.value for launch in BOUND for a in launch.arguments[:3]} == {3}


@pytest.mark.parametrize(("size", "resident"), [(2**20, True), (2**30, False)])
def test_small_arrays_are_read_past_l1_several_times(size, resident):
    found = prepared(case(op="read", size=size))
    assert (found.notes["kernel"] in {row.name for row in bandwidth_rows.RESIDENT}) == resident
    assert (BOUND[0].arguments[5].value > 1) == resident


@pytest.mark.parametrize(("sms", "size", "grid"), [(132, 2**24, 528), (131, 2**24, 524), (1, 8, 2)])
def test_pairs_of_sms_read_an_array_that_stays_in_l2_together(sms, size, grid):
    found = prepared(case(variant="shared", op="read", size=size, sms=sms))
    assert found.notes["kernel"] in {row.name for row in bandwidth_rows.SHARED}
    assert {launch.cluster for launch in BOUND} == {(2, 1, 1)}
    assert {launch.grid for launch in BOUND} == {grid}


@pytest.mark.parametrize(
    ("variant", "changes", "is_planned"),
    [
        ("shared", {"op": "read", "size": 2**24}, True),
        ("shared", {"op": "read", "size": 2**30}, False),
        ("shared", {"op": "copy", "size": 2**24}, False),
        ("shared", {"op": "read", "size": 65536, "level": "l1"}, False),
        ("fastest", {"op": "read", "size": 2**30}, True),
    ],
)
def test_sharing_is_planned_where_l2_is_read(variant, changes, is_planned):
    assert benchmark("bandwidth").applies(variant, case(**changes).params) == is_planned


def test_a_small_array_gets_no_idle_blocks():
    prepared(case(op="copy", size=100_000))
    assert all(launch.grid <= 100_000 // (512 * 16) for launch in BOUND)
    prepared(case(op="copy", size=8))
    assert BOUND[-1].grid == 1


def test_fewer_sms_get_fewer_blocks():
    prepared(case(op="read", sms=10))
    assert {launch.grid for launch in BOUND} == {40}


@pytest.mark.parametrize("level", ["l1", "shared", "dsmem"])
def test_levels_inside_an_sm_run_one_block_each(level):
    wanted = case(op="read", level=level, size=65536)
    found = prepared(wanted)
    (launch,) = BOUND
    assert launch.grid == 132
    assert launch.cluster == ((2, 1, 1) if level == "dsmem" else (1, 1, 1))
    assert launch.shared == (0 if level == "l1" else 65536)
    assert launch.arguments[-1].value == passes(wanted.params) == found.notes["passes"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"level": "l1", "op": "copy"}, "--op read only"),
        ({"level": "dsmem", "op": "write"}, "--op read only"),
        ({"level": "l1", "op": "read", "size": 2**20}, "192 KiB"),
        ({"level": "shared", "op": "read", "size": 1000}, "4 KiB"),
        ({"level": "shared", "op": "read", "size": 2**18}, "224 KiB"),
        ({"level": "dsmem", "op": "read", "size": 2**16, "sms": 5}, "even"),
        ({"access": "random", "op": "triad"}, "--op copy"),
        ({"access": "strided", "level": "shared"}, "--op copy"),
    ],
)
def test_what_no_kernel_does_is_said(changes, said):
    with pytest.raises(Unavailable, match=said):
        prepared(case(**changes))


def test_clusters_need_hopper():
    with pytest.raises(Unavailable, match=r"9\.0"):
        prepared(case(op="read", level="dsmem", size=65536), Place("cuda", 0, (8, 9), 128))


@pytest.mark.parametrize(("access", "count"), [("strided", 2**25), ("random", 2**28)])
def test_gathers_count_the_elements_they_read(access, count):
    prepared(case(access=access))
    assert [a.value for a in BOUND[0].arguments[2:]] == [
        count,
        8 if access == "strided" else 1,
        2**28,
    ]


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("fp32", 0x3EC00000), ("fp16", 0x3600), ("bf16", 0x3EC0), ("int32", 3), ("int8", 3)],
)
def test_the_driver_fills_with_the_bits_of_the_scalar(dtype, bits):
    assert bandwidth._scalar_bits(dtype) == bits


@pytest.mark.parametrize("changes", [{"op": "triad"}, {"op": "copy", "size": 2**20}])
def test_the_driver_only_copies_and_fills_large_arrays(changes):
    with pytest.raises(Unavailable, match="the driver copies"):
        prepared(case("driver", **changes))


def test_a_chip_compiles_only_what_it_has(driver):
    prepared(case(op="copy"), Place("cuda", 0, (7, 5), 40))
    assert {wanted[0] for wanted in driver} == {"bandwidth/stream.cu"}
    assert {wanted[1] for wanted in driver} == {"sm_75"}


@pytest.mark.parametrize("op", bandwidth_rows.STREAMS)
def test_a_small_shared_memory_gets_small_rings(op):
    bandwidth.prepare(case(op=op), Place("cuda", 0, (12, 0), 170), arrays())
    assert any(launch.shared for launch in BOUND)
    assert max(launch.shared for launch in BOUND) < 99 * 1024


@pytest.mark.parametrize(("capability", "kib"), [((8, 9), 98), ((7, 5), 63), ((10, 3), 226)])
def test_a_chunk_larger_than_shared_memory_is_refused(capability, kib):
    place = Place("cuda", 0, capability, 132)
    prepared(case(op="read", level="shared", size=kib // 16 * 16 * 1024), place)
    if kib < 224:
        with pytest.raises(Unavailable, match=f"{kib} KiB"):
            prepared(case(op="read", level="shared", size=(kib // 16 + 1) * 16 * 1024), place)


@pytest.mark.parametrize(("where", "hop"), [("shared", 0), ("dsmem", 1)])
def test_a_chase_on_chip_is_one_cluster(where, hop):
    params = {"size": 16384, "stride": 128, "where": where, "step": "load"}
    latency.prepare(Case("latency", "cuda", "chase", "int32", params), HOPPER, arrays_of_chase())
    (launch,) = BOUND
    assert launch.grid == launch.cluster[0] == hop + 1
    count = launch.arguments[1]
    assert isinstance(count, ctypes.c_uint32)
    assert count.value == 16384 // (8 if hop else 4)


def arrays_of_chase():
    return {"order": SimpleNamespace(ptr=1), "c": SimpleNamespace(ptr=2)}


@pytest.mark.parametrize(
    ("stride", "step", "walked"),
    [(128, "load", "l1"), (4096, "load", "l2"), (2**21 + 128, "load", "l2"),
     (4096, "atomic", "atomic"), (128, "generic", "generic")],
)  # fmt: skip
def test_places_a_page_apart_are_walked_past_l1(stride, step, walked):
    """L1 keeps lines by their virtual addresses: a hit there needs no translation."""
    params = {"size": 2**30, "stride": stride, "where": "memory", "step": step}
    assert latency.kernel_of(params).step == walked


@pytest.mark.parametrize(
    ("where", "step", "size", "said"),
    [("host", "atomic", 4096, "not measured"), ("shared", "load", 65536, "48 KiB")],
)
def test_chases_that_do_not_exist(where, step, size, said):
    params = {"size": size, "stride": 128, "where": where, "step": step}
    wanted = Case("latency", "cuda", "chase", "int32", params)
    with pytest.raises(Unavailable, match=said):
        latency.prepare(wanted, HOPPER, arrays_of_chase())


def test_a_generation_is_asked_for_by_name():
    """For the generation gap: what a chip of that generation could run, or what only it brought."""
    first = {row.name: row.first for row in bandwidth_rows.STREAMS["copy"]}

    def written_for(variant, place=HOPPER):
        return first[bandwidth.prepare(case(variant), place, arrays()).notes["kernel"]]

    assert written_for("sm75") <= (7, 5)
    assert written_for("sm90") == (9, 0)
    with pytest.raises(Unavailable, match="sm90"):
        written_for("sm90", Place("cuda", 0, (8, 0), 108))
