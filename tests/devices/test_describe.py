"""One card in full: every field shown, with its unit, and what is unknown said so."""

from __future__ import annotations

import pytest

from pymicro.devices.catalogue import catalogue
from pymicro.devices.cpu import CpuSpec
from pymicro.devices.describe import describe
from pymicro.devices.spec import PATHS, DeviceSpec


@pytest.mark.parametrize("spec", catalogue().values(), ids=catalogue())
def test_every_row_describes_itself_with_sources(spec):
    shown = describe(spec)
    assert shown["sources"].startswith("http")
    assert all(isinstance(v, str) and v for v in shown.values())
    assert {f"peak {p}" for p in PATHS} <= shown.keys()


def test_units_and_the_half_rate_of_gaming_cards():
    shown = describe(catalogue()["rtx_4090"])
    assert shown["memory bandwidth"] == "1.008 TB/s"
    assert shown["peak fp16_tensor_fp32_acc"].startswith("165.2 TFLOP/s at 2.520 GHz")
    assert shown["power limit"] == "450 W"
    assert shown["L2 cache"] == "72 MiB"


def test_an_explained_mismatch_is_shown_beside_the_figure():
    assert "1563 MHz" in describe(catalogue()["quadro_p6000"])["peak fp32"]


def test_a_spec_of_which_little_is_known():
    shown = describe(DeviceSpec(key="", name="NVIDIA R100", capability=(13, 0)))
    assert shown["peak fp32"] == shown["memory bandwidth"] == "not known"
    assert "computed" in shown["key"]


def test_a_cpu():
    shown = describe(CpuSpec("Some CPU", physical_cores=2, logical_cores=4, quota_cores=1.5))
    assert shown["usable"] == "2 cores, 4 threads, at most 1.5 cores at once (control group)"
    assert not any(k.startswith("peak") for k in shown)
