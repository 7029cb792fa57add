"""Each trap of definition fires on the figure that falls into it, and on no honest one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pymicro.devices.catalogue import catalogue
from pymicro.devices.metrics import METRICS
from pymicro.devices.published import published, sources
from pymicro.devices.traps import CHECKS, differences, peak_path, roof, traps

SPECS = catalogue()
PRIMARY = next(s for s in sources().values() if s.primary)
PLAIN = replace(
    published()[0],
    device="RTX 4090",
    key="rtx_4090",
    metric=METRICS["gemm_tflops"],
    dtype="fp16",
    accumulate="fp32",
    size="4096x4096x4096",
    value=150e12,
    method="cuBLAS",
    source=PRIMARY,
    fill="random",
    sustained=None,
    power_limit_w=None,
    bytes_touched=None,
    searched=False,
)


def row(metric="gemm_tflops", **changes):
    return replace(PLAIN, metric=METRICS[metric], **changes)


def test_an_honest_figure_has_no_trap():
    assert traps(PLAIN, SPECS["rtx_4090"]) == []


@pytest.mark.parametrize(
    ("figure", "card", "words"),
    [
        (row("mma_sparse_tflops", value=1472e12), "h100_pcie_80gb", "2:4 sparsity"),
        (row(accumulate="fp16", value=300e12), "rtx_4090", "sums into FP16"),
        (row("mma_tflops", accumulate=None), "rtx_4090", "does not say"),
        (row("dram_read_gbps", dtype="fp32", value=900e9, bytes_touched=64 * 2**20), "rtx_4090",
         "less than 4 times the L2 cache of 72 MiB"),
        (row("dram_read_gbps", dtype="fp32", value=3868e9), "rtx_4090", "cannot do"),
        (row(value=330e12), "rtx_4090", "cannot do"),  # the sparse peak, or FP16 sums
        (row(value=1500e12), "h100_sxm5_80gb", "cannot do"),
        (row(value=173e12), "rtx_4090", "105 % of the data sheet's 165.2 TFLOP/s"),
        (row(dtype="fp8", value=480e12), "rtx_5090", "block-scaled"),
        (row(dtype="bf16", value=2e12), "t4", "emulates"),
        (row(fill="zeros"), "rtx_4090", "zeros draw less power"),
        (row(power_limit_w=400.0), "rtx_5090", "400 W, the card's is 575 W"),
        (row(searched=True), "rtx_4090", "best of several"),
        (row("launch_us", value=2e-6, method="null kernel"), "rtx_4090", "null kernel"),
        (row(source=replace(PRIMARY, primary=False)), "rtx_4090", "quotation"),
        (row("h2d_gbps", value=60e9), "rtx_4090", "cannot do"),
    ],
)  # fmt: skip
def test_each_trap(figure, card, words):
    assert any(words in said for said in traps(figure, SPECS[card])), traps(figure, SPECS[card])


def test_every_check_is_exercised_by_the_data_or_a_case():
    fired = {
        check.__name__
        for figure in published()
        for check in CHECKS
        if check(figure, SPECS.get(figure.key or ""))
    }
    assert fired == {check.__name__ for check in CHECKS}


def test_only_the_known_oddities_of_the_data_exceed_their_card():
    """Two rows of one paper on B200; they stay in the data and are told, not shown as best."""
    odd = {
        (f.device, f.metric.name, f.dtype, f.source.id)
        for f in published()
        if any("cannot do" in said for said in traps(f, SPECS.get(f.key or "")))
    }
    assert odd == {
        ("B200 SXM", "fp64_tflops", "fp64", "jarmusch-2512.02189"),
        ("B200 SXM", "mma_tflops", "fp6", "jarmusch-2512.02189"),
    }


def test_roofs():
    assert roof(row(dtype="fp64"), SPECS["rtx_4090"]) == SPECS["rtx_4090"].peak_ops_per_s("fp64")
    a100 = SPECS["a100_sxm4_80gb"]
    assert roof(row(dtype="fp64"), a100) == a100.peak_ops_per_s("fp64_tensor")
    assert roof(row("fp64_tflops", dtype="fp64"), a100) == a100.peak_ops_per_s("fp64")
    assert roof(row("dram_triad_gbps"), a100) == 2039e9
    assert roof(row("h2d_gbps"), SPECS["gh200_96gb"]) == 450e9
    assert roof(row("l2_read_gbps"), a100) is None
    assert peak_path(row(dtype="")) is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (row("mma_sparse_tflops"), "different things"),
        (row("l2_latency_cycles"), "different things"),
        (row(dtype="bf16"), "formats"),
        (row(accumulate="fp16"), "accumulators"),
        (row(fill="zeros"), "contents"),
        (row(sustained=True), "burst or sustained"),
        (row(searched=True), "best of many"),
        (row(size="8192x8192x8192"), "sizes"),
    ],
)
def test_what_was_made_differently_is_not_compared_silently(other, words):
    assert any(words in unlike.text for unlike in differences(PLAIN, other))
    assert differences(other, PLAIN)


def test_alike_is_comparable():
    assert differences(PLAIN, replace(PLAIN, device="L4", key="l4", value=1.0)) == []
    assert differences(row("dram_copy_gbps"), row("dram_scale_gbps")) == []
    assert differences(row("dram_copy_gbps"), row("dram_triad_gbps"))
    assert differences(row("l1_latency_cycles"), row("l2_latency_cycles"))
