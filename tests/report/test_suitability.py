"""The catalogue by use, on a screen."""

from __future__ import annotations

import io

import pytest

from pymicro.devices.catalogue import catalogue
from pymicro.report.suitability import show, sort
from pymicro.report.terminal import Terminal

SPECS = catalogue()


def text(use, explain=False, keys=tuple(SPECS), dtype=None):
    out = io.StringIO()
    show([SPECS[k] for k in keys], use, dtype, explain, Terminal(out, width=200))
    return out.getvalue()


def row(shown, name):
    return next(line for line in shown.splitlines() if line.strip().startswith(name))


@pytest.mark.parametrize("use", ["training", "inference"])
def test_every_card_has_a_row_with_a_verdict(use):
    shown = text(use)
    for spec in SPECS.values():
        name = spec.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        assert any(size in row(shown, name) for size in ("large", "middle", "small", "none"))


def test_the_rate_is_dense_in_the_format_used_and_per_watt():
    shown = text("training", keys=("rtx_4090", "quadro_p6000"))
    assert row(shown, "RTX 4090").split()[2:4] == ["bf16", "165.2"]
    assert row(shown, "Quadro P6000").split()[2:4] == ["fp32", "12.63"]
    assert "367" in row(shown, "RTX 4090")


def test_the_sources_verdict_stands_beside_with_its_id():
    shown = text("training")
    assert "+ best for large (S2-2)" in row(shown, "H100 SXM5")
    assert "(S2-" not in row(shown, "RTX 5090")


def test_needing_nvlink_and_having_none_is_seen():
    shown = text("training", keys=("l40s", "h100_sxm5_80gb", "t4"))
    assert "- (needed)" in row(shown, "L40S")
    assert "900 (needed)" in row(shown, "H100 SXM5")
    assert "needed" not in row(shown, "T4")


def test_explain_names_rules_reasons_and_errors_with_figures():
    shown = text("training", explain=True)
    assert "Rules for training" in shown
    assert "within 90 days" in shown
    assert "no NVLink" in shown
    for word in ("fp16-columns", "variants", "pascal-fp16", "geforce-accumulate"):
        assert word in shown
    shown = " ".join(shown.split())
    assert "with 2:4 sparsity 1979 TFLOP/s, off the tensor cores 133.8 TFLOP/s" in shown
    assert "off the tensor cores 197.4 GFLOP/s" in shown  # GP102: 1/64 of its FP32 rate.
    assert "memory 94 GiB, bandwidth 3.900 TB/s" in shown


@pytest.mark.parametrize(
    ("by", "first"),
    [
        ("memory", "b200_sxm_180gb"), ("bandwidth", "b200_sxm_180gb"), ("l2", "b200_sxm_180gb"),
        ("nvlink", "b200_sxm_180gb"), ("fp32", "rtx_pro_6000_blackwell_ws"),
        ("tf32", "b200_sxm_180gb"), ("year", "rtx_5090"), ("name", "a10"),
    ],
)  # fmt: skip
def test_sorting(by, first):
    specs = sort(list(SPECS.values()), by, None, None)
    if by == "name":
        names = [s.name.removeprefix("NVIDIA ").removeprefix("GeForce ") for s in specs]
        assert names == sorted(names)
        return
    if by == "l2":
        assert specs[0].l2_bytes == max(s.l2_bytes for s in SPECS.values())
        return
    assert specs[0].key == first


def test_efficiency_is_rate_per_watt():
    specs = sort(list(SPECS.values()), "efficiency", "inference", "fp16")
    rates = [(s.peak_ops_per_s("fp16_tensor_fp32_acc") or s.peak_ops_per_s("fp32")) / s.tdp_w
             for s in specs]  # fmt: skip
    assert rates == sorted(rates, reverse=True)
