"""Roofs from every origin, ridges and points, with numbers in and numbers out."""

from __future__ import annotations

import pytest
from fakes import H200, gemm_result

from pymicro.analysis.figures import Subject
from pymicro.analysis.roofline import Point, roofline, stored_points
from pymicro.devices.catalogue import catalogue
from pymicro.devices.cpu import CpuSpec
from pymicro.telemetry import Telemetry

SPECS = catalogue()


def h200(*results):
    return Subject("H200", SPECS["h200_sxm_141gb"], tuple(results))


def bandwidth(seconds, level="memory", size=2**30, passes=1, **changes):
    params = {"op": "read", "size": size, "level": level, "access": "sequential"}
    params |= changes.pop("params", {})
    return gemm_result(
        seconds, benchmark="bandwidth", params=params, details={"passes": passes}, flop=0,
        bytes=2**30, **changes,
    )  # fmt: skip


def test_ridge_is_peak_over_bandwidth():
    spec = SPECS["h100_pcie_80gb"]
    model = roofline(Subject("x", spec), ("fp32", "tf32"))
    ridges = {r.of: model.ridge(r) for r in model.roofs if r.kind == "compute"}
    assert ridges["fp32"] == pytest.approx(51.2e12 / 2039e9, rel=2e-3)
    assert ridges["tf32"] == pytest.approx(378e12 / 2039e9, rel=2e-3)


@pytest.mark.parametrize(
    ("intensity", "bound_by", "attainable"),
    [(1.0, "dram", 4.8e12), (1e4, "compute", 989.4e12)],
)
def test_a_point_is_bound_by_the_lower_roof(intensity, bound_by, attainable):
    point = Point("x", "fp16", intensity, attainable / 2, attainable / 2, attainable / 2)
    (placed,) = roofline(h200(), ("fp16",), [point]).points
    assert placed.bound_by == bound_by
    assert placed.attainable == pytest.approx(attainable, rel=1e-3)
    assert placed.fraction == pytest.approx(0.5, rel=1e-3)


def test_stored_products_are_points():
    result = gemm_result(1e-3)
    (placed,) = roofline(h200(result), ("fp16",)).points
    assert placed.point.intensity == pytest.approx(result.flop / result.bytes)
    assert placed.point.rate == pytest.approx(result.flop / 1e-3)
    assert roofline(h200(result), ("fp32",)).points == ()


def test_points_of_a_job_keep_their_share_of_its_time():
    point = Point("attention", "fp16", 10.0, 1e12, 1e12, 1e12, share_of_time=0.4)
    (placed,) = roofline(h200(), ("fp16",), [point]).points
    assert placed.point.share_of_time == 0.4


def test_the_roof_at_the_clock_measured_follows_from_that_clock():
    clock, memory = 1.395e9, 3.201e9
    result = gemm_result(
        sample_sm_clock_hz=(clock,) * 20, telemetry=Telemetry(memory_clock_hz=memory)
    )
    model = roofline(h200(result), ("fp16",))
    spec = SPECS["h200_sxm_141gb"]
    roof = model.best("compute", "fp16", "at the clock measured")
    assert roof.rate == pytest.approx(132 * 4096 * clock)
    dram = model.best("memory", "dram", "at the clock measured")
    assert dram.rate == pytest.approx(2 * memory * spec.memory_bus_width_bits / 8)
    assert dram.rate == pytest.approx(4814e9, rel=1e-3)


def test_probes_are_roofs_and_no_points():
    peak = gemm_result(1e-4, benchmark="peak", variant="mma", params={})
    cached = bandwidth(1e-4, size=2**24, passes=64, backend="cuda")
    model = roofline(
        h200(peak, bandwidth(3e-4), bandwidth(2.5e-4), cached, bandwidth(5e-5, "shared")),
        ("fp16",),
    )
    assert model.best("compute", "fp16", "probe").rate == pytest.approx(peak.flop / 1e-4)
    assert model.best("memory", "dram", "probe").rate == pytest.approx(2**30 / 2.5e-4)
    assert model.best("memory", "l2", "probe").rate == pytest.approx(2**30 / 1e-4)
    assert model.best("memory", "shared", "probe").rate == pytest.approx(2**30 / 5e-5)
    assert model.points == ()


