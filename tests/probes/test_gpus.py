"""Settings of each GPU, with every answer of NVML missing in turn."""

import json
import os

import pynvml
import pytest

from pymicro.probes import Check, examine, gpus

QUESTIONS = [
    "nvmlDeviceGetMigMode", "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetEccMode", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetPowerManagementDefaultLimit", "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetDefaultApplicationsClock", "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetUUID",
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceIsMigDeviceHandle",
]  # fmt: skip
ERRORS = [
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_UNKNOWN,
]


@pytest.fixture
def found(scripted, fake_nvml, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus.time, "sleep", lambda seconds: None)

    def look(**changes):
        for name, value in changes.items():
            setattr(fake_nvml.gpus[0], name, value)
        e = scripted.evidence(nvml=fake_nvml, root=tmp_path)
        return {f.code: f for f in examine(e, [Check(gpus.gpus)])}

    return look


def test_a_card_in_order(found):
    seen = found()
    assert {code: f.severity for code, f in seen.items()} == {
        "gpu-in-order": "info",
        "link": "info",
    }
    for words in ("no MIG", "persistence mode on", "ECC on", "power limit 700 W", "no other"):
        assert words in seen["gpu-in-order"].seen


def test_what_is_not_known_is_not_in_order(found, fake_nvml):
    fake_nvml.failing |= dict.fromkeys(QUESTIONS, pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert "gpu-in-order" not in found()
    del fake_nvml.failing["nvmlDeviceGetEccMode"]
    assert found()["gpu-in-order"].seen == "the GPU: ECC on"


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
        ({"power_limit_mw": 500_000}, "power-limit-lowered", "warning"),
        ({"application_clock_mhz": 1500}, "clocks-set", "warning"),
        ({"event_reasons": 0x2}, "clocks-set", "warning"),
        ({"event_reasons": 0x40}, "slowdown", "warning"),
        ({"persistence": 0}, "persistence-off", "info"),
        ({"ecc": 0}, "ecc-off", "info"),
        ({"mig_mode": 1}, "mig", "info"),
        ({"virtualization": 2}, "virtual-gpu", "info"),
        ({"virtualization": 1}, "virtual-gpu", "info"),
        ({"pcie_generation": 4}, "link-below-card", "info"),
    ],
    ids=str,
)
def test_each_setting_is_seen(found, changes, code, severity):
    seen = found(**changes)
    assert seen[code].severity == severity
    assert not [c for c in seen if c.startswith("check-failed")]


def test_other_processes_are_counted_without_this_one(found):
    seen = found(pids=(os.getpid(), 1, 2))
    assert seen["gpu-in-use"].seen.startswith("2 other compute process")
    assert "gpu-in-use" not in found(pids=(os.getpid(),))


def test_a_process_that_has_just_ended_is_no_other_process(found, fake_nvml, monkeypatch):
    """A list that empties within three seconds; utilisation, an average, is not even asked."""
    now, own = [0.0], os.getpid()
    monkeypatch.setattr(gpus.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    assert "gpu-in-use" not in found(pids=lambda: (own, 77) if now[0] < 1.5 else (own,))
    assert now[0] == 2.0
    assert "gpu-in-use" in found(pids=(own, 77))
    assert now[0] == 5.0
    assert not [name for name in fake_nvml.calls if "Utilization" in name]


def test_lowered_limit_says_both_and_the_command(found):
    finding = found(power_limit_mw=500_000)["power-limit-lowered"]
    assert "500 W, 700 W by default" in finding.seen
    assert "-pl 700" in finding.do


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_one_answer_that_is_missing_costs_no_other(found, fake_nvml, question, error):
    fake_nvml.failing[question] = error
    seen = found(power_limit_mw=500_000, persistence=0)
    assert not [c for c in seen if c.startswith("check-failed")], seen
    kept = {"power-limit-lowered", "persistence-off"} - {
        "power-limit-lowered" if "Limit" in question else "",
        "persistence-off" if "Persistence" in question else "",
    }
    assert kept <= seen.keys()
    json.dumps([f.to_json() for f in seen.values()], allow_nan=False)


def test_another_uuid_in_a_guest_is_matched_as_the_only_device(found):
    seen = found(uuid="GPU-of-the-host", pci_bus_id="0000:99:00.0")
    assert seen["gpu-matched-as-only"].severity == "info"


def test_settings_are_those_of_the_card_in_the_mask(scripted, fake_nvml, fake_gpu, tmp_path):
    """Mask `1`, and CUDA orders by speed: its only device 0 is the first card of NVML's."""
    shown, other = (f"GPU-{digit * 8}-2222-3333-4444-555555555555" for digit in "19")
    fake_nvml.gpus = [
        fake_gpu(uuid=shown, pci_bus_id="0000:01:00.0", power_limit_mw=500_000),
        fake_gpu(uuid=other, pci_bus_id="0000:02:00.0", ecc=0),
    ]
    device = scripted.device | {"uuid": shown, "pci_bus_id": "0000:01:00.0"}
    e = scripted.evidence(
        env={"CUDA_VISIBLE_DEVICES": "1"},
        nvml=fake_nvml,
        root=tmp_path,
        driver=scripted.driver(devices=[device]),
    )
    seen = {f.code for f in examine(e, [Check(gpus.gpus)])}
    assert "power-limit-lowered" in seen
    assert "ecc-off" not in seen


def test_a_partition_without_utilisation_is_told_as_one(found, fake_nvml):
    fake_nvml.failing["nvmlDeviceGetUtilizationRates"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    seen = found(mig_mode=1)
    assert "NVML's counters those of the whole card" in seen["mig"].why
    assert "no MIG" not in seen["gpu-in-order"].seen
    assert "power limit 700 W" in seen["gpu-in-order"].seen


def test_one_of_two_that_cannot_be_told_is_a_finding(found, fake_nvml, fake_gpu):
    fake_nvml.gpus = [
        fake_gpu(uuid="GPU-a", pci_bus_id="x"),
        fake_gpu(uuid="GPU-b", pci_bus_id="y"),
    ]
    assert found()["gpu-not-in-nvml"].severity == "warning"


@pytest.mark.parametrize(
    ("now", "under_load", "code"),
    [
        ((1, 16), False, "link"),  # Power saving, not a fault.
        ((5, 16), True, "link"),
        ((3, 16), True, "link-degraded"),
        ((5, 8), False, "link-degraded"),  # Lanes are not given up when idle.
        ((1, 8), True, "link-degraded"),
    ],
)
def test_link_by_load(now, under_load, code):
    finding = gpus.link_finding("the GPU", now, (5, 16), (5, 16), under_load)
    assert finding.code == code
    assert ("under load" if under_load else "idle") in finding.seen
