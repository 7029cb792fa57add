"""Verdicts on cards follow from stated rules: change a figure and the verdict moves with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pymicro.analysis import suitability
from pymicro.analysis.suitability import format_of, link, rules, step_parts_s, suits
from pymicro.devices.catalogue import catalogue

SPECS = catalogue()


@pytest.mark.parametrize(
    ("key", "use", "dtype"),
    [
        ("h100_sxm5_80gb", "training", "bf16"), ("h100_sxm5_80gb", "inference", "fp16"),
        ("v100_sxm2_32gb", "training", "fp16"), ("t4", "training", "fp16"),
        ("quadro_p6000", "training", "fp32"), ("quadro_p6000", "inference", "fp32"),
    ],
)  # fmt: skip
def test_the_format_used_is_one_of_the_tensor_cores_where_there_are_any(key, use, dtype):
    assert format_of(SPECS[key], use).dtype == dtype


def test_rates_are_dense_and_sum_into_fp32():
    assert format_of(SPECS["rtx_4090"], "training").flop_per_s == pytest.approx(165.2e12, rel=1e-3)
    assert format_of(SPECS["l40s"], "inference").flop_per_s == pytest.approx(366e12, rel=2e-3)
    fp8 = format_of(SPECS["l40s"], "inference", "fp8_e4m3")
    assert fp8.flop_per_s == pytest.approx(733e12, rel=2e-3)


@pytest.mark.parametrize("use", ["training", "inference"])
def test_swapping_two_cards_figures_swaps_their_verdicts(use):
    a, b = SPECS["h100_sxm5_80gb"], SPECS["quadro_p6000"]
    swapped = replace(a, key=b.key, name=b.name), replace(b, key=a.key, name=a.name)
    assert suits(swapped[0], use) == suits(a, use)
    assert suits(swapped[1], use) == suits(b, use)
    assert suits(a, use).size == "large"
    assert suits(b, use).size == "none"


def test_memory_decides_whether_it_fits():
    card = SPECS["h100_sxm5_80gb"]
    small = replace(card, memory_bytes=8 * 2**30)
    assert suits(small, "training").size == "small"
    assert "of weights" in suits(small, "training").fails
    assert suits(small, "inference").size == "small"


def test_the_bound_moves_with_the_figures():
    card = SPECS["h100_sxm5_80gb"]
    starved = replace(card, nvlink_bytes_per_s=0.0, pcie_generation=3)
    assert suits(card, "training").bound_by == "arithmetic"
    assert suits(starved, "training").bound_by == "PCIe"
    assert suits(starved, "training").needs_nvlink
    narrow = replace(card, memory_bytes_per_s=1e9)
    assert suits(narrow, "inference").size == "none"


def test_parts_of_a_step_by_hand():
    card = SPECS["a100_sxm4_80gb"]
    used = format_of(card, "training")
    parts = step_parts_s(card, used, 1e9, 8)
    assert parts["arithmetic"] == pytest.approx(6 * 1e9 * 8192 / (0.4 * used.flop_per_s))
    assert parts["memory bandwidth"] == pytest.approx(28 * 1e9 / 8 / (0.8 * 2039e9))
    assert parts["NVLink"] == pytest.approx(3.5 * 1e9 / (0.8 * 300e9))
    assert "NVLink" not in step_parts_s(card, used, 1e9, 1)


def test_a_bridge_joins_two_cards_only():
    bridged = SPECS["rtx_a6000"]
    assert link(bridged, 2)[0] == "NVLink"
    assert link(bridged, 8)[0] == "PCIe"
    assert link(SPECS["h100_sxm5_80gb"], 8) == ("NVLink", 450e9)


def test_requests_at_which_arithmetic_binds_are_the_ridge():
    found = suits(SPECS["h100_sxm5_80gb"], "inference")
    assert f"below {989.4e12 / 3352e9:.0f} requests" in found.bound_by


@pytest.mark.parametrize("use", ["training", "inference"])
def test_every_card_gets_a_verdict_with_a_reason(use):
    for spec in SPECS.values():
        found = suits(spec, use)
        assert found.size in ("large", "middle", "small", "none")
        assert found.because or found.fails
        assert found.bound_by


def test_the_rules_in_words_carry_the_constants(monkeypatch):
    assert any("40 % of the dense peak" in rule for rule in rules("training"))
    monkeypatch.setattr(suitability, "ARITHMETIC_EFFICIENCY", 0.5)
    assert any("50 % of the dense peak" in rule for rule in rules("training"))