@pytest.mark.parametrize(
    "result",
    [
        bandwidth(1e-4, size=2**26, passes=4),  # 64 MiB: more than L2 and yet gone through often.
        bandwidth(1e-4, size=45 * 2**20, passes=4),  # More than half of L2.
        bandwidth(1e-4, params={"access": "random"}),
        bandwidth(1e-4, size=2**24, passes=64),  # All L1 caches together hold 33 MiB.
        # Pairs of SMs receive more than L2 sends.
        bandwidth(1e-4, size=2**24, passes=64, backend="cuda", variant="shared"),
    ],
)
def test_a_bandwidth_of_no_certain_level_is_no_roof(result):
    model = roofline(h200(result), ("fp16",))
    assert [r for r in model.roofs if r.origin == "probe"] == []


@pytest.mark.parametrize(("size", "is_roof"), [(2**16, False), (2**21, False), (2**23, True)])
def test_the_last_cache_of_a_cpu_is_beyond_what_its_cores_hold(size, is_roof):
    spec = CpuSpec("x", physical_cores=2, l1d_bytes=2**15, l2_bytes=2**20, l3_bytes=2**25)
    device = {"kind": "cpu", "name": "x"}
    result = bandwidth(1e-4, size=size, passes=64, device=device, backend="native")
    roof = roofline(Subject("x", spec, (result,)), ("fp32",)).best("memory", "last cache")
    assert (roof is not None) == is_roof


def test_a_cpu_of_which_an_inner_cache_is_not_known_has_no_roof_of_the_last():
    spec = CpuSpec("x", physical_cores=2, l3_bytes=2**25)
    result = bandwidth(1e-4, size=2**23, passes=64, device={"kind": "cpu", "name": "x"})
    assert roofline(Subject("x", spec, (result,)), ("fp32",)).best("memory", "last cache") is None


def test_published_caches_are_roofs_where_there_are_any():
    model = roofline(Subject("x", SPECS["h100_pcie_80gb"]), ("fp16",))
    l2 = model.best("memory", "l2", "published")
    assert (l2.low, l2.high) == (3800e9, 7012e9)
    assert "gpu-benches" in l2.source
    assert roofline(Subject("x", SPECS["l40s"]), ("fp16",)).best("memory", "l2") is None


def test_what_is_not_known_is_said():
    said = " ".join(roofline(Subject("x", SPECS["t4"]), ("bf16",)).absent)
    assert "no peak on paper for bf16" in said
    assert "no stored result" in said


def test_a_device_outside_the_catalogue_has_what_its_results_keep():
    device = {k: v for k, v in H200.items() if k != "key"}
    device |= {"peak_ops_per_s": {"fp16": 5e14}, "memory_bytes_per_s": 1e12}
    subject = Subject("x", None, (gemm_result(1e-3, device),), True)
    model = roofline(subject, ("fp16",))
    assert model.best("compute", "fp16", "data sheet").rate == 5e14
    assert model.points[0].attainable == 5e14


def test_points_say_batch_and_layout_and_the_newest_of_a_case_stands_for_it():
    plain = {"m": 128, "n": 128, "k": 64, "layout": "nt"}
    results = [
        gemm_result(2e-3, params=plain),
        gemm_result(1e-3, params=plain | {"batch": 384}),
        gemm_result(1e-3, params=plain | {"layout": "nn"}),
        gemm_result(1e-3, params=plain, run_id="bbbb"),
    ]
    points = list(stored_points(results, ("fp16",)))
    assert [p.label for p in points] == [
        "gemm torch 384 of 128×128×64", "gemm torch 128×128×64 nn", "gemm torch 128×128×64",
    ]  # fmt: skip
    assert points[-1].rate == pytest.approx(2 * 4096**3 / 1e-3)
