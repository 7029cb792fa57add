"""Fixtures that stand in for hardware: an NVML whose every answer and failure is scripted."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

# `fakes` holds the test doubles that several files import.
sys.path.insert(0, str(Path(__file__).parent))


@dataclass
class FakeGpu:
    """One card. A value that is a function is called at each question; times are scripted there."""

    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    pci_bus_id: str = "0000:01:00.0"
    sm_clock_mhz: Any = 1980
    memory_clock_mhz: Any = 3201
    power_instant_mw: Any = 690_000
    power_average_mw: Any = 650_000
    energy_mj: Any = 1_000_000
    temperature_c: Any = 61
    event_reasons: Any = 0x4
    pcie_generation: Any = 5
    pcie_width: Any = 16
    pcie_replays: Any = 0
    nvlinks: Any = (1,) * 18
    mig_mode: Any = 0
    virtualization: Any = 0
    persistence: Any = 1
    ecc: Any = 1
    power_limit_mw: Any = 700_000
    default_power_limit_mw: Any = 700_000
    max_sm_clock_mhz: Any = 1980
    application_clock_mhz: Any = 1980
    default_application_clock_mhz: Any = 1980
    pids: Any = ()
    mig_uuids: tuple[str, ...] = ()


def _get(attribute: str) -> Callable[[FakeGpu], Any]:
    def read(gpu: FakeGpu, *_: Any) -> Any:
        value = getattr(gpu, attribute)
        return value() if callable(value) else value

    return read


def _by_clock(sm: str, memory: str) -> Callable[[FakeGpu, int], Any]:
    return lambda gpu, kind: _get(sm if kind == pynvml.NVML_CLOCK_SM else memory)(gpu)


# Questions about one device: NVML's name -> answer. `memory_clock_mhz` serves where no test cares.
_QUESTIONS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetUUID": _get("uuid"),
    "nvmlDeviceGetClockInfo": _by_clock("sm_clock_mhz", "memory_clock_mhz"),
    "nvmlDeviceGetMaxClockInfo": _by_clock("max_sm_clock_mhz", "memory_clock_mhz"),
    "nvmlDeviceGetApplicationsClock": _by_clock("application_clock_mhz", "memory_clock_mhz"),
    "nvmlDeviceGetDefaultApplicationsClock": _by_clock(
        "default_application_clock_mhz", "memory_clock_mhz"
    ),
    "nvmlDeviceGetPowerUsage": _get("power_average_mw"),
    "nvmlDeviceGetTotalEnergyConsumption": _get("energy_mj"),
    "nvmlDeviceGetTemperature": _get("temperature_c"),
    "nvmlDeviceGetCurrentClocksEventReasons": _get("event_reasons"),
    "nvmlDeviceGetCurrentClocksThrottleReasons": _get("event_reasons"),
    "nvmlDeviceGetCurrPcieLinkGeneration": _get("pcie_generation"),
    "nvmlDeviceGetCurrPcieLinkWidth": _get("pcie_width"),
    "nvmlDeviceGetMaxPcieLinkGeneration": _get("pcie_generation"),
    "nvmlDeviceGetMaxPcieLinkWidth": _get("pcie_width"),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": _get("pcie_generation"),
    "nvmlDeviceGetPcieReplayCounter": _get("pcie_replays"),
    "nvmlDeviceGetMigMode": lambda gpu: [_get("mig_mode")(gpu)] * 2,
    "nvmlDeviceGetVirtualizationMode": _get("virtualization"),
    "nvmlDeviceGetPersistenceMode": _get("persistence"),
    "nvmlDeviceGetEccMode": lambda gpu: [_get("ecc")(gpu)] * 2,
    "nvmlDeviceGetEnforcedPowerLimit": _get("power_limit_mw"),
    "nvmlDeviceGetPowerManagementDefaultLimit": _get("default_power_limit_mw"),
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [
        SimpleNamespace(pid=pid) for pid in _get("pids")(gpu)
    ],
    "nvmlDeviceIsMigDeviceHandle": lambda handle: isinstance(handle, str),
}


@dataclass
class FakeNvml:
    """Stands in for the module `pynvml`.

    Attributes:
        gpus: the cards, in NVML's order.
        failing: name of a function -> the code (or exception) that it raises from now on.
        calls: how often each function was asked.
    """

    gpus: list[FakeGpu] = field(default_factory=lambda: [FakeGpu()])
    failing: dict[str, int | Exception] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    questions = tuple(_QUESTIONS)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return getattr(pynvml, name)  # Constants and NVMLError.
        answer = getattr(self, f"_{name}", None) if not name.startswith("_") else None
        answer = answer or _QUESTIONS.get(name)
        if answer is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            failure = self.failing.get(name)
            if isinstance(failure, Exception):
                raise failure
            if failure is not None:
                raise pynvml.NVMLError(failure)
            return answer(*arguments)

        return call

    def _nvmlInit(self) -> None: ...

    def _nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def _nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def _nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu | str:
        if any(uuid in gpu.mig_uuids for gpu in self.gpus):
            return uuid
        return self._one(lambda gpu: gpu.uuid == uuid)

    def _nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> FakeGpu:
        return self._one(lambda gpu: gpu.pci_bus_id == bus_id)

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> FakeGpu:
        return self._one(lambda gpu: handle in gpu.mig_uuids)

    def _one(self, wanted: Callable[[FakeGpu], bool]) -> FakeGpu:
        found = [gpu for gpu in self.gpus if wanted(gpu)]
        if not found:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return found[0]

    def _nvmlDeviceGetFieldValues(self, gpu: FakeGpu, ids: list[int]) -> list[SimpleNamespace]:
        assert ids == [pynvml.NVML_FI_DEV_POWER_INSTANT]
        value = SimpleNamespace(uiVal=_get("power_instant_mw")(gpu))
        return [SimpleNamespace(nvmlReturn=0, value=value)]

    def _nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:
        if link >= len(gpu.nvlinks):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT if link else 3)
        return gpu.nvlinks[link]

    def _nvmlSystemGetDriverVersion(self) -> str:
        return "580.95.05"

    def _nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000


@pytest.fixture
def fake_nvml() -> FakeNvml:
    """One card like an H200 under full load."""
    return FakeNvml()


@pytest.fixture
def fake_gpu() -> type[FakeGpu]:
    """The class of a fake card, to add further ones."""
    return FakeGpu


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the full matrices too")


def pytest_configure(config: pytest.Config) -> None:
    """Where the C++ module must have been built, its absence is an error and no reason to skip."""
    if os.environ.get("PYMICRO_REQUIRE_NATIVE"):
        import pymicro._native  # noqa: F401


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked slow repeat what others sample; they run when asked for."""
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
