"""From a word to a device: never silently the CPU, never a card by another's index."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pymicro import driver
from pymicro.devices.cuda_gpus import join
from pymicro.devices.here import Machine, inventory, resolve
from pymicro.devices.nvml import LocalGpu, look
from pymicro.errors import Unavailable, UsageError


def cuda_gpu(card, ordinal, **changes):
    """A fake card as the CUDA driver sees it."""
    told = LocalGpu(
        name=card["name"],
        cuda_index=ordinal,
        uuid=card["uuid"],
        pci_bus_id="0000:" + card["bus"][9:].lower(),
        capability=card["capability"],
        sm_count=card["cores"] // 128,
        memory_bytes=card["memory"],
        max_sm_clock_hz=card["clocks"][1] * 1e6,
    )
    return replace(told, **changes)


@pytest.fixture
def machine(fake_nvml, tmp_path):
    """Builds a machine from cards; CUDA sees them in the order of `cuda`."""

    def build(cards=(), cuda=None, bindings=True, mask=None, device_file=True, **nvml):
        if cards and device_file:
            (tmp_path / "dev").mkdir(exist_ok=True)
            (tmp_path / "dev/nvidia0").touch()
        order = cards if cuda is None else cuda
        return Machine(
            env={} if mask is None else {"CUDA_VISIBLE_DEVICES": mask},
            nvml=fake_nvml(cards, **nvml),
            root=tmp_path,
            cuda_gpus=lambda: [cuda_gpu(c, i) for i, c in enumerate(order)],
            has_bindings=lambda: bindings,
        )

    return build


def test_auto_without_a_gpu_is_the_cpu_and_says_why(machine):
    device = resolve("auto", machine(refusing=("nvmlInit",), value=12))
    assert (device.kind, device.index, device.word) == ("cpu", None, "cpu")
    assert "no NVIDIA driver" in device.note
    assert device.spec.physical_cores >= 1


def test_a_card_without_driver_is_mentioned(machine, tmp_path):
    card = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030000\n")
    assert "plugged in" in resolve("auto", machine(refusing=("nvmlInit",), value=12)).note


def test_auto_takes_the_first_gpu_of_cuda(machine, h200, rtx_4090):
    """CUDA orders by speed, NVML by bus: index 0 of one is not index 0 of the other."""
    device = resolve("auto", machine([rtx_4090, h200], cuda=[h200, rtx_4090]))
    assert (device.word, device.spec.key, device.gpu.index) == ("cuda:0", "h200_sxm_141gb", 1)
    assert device.gpu.uuid == h200["uuid"]
    assert device.capability == (9, 0)


@pytest.mark.parametrize("word", ["cuda:1", "CUDA:1", "gpu:1"])
def test_a_number_is_cudas(machine, h200, rtx_4090, word):
    device = resolve(word, machine([rtx_4090, h200], cuda=[h200, rtx_4090]))
    assert (device.index, device.spec.key, device.gpu.index) == (1, "rtx_4090", 0)


def test_a_uuid_and_its_start(machine, h200, rtx_4090):
    here = machine([rtx_4090, h200], cuda=[h200, rtx_4090])
    for word in (rtx_4090["uuid"], "GPU-bbbb", "gpu-bbbb2222"):
        assert resolve(word, here).spec.key == "rtx_4090"


@pytest.mark.parametrize(
    ("cuda", "nvidia"), [(13000, "cuda13"), (13010, "cuda13"), (12080, "cuda12")]
)
@pytest.mark.parametrize("word", ["auto", "cuda:0", "GPU-aaaa1111"])
def test_a_gpu_without_the_extra_is_an_error_with_the_pip_line(machine, h200, word, cuda, nvidia):
    with pytest.raises(Unavailable) as caught:
        resolve(word, machine([h200], bindings=False, cuda_version=cuda))
    assert f'pip install "pymicro-gpu[{nvidia}]"' in str(caught.value)
    assert caught.value.exit_code == 3


def test_cards_that_cuda_13_dropped_get_cuda_12(machine, h200):
    volta = {**h200, "name": "Tesla V100-SXM2-16GB", "capability": (7, 0)}
    with pytest.raises(Unavailable, match="cuda12"):
        resolve("auto", machine([volta], bindings=False))


@pytest.mark.parametrize(("branch", "extra"), [("580.65.06", "cuda13"), ("570.133.20", "cuda12")])
def test_with_nvml_broken_the_driver_branch_decides(machine, tmp_path, branch, extra):
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {branch}  Sun Jul 27 07:30:14 UTC 2025\n"
    )
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    broken = machine(refusing=("nvmlInit",), value=18, bindings=False)
    with pytest.raises(Unavailable, match=extra):
        resolve("auto", broken)


def test_a_container_without_access_is_told_so(machine, tmp_path):
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: 580.65.06\n")
    with pytest.raises(Unavailable, match="container"):
        resolve("auto", machine(refusing=("nvmlInit",), value=12))


@pytest.mark.parametrize("mask", ["", "-1", " "])
def test_gpus_hidden_on_purpose(machine, h200, mask):
    here = machine([h200], mask=mask, cuda=[])
    device = resolve("auto", here)
    assert device.kind == "cpu"
    assert "CUDA_VISIBLE_DEVICES" in device.note
    with pytest.raises(Unavailable, match="hidden"):
        resolve("cuda:0", here)


@pytest.mark.parametrize("mask", ["x", "7", "0,0", "1"])
def test_a_mask_that_means_nothing_is_an_error_even_for_auto(machine, h200, mask):
    with pytest.raises(Unavailable, match=f"CUDA_VISIBLE_DEVICES='{mask}'"):
        resolve("auto", machine([h200], mask=mask, cuda=[]))


def test_a_masked_gpu_is_told_apart_from_an_absent_one(machine, h200, rtx_4090):
    here = machine([rtx_4090, h200], cuda=[h200], mask="GPU-aaaa")
    assert resolve("cuda:0", here).spec.key == "h200_sxm_141gb"
    with pytest.raises(Unavailable, match="hides it"):
        resolve("GPU-bbbb", here)
    with pytest.raises(Unavailable, match="no GPU of this machine"):
        resolve("GPU-cccc", here)
    with pytest.raises(Unavailable, match="sees 1 GPU"):
        resolve("cuda:1", here)


def test_no_gpu_is_one_sentence_for_cuda_words(machine):
    for word in ("cuda", "cuda:0", "GPU-aaaa"):
        with pytest.raises(Unavailable, match="no NVIDIA GPU"):
            resolve(word, machine(refusing=("nvmlInit",), value=12))


@pytest.mark.parametrize("word", ["4090", "cuda:x", "cuda:-1", "", "rocm", "cuda:0,1"])
def test_other_words_are_refused(machine, word):
    with pytest.raises(UsageError, match="unknown device"):
        resolve(word, machine())


def test_cpu_is_taken_even_where_there_is_a_gpu(machine, h200):
    assert resolve("cpu", machine([h200], bindings=False)).kind == "cpu"


def test_a_driver_that_fails_is_no_reason_for_the_cpu(machine, h200):
    def refuse():
        raise Unavailable("the driver is too old.")

    with pytest.raises(Unavailable, match="too old"):
        resolve("auto", replace(machine([h200]), cuda_gpus=refuse))


def test_a_vgpu_with_another_uuid_is_joined_by_bus_or_as_the_only_one(fake_nvml, h200, rtx_4090):
    other = cuda_gpu(h200, 0, uuid="GPU-ffff")
    joined, how = join(other, look(fake_nvml([rtx_4090, h200])))
    assert (joined.index, "bus" in how) == (1, True)
    alone = replace(other, pci_bus_id="0000:ff:00.0")
    joined, how = join(alone, look(fake_nvml([h200])))
    assert (joined.index, "only GPU" in how) == (0, True)
    joined, how = join(alone, look(fake_nvml([rtx_4090, h200])))
    assert (joined.index, "not found" in how) == (None, True)


def test_a_mig_slice_is_described_by_cuda_not_by_its_card(machine, h200):
    card = {**h200, "mig": [1, 1]}
    part = cuda_gpu(card, 0, uuid="GPU-ffff", sm_count=16, memory_bytes=18 * 2**30)
    here = replace(machine([card], mask="MIG-1234"), cuda_gpus=lambda: [part])
    device = resolve("auto", here)
    assert device.spec.computed
    assert (device.spec.sm_count, device.spec.memory_bytes) == (16, 18 * 2**30)


class FakeCudaDriver:
    """cuda.bindings.driver for one H200 whose driver lacks the attribute CLOCK_RATE."""

    class CUdevice_attribute:
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 132
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 60 * 2**20
        CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 3_201_000
        CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 0
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 9
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 0

    def cuInit(self, flags):
        return (0,)

    def cuDeviceGetCount(self):
        return (0, 1)

    def cuDeviceGet(self, index):
        return (0, index)

    def cuDeviceGetAttribute(self, enum, handle):
        return (0, enum)

    def cuDeviceGetName(self, length, handle):
        return (0, b"NVIDIA H200\0\0")

    def cuDeviceGetUuid(self, handle):
        return (0, SimpleNamespace(bytes=bytes.fromhex("aaaa1111" + "00" * 11 + "01")))

    def cuDeviceGetPCIBusId(self, length, handle):
        return (0, b"0000:19:00.0\0")

    def cuDeviceTotalMem(self, handle):
        return (0, 140 * 2**30)


def test_the_cuda_driver_is_asked_without_a_context(machine, h200, monkeypatch):
    """The fake has no call that makes one; what it does not tell comes from NVML."""
    monkeypatch.setattr(driver, "cuda", FakeCudaDriver)
    here = machine([h200])
    device = resolve("auto", Machine(here.env, here.nvml, here.root, has_bindings=lambda: True))
    assert (device.spec.key, device.warnings) == ("h200_sxm_141gb", ())
    assert device.gpu.index == 0
    assert (device.gpu.sm_count, device.gpu.max_sm_clock_hz) == (132, 1980e6)
    assert device.gpu.memory_bus_width_bits == 6144


def test_inventory_needs_neither_cuda_nor_the_mask(machine, h200, rtx_4090):
    view, cards = inventory(machine([rtx_4090, h200], bindings=False, mask=""))
    assert [found.spec.key for _, found in cards] == ["rtx_4090", "h200_sxm_141gb"]
    assert view.cuda_version == (13, 0)
