"""A GPU is its row by whole name; other facts witness, and an unknown card is never its sibling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pymicro.devices.catalogue import catalogue
from pymicro.devices.identify import CORES_PER_SM, identify
from pymicro.devices.nvml import LocalGpu

SPECS = catalogue()
GIB = 2**30


def gpu(key, **changes):
    """The card of a row as a driver would describe it."""
    spec = SPECS[key]
    told = LocalGpu(
        name=spec.nvml_names[0],
        capability=spec.capability,
        sm_count=spec.sm_count,
        memory_bytes=round(0.985 * spec.memory_bytes),
        pci_device_id=spec.pci_device_ids[0],
        max_sm_clock_hz=spec.max_clock_hz or spec.boost_clock_hz,
        max_memory_clock_hz=spec.memory_bits_per_s_per_pin / 2,
        memory_bus_width_bits=spec.memory_bus_width_bits,
        default_power_limit_w=spec.tdp_w,
    )
    return replace(told, **changes)


@pytest.mark.parametrize("key", SPECS)
def test_every_row_is_recognised_by_each_of_its_names(key):
    for name in SPECS[key].nvml_names:
        found = identify(gpu(key, name=name))
        assert (found.spec.key, found.warnings) == (key, ()), found
        assert "whole name" in found.how


@pytest.mark.parametrize("key", SPECS)
def test_the_name_alone_is_enough(key):
    found = identify(LocalGpu(name=SPECS[key].nvml_names[0]))
    assert (found.spec.key, found.warnings) == (key, ())


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H100 PCIe", "h100_pcie_80gb"),
        ("NVIDIA H100 NVL", "h100_nvl_94gb"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm5_80gb"),
    ],
)
def test_variants_are_not_confused(name, key):
    found = identify(gpu(key, name=name))
    assert (found.spec.key, found.spec.sm_count) == (key, SPECS[key].sm_count)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA H200 NVL",
        "NVIDIA GeForce RTX 4080 SUPER", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID A100-40C",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "Quadro RTX 4000 with Max-Q",
        "NVIDIA GeForce RTX 3090 Ti", "Tesla T4G", "NVIDIA L40G", "NVIDIA A10G",
    ],
)  # fmt: skip
def test_a_siblings_name_is_never_a_row(name):
    found = identify(LocalGpu(name=name, capability=(8, 9), sm_count=76, max_sm_clock_hz=2e9))
    assert found.spec.computed
    assert found.spec.key == ""
    assert name in found.how


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"sm_count": 114}, "114 SMs"), ({"capability": (8, 0)}, "compute capability 8.0")],
)
def test_a_name_that_the_hardware_contradicts_is_not_believed(changes, words):
    found = identify(gpu("h100_sxm5_80gb", **changes))
    assert found.spec.computed
    assert any(words in w for w in found.warnings)


def test_more_memory_is_kept_and_warned_of():
    found = identify(gpu("rtx_4090", memory_bytes=48 * GIB))
    assert found.spec.key == "rtx_4090"
    assert found.spec.memory_bytes == 48 * GIB
    assert "48.0 GiB" in found.warnings[0]


def test_another_power_limit_and_another_rows_pci_id_are_warned_of():
    other = SPECS["h100_nvl_94gb"].pci_device_ids[0]
    found = identify(gpu("h200_sxm_141gb", default_power_limit_w=400, pci_device_id=other))
    assert found.spec.key == "h200_sxm_141gb"
    assert "400 W" in found.warnings[0]
    assert "H100 NVL" in found.warnings[1]


def test_bandwidth_comes_from_the_table_and_a_difference_is_a_warning():
    fine = identify(gpu("h200_sxm_141gb", max_memory_clock_hz=3201e6, memory_bus_width_bits=6144))
    assert fine.spec.memory_bytes_per_s == 4800e9
    assert fine.warnings == ()
    odd = identify(gpu("h200_sxm_141gb", max_memory_clock_hz=2619e6))
    assert odd.spec.memory_bytes_per_s == 4800e9
    assert "3939 GB/s" in odd.warnings[0]


def test_pci_id_finds_a_renamed_card_only_if_all_else_agrees():
    found = identify(gpu("l40s", name="Graphics Device"))
    assert found.spec.key == "l40s"
    assert "PCI id" in found.how
    for changes in ({"sm_count": 100}, {"memory_bytes": 24 * GIB}, {"sm_count": None}):
        assert identify(gpu("l40s", name="Graphics Device", **changes)).spec.computed


def test_an_unknown_card_of_a_known_generation_gets_computed_peaks():
    found = identify(
        LocalGpu(
            name="NVIDIA H800 PCIe",
            capability=(9, 0),
            sm_count=114,
            max_sm_clock_hz=1755e6,
            max_memory_clock_hz=1593e6,
            memory_bus_width_bits=5120,
        )
    )
    assert found.spec.computed
    assert found.spec.peak_ops_per_s("fp16_tensor_fp32_acc") == 114 * 4096 * 1755e6
    assert found.spec.memory_bytes_per_s == 2 * 1593e6 * 5120 / 8
    assert "at most, computed" in found.how
    assert "1755 MHz" in found.how


def test_a_gaming_card_gets_the_rates_of_gaming_cards():
    laptop = LocalGpu(
        name="NVIDIA GeForce RTX 4080 Laptop GPU",
        capability=(8, 9),
        sm_count=58,
        max_sm_clock_hz=2280e6,
    )
    rates = identify(laptop).spec.ops_per_clk_per_sm
    assert rates["fp16_tensor_fp32_acc"] == 512
    assert rates["fp16_tensor_fp16_acc"] == 1024


def test_a_gaming_card_without_a_gaming_row_gets_no_tensor_rates():
    """Capability 7.5 holds the GTX 16 cards, which have no tensor cores."""
    found = identify(
        LocalGpu(
            name="NVIDIA GeForce GTX 1660",
            capability=(7, 5),
            sm_count=22,
            max_sm_clock_hz=2e9,
        )
    )
    assert found.spec.peak_ops_per_s("fp16_tensor_fp32_acc") is None
    assert found.spec.peak_ops_per_s("fp32") == 22 * 128 * 2e9


def test_rates_that_differ_within_a_generation_stay_unknown():
    """L40 and L40S have the same capability and brand, but not the same tensor rate."""
    found = identify(
        LocalGpu(name="NVIDIA L20", capability=(8, 9), sm_count=92, max_sm_clock_hz=2520e6)
    )
    assert found.spec.peak_ops_per_s("fp16_tensor_fp32_acc") is None
    assert found.spec.peak_ops_per_s("fp32") == 92 * 256 * 2520e6


def test_a_generation_without_a_row_gets_fp32_alone():
    """P100: 56 SMs of 64 cores at 1480 MHz, 10.6 TFLOP/s on its data sheet."""
    found = identify(
        LocalGpu(
            name="Tesla P100-SXM2-16GB",
            capability=(6, 0),
            cuda_cores=3584,
            max_sm_clock_hz=1480e6,
        )
    )
    assert found.spec.sm_count == 56
    assert found.spec.peak_ops_per_s("fp32") == pytest.approx(10.6e12, rel=0.01)
    assert found.spec.peak_ops_per_s("fp16") is None
    assert "only FP32" in found.how


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_cores_per_sm_agree_with_the_catalogue(spec):
    assert spec.ops_per_clk_per_sm["fp32"] == 2 * CORES_PER_SM[spec.capability]


def test_an_unknown_generation_gets_no_peaks():
    found = identify(
        LocalGpu(name="NVIDIA R100", capability=(13, 0), sm_count=200, max_sm_clock_hz=2e9)
    )
    assert found.spec.peak_ops_per_s("fp32") is None
    assert "no peaks" in found.how
    nothing = identify(LocalGpu(name="NVIDIA R100"))
    assert nothing.spec is None
    assert "no peaks" in nothing.how


def test_a_slice_is_computed_from_its_own_sms():
    part = gpu("a100_sxm4_40gb", sm_count=14, memory_bytes=5 * GIB, part=True)
    found = identify(part)
    assert found.spec.computed
    assert found.spec.peak_ops_per_s("fp32") == 14 * 128 * 1410e6
    assert found.spec.memory_bytes_per_s is None


def test_sms_follow_from_nvmls_cores():
    found = identify(gpu("h100_pcie_80gb", sm_count=None, cuda_cores=114 * 128))
    assert "114 SMs" in found.how
    assert identify(gpu("h100_pcie_80gb", sm_count=None, cuda_cores=132 * 128)).spec.computed


def test_a_row_of_the_users_is_recognised():
    mine = {"mine": replace(SPECS["l40s"], key="mine", nvml_names=("My Card",))}
    assert identify(gpu("l40s", name="my card"), mine).spec.key == "mine"
