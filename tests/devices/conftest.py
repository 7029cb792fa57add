"""A stand-in for the module pynvml: cards as dictionaries, any call may refuse or be absent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

H200 = {
    "name": "NVIDIA H200",
    "uuid": "GPU-aaaa1111-0000-0000-0000-000000000001",
    "bus": "00000000:19:00.0",
    "pci": 0x233510DE,
    "memory": 143771 * 2**20,
    "capability": (9, 0),
    "cores": 132 * 128,
    "clocks": {1: 1980, 2: 3201},
    "bus_width": 6144,
    "limit": 700_000,
    "mig": [0, 0],
}
RTX_4090 = {
    "name": "NVIDIA GeForce RTX 4090",
    "uuid": "GPU-bbbb2222-0000-0000-0000-000000000002",
    "bus": "00000000:01:00.0",
    "pci": 0x268410DE,
    "memory": 24564 * 2**20,
    "capability": (8, 9),
    "cores": 128 * 128,
    "clocks": {1: 3120, 2: 10501},
    "bus_width": 384,
    "limit": 450_000,
    "mig": [0, 0],
}


class FakeNvml:
    """Answers like nvidia-ml-py for `cards`; calls named in `refusing` raise, with `why`."""

    class NVMLError(Exception):
        def __init__(self, why: str, value: int = 3) -> None:
            super().__init__(why)
            self.value = value

    def __init__(
        self, cards=(), refusing=(), why="Not Supported", value=3, cuda_version=13000
    ) -> None:
        self.cards, self.asked = list(cards), []
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: "580.65.06",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: cuda_version,
            "nvmlSystemGetCudaDriverVersion": lambda: cuda_version,
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda i: self.cards[i],
            "nvmlDeviceGetName": lambda c: c["name"].encode(),
            "nvmlDeviceGetUUID": lambda c: c["uuid"],
            "nvmlDeviceGetPciInfo": lambda c: SimpleNamespace(
                busId=c["bus"].encode(), pciDeviceId=c["pci"]
            ),
            "nvmlDeviceGetMemoryInfo": lambda c: SimpleNamespace(total=c["memory"]),
            "nvmlDeviceGetCudaComputeCapability": lambda c: list(c["capability"]),
            "nvmlDeviceGetNumGpuCores": lambda c: c["cores"],
            "nvmlDeviceGetMaxClockInfo": lambda c, domain: c["clocks"][domain],
            "nvmlDeviceGetMemoryBusWidth": lambda c: c["bus_width"],
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda c: c["limit"],
            "nvmlDeviceGetMigMode": lambda c: c["mig"],
        }
        self.calls = tuple(answers)
        for name, answer in answers.items():
            setattr(self, name, self._refusal(name, why, value) if name in refusing else answer)

    def _refusal(self, name, why, value):
        def refuse(*_):
            self.asked.append(name)
            raise self.NVMLError(why, value)

        return refuse


@pytest.fixture
def fake_nvml():
    return FakeNvml


@pytest.fixture
def h200():
    return dict(H200)


@pytest.fixture
def rtx_4090():
    return dict(RTX_4090)
