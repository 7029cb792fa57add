"""Each primitive from the best evidence there is, with an interval and a source."""

import dataclasses
import re

import pytest

from pymicro.analysis.primitives import (
    GROUPS,
    PATHS,
    FusedAttention,
    HostCosts,
    Kernel,
    Library,
    Primitives,
    moving,
)
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.primitives_tables import default_host, default_library
from pymicro.analysis.products import Unit
from pymicro.analysis.values import KINDS, Value, of_several, spread, worst
from pymicro.analysis.work import Product
from pymicro.devices.catalogue import catalogue
from pymicro.devices.cpu import CpuSpec
from pymicro.errors import Unavailable
from pymicro.results import Result

CARD = "rtx_4090"


def product(size: int, seconds: float, dtype: str = "fp16", **more) -> Result:
    params = {"m": size, "n": size, "k": size, "layout": "nt"}
    return Result(
        "gemm",
        "torch",
        "matmul",
        dtype,
        params=params,
        flop=2 * size**3,
        times_s=(seconds,) * 5,
        **more,
    )


@pytest.mark.parametrize("key", sorted(catalogue()))
def test_every_card_has_every_primitive(key):
    p = primitives(catalogue()[key], measured=False)
    assert p.flop_per_s.keys() == {path for path in PATHS if p.peak_flop_per_s[path]}
    for name, value in p.values().items():
        assert value.low <= value.value <= value.high, name
        assert value.source, name
        assert value.kind in KINDS
        assert value.kind != "measured", name
    # No card computes faster than a fifth above its paper peak, or moves more than on paper.
    assert all(p.flop_per_s[path].value <= 1.2 * p.peak_flop_per_s[path] for path in p.flop_per_s)
    assert p.dram_bytes_per_s.value <= p.paper_bytes_per_s


def test_print_of_the_card_itself_goes_before_the_data_sheet():
    spec = catalogue()
    assert primitives(spec["rtx_4090"], measured=False).flop_per_s["fp16"].kind == "published"
    inferred = primitives(spec["rtx_4080"], measured=False).flop_per_s["fp16"]
    assert inferred.kind in ("datasheet", "published")
    assert inferred.low < inferred.value <= inferred.high


def test_stored_results_go_before_print():
    rate = 2 * 4096**3 / 1e-3
    found = primitives(catalogue()[CARD], [product(4096, 1e-3)])
    assert found.flop_per_s["fp16"].kind == "measured"
    assert found.flop_per_s["fp16"].value == pytest.approx(rate)
    assert found.product_s["fp16", Product(1, 4096, 4096, 4096, "nt")].value == 1e-3
    assert (
        primitives(catalogue()[CARD], [product(4096, 1e-3)], measured=False).flop_per_s["fp16"].kind
        == "published"
    )


def test_a_small_product_is_no_rate():
    found = primitives(catalogue()[CARD], [product(256, 1e-3)])
    assert found.flop_per_s["fp16"].kind == "published"
    assert len(found.product_s) == 1


def test_a_stored_stream_and_launch():
    copy = Result(
        "bandwidth",
        "torch",
        "stream",
        "fp32",
        params={"op": "copy", "size": 2**30},
        bytes=2**31,
        times_s=(2e-3,) * 5,
        cache="cold",
    )
    chain = Result(
        "launch",
        "torch",
        "op",
        "int32",
        params={"call": "args3", "side": "device", "calls": 100},
        times_s=(1.6e-4,) * 5,
    )
    found = primitives(catalogue()[CARD], [copy, chain])
    assert found.dram_bytes_per_s.value == pytest.approx(2**31 / 2e-3)
    assert found.gap_s.value == pytest.approx(0.8e-6)


def test_a_shipped_card_is_measured():
    found = primitives(catalogue()["h200_sxm_141gb"])
    assert len(found.product_s) > 500
    assert found.floor_s.kind == found.gap_s.kind == "measured"


def test_a_cpu_of_which_nothing_is_known_says_what_to_do():
    with pytest.raises(Unavailable, match="pymicro suite --for"):
        primitives(CpuSpec(name="some CPU"))


def test_a_measured_cpu_has_one_queue():
    copy = Result(
        "bandwidth",
        "torch",
        "stream",
        "fp32",
        params={"op": "copy", "size": 2**28},
        bytes=2**29,
        times_s=(20e-3,) * 5,
        cache="cold",
    )
    p = primitives(CpuSpec(name="some CPU", physical_cores=2), [product(2048, 0.2, "fp32"), copy])
    assert p.flop_per_s["fp32"].value == pytest.approx(2 * 2048**3 / 0.2)
    assert p.host.operator("forward").value == p.gap_s.value == 0


def test_a_faster_host_is_faster_in_everything():
    slow, fast = default_host(), default_host().faster(2)
    assert fast.operator("backward").value == slow.operator("backward").value / 2
    assert fast.wait_s.value == slow.wait_s.value / 2


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_two_ends(group):
    p = complete()
    assert p.with_value(group, "low") != p.with_value(group, "high")


def complete():
    """A card of which everything is known, also what most cards lack."""
    share = {"fp32": spread(0.8, 0.1, "x", "published")}
    found = primitives(catalogue()["h200_sxm_141gb"])
    return dataclasses.replace(found, clock_share=share, batched_share=share)


def test_what_cannot_move_a_job_is_left_out():
    p = complete()
    assert set(moving(p, graphs=False)) == set(GROUPS) - {"graph_gap_s"}
    assert set(moving(p, graphs=True)) == set(GROUPS) - {"gap_s"}
    unheld = dataclasses.replace(p, clock_share={})
    assert "clock_share" not in moving(unheld, graphs=False)


def test_every_figure_says_its_unit_in_its_name():
    """All that is a number: seconds, rates, bytes, counts, shares; what is none is named here."""
    unit = re.compile(r"(_s|_hz|_w|_bytes|_per_s|_count|_share|_clk|_floors|_keys|_k|_an_sm)$")
    none = {"name", "key", "host", "library", "kernels", "attention", "units", "speed"}
    # Factors and counts, which have none.
    none |= {"share", "dropout", "mask", "reading", "tensors_a_launch", "at_once"}
    for of in (Primitives, HostCosts, Kernel, FusedAttention, Library, Unit):
        for field in dataclasses.fields(of):
            assert field.name in none or unit.search(field.name), f"{of.__name__}.{field.name}"


def test_the_table_of_sources_has_every_value_with_its_unit():
    from pymicro.report.jobs import quantity

    for name, value in complete().values().items():
        title, text = quantity(name, value)
        assert "_" not in title
        if "share" not in name:
            assert re.search(r"(FLOP/s|B/s|s) \(", text), text


def test_the_library_knows_every_class():
    from typing import get_args

    from pymicro.analysis.work import Class

    assert set(get_args(Class)) <= default_library().kernels.keys()


def test_values_keep_their_interval():
    value = spread(10.0, 0.2, "x", "published")
    assert value.times(-1).low == -12
    assert of_several([1, 2, 9], "x", "published") == Value(2, 1, 9, "x", "published")
    assert worst([value, Value(1, 1, 1, "", "measured")]) == "published"
    with pytest.raises(ValueError, match="outside"):
        Value(3, 1, 2, "x", "measured")
