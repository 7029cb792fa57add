"""Finding the device that CUDA means, and saying what an NVML error means."""

from __future__ import annotations

import sys

import pytest

from pymicro import nvml
from pymicro.errors import Unavailable

UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"


def test_device_is_found_by_uuid_and_not_by_index(fake_nvml, fake_gpu):
    fake_nvml.gpus.insert(0, fake_gpu(uuid=OTHER, pci_bus_id="0000:02:00.0"))
    found = nvml.find(UUID, None, fake_nvml)
    assert (found.handle.uuid, found.found_by) == (UUID, "uuid")


def test_unmatched_uuid_falls_back_to_the_pci_address(fake_nvml, fake_gpu):
    fake_nvml.gpus.append(fake_gpu(uuid=OTHER, pci_bus_id="0000:02:00.0"))
    found = nvml.find("GPU-guest", "0000:02:00.0", fake_nvml)
    assert (found.handle.uuid, found.found_by) == (OTHER, "pci bus id")


def test_unmatched_uuid_falls_back_to_the_only_device(fake_nvml):
    assert nvml.find("GPU-guest", "0000:77:00.0", fake_nvml).found_by == "only device"


def test_no_guess_between_two_devices(fake_nvml, fake_gpu):
    fake_nvml.gpus.append(fake_gpu(uuid=OTHER, pci_bus_id="0000:02:00.0"))
    with pytest.raises(Unavailable, match="sees 2 devices"):
        nvml.find("GPU-guest", None, fake_nvml)


def test_a_partition_is_read_through_its_card(fake_nvml):
    fake_nvml.gpus[0].mig_uuids = ("MIG-1",)
    found = nvml.find("MIG-1", None, fake_nvml)
    assert found.is_partition
    assert found.handle is fake_nvml.gpus[0]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (12, "no NVIDIA driver"),
        (9, "kernel module is not loaded"),
        (18, "different versions; reboot"),
        (4, "no permission"),
        (13, "too old"),
        (4711, "error 4711"),
        (OSError("/home/alice/libnvidia-ml.so"), "OSError"),
    ],
)
def test_nvml_that_does_not_open_is_one_sentence(fake_nvml, code, words):
    fake_nvml.failing["nvmlInit"] = code
    with pytest.raises(Unavailable, match=words) as caught:
        nvml.open_nvml(fake_nvml)
    assert "alice" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_binding_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unavailable, match="nvidia-ml-py is not installed"):
        nvml.open_nvml()


@pytest.mark.parametrize("value", [0, 2**32 - 1, 2**64 - 1])
def test_marks_for_no_value_are_not_numbers(value):
    with pytest.raises(nvml.NoValue):
        nvml.positive(value)
