"""NVML may refuse any call at any time; all other answers stay."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pymicro.devices.identify import identify
from pymicro.devices.nvml import LocalGpu, bus_id, look


def test_everything_told(fake_nvml, h200):
    view = look(fake_nvml([h200]))
    assert (view.driver_version, view.cuda_version, view.reason) == ("580.65.06", (13, 0), None)
    (card,) = view.gpus
    assert card.missing == {}
    assert (card.name, card.pci_bus_id, card.pci_device_id) == (
        "NVIDIA H200",
        "0000:19:00.0",
        "10DE:2335",
    )
    assert card.max_memory_clock_hz == 3201e6
    assert card.default_power_limit_w == 700
    assert card.mig_enabled is False
    assert identify(card).spec.key == "h200_sxm_141gb"
    assert identify(card).warnings == ()


def test_the_clock_of_now_is_never_asked(fake_nvml, h200):
    """An idle card shows 405 MHz; only the maximum makes a bandwidth."""
    assert not any("ClockInfo" in c and "Max" not in c for c in fake_nvml([h200]).calls)
    assert look(fake_nvml([h200])).gpus[0].max_memory_clock_hz == 3201e6


CALLS = [
    "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetName",
    "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMemoryBusWidth", "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetMigMode", "nvmlShutdown",
]  # fmt: skip


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_one_call_refused_loses_only_its_own_fields(fake_nvml, h200, rtx_4090, call, absent):
    whole = look(fake_nvml([h200, rtx_4090]))
    nvml = fake_nvml([h200, rtx_4090], refusing=() if absent else (call,), why="Function Not Found")
    if absent:  # the binding is older and lacks the function
        delattr(nvml, call)
    view = look(nvml)
    assert len(view.gpus) == 2
    for got, full in zip(view.gpus, whole.gpus, strict=True):
        for attribute, value in vars(full).items():
            if attribute != "missing":
                expected = None if attribute in got.missing else value
                assert getattr(got, attribute) == expected
        assert all(got.missing.values())
        assert len(got.missing) <= 2
        assert identify(got).how


# The fixtures hand over a class and a constant, so that sharing them between examples is safe.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(refused=st.sets(st.sampled_from(CALLS)))
def test_any_set_of_refusals_leaves_valid_answers(fake_nvml, h200, refused):
    gpus = look(fake_nvml([h200], refusing=refused)).gpus
    assert len(gpus) == 1
    assert identify(gpus[0]).how


def test_an_older_name_of_a_call_is_tried(fake_nvml, h200):
    nvml = fake_nvml([h200], refusing=("nvmlSystemGetCudaDriverVersion_v2",))
    assert look(nvml).cuda_version == (13, 0)


def test_a_lost_card_does_not_hide_the_others(fake_nvml, h200, rtx_4090):
    nvml = fake_nvml([h200, rtx_4090])
    handle = nvml.nvmlDeviceGetHandleByIndex

    def lost(index):
        if index == 0:
            raise nvml.NVMLError("GPU is lost", 15)
        return handle(index)

    nvml.nvmlDeviceGetHandleByIndex = lost
    first, second = look(nvml).gpus
    assert first == LocalGpu(index=0)
    assert "fallen off the bus" in first.missing["handle"]
    assert second.name == "NVIDIA GeForce RTX 4090"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (12, "no NVIDIA driver is installed"),
        (9, "not loaded"),
        (18, "reboot"),
        (999, "unknown error"),
    ],
)
def test_why_nvml_does_not_start(fake_nvml, value, words):
    view = look(fake_nvml(refusing=("nvmlInit",), why="odd", value=value))
    assert view.gpus == ()
    assert words in view.reason


def test_no_card_at_all(fake_nvml):
    assert look(fake_nvml()).reason == "NVML shows no GPU"
    assert look(fake_nvml()).gpus == ()


def test_bus_ids_of_nvml_and_cuda_are_one():
    assert bus_id("00000000:3B:00.0") == bus_id("0000:3b:00.0") == "0000:3b:00.0"
    assert bus_id("00010000:3B:00.0") == "10000:3b:00.0"
