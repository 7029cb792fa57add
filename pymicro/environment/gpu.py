"""Facts of the GPU and its driver that bear on a measurement, each on its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pymicro import nvml
from pymicro.environment.host import is_container
from pymicro.errors import Unavailable

_VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "vgpu host", 4: "vsga host"}


def _clock(question: str, domain: str = "SM") -> Callable[[Any, Any], float]:
    def read(n: Any, h: Any) -> float:
        which = getattr(n, f"NVML_CLOCK_{domain}")
        return nvml.positive(getattr(n, question)(h, which)) * 1e6

    return read


def _watts(question: str) -> Callable[[Any, Any], float]:
    return lambda n, h: nvml.positive(getattr(n, question)(h)) / 1e3


def _pcie_max(n: Any, h: Any) -> list[int]:
    generation = nvml.positive(n.nvmlDeviceGetMaxPcieLinkGeneration(h))
    return [generation, nvml.positive(n.nvmlDeviceGetMaxPcieLinkWidth(h))]


def _card_generation(n: Any, h: Any) -> int:
    """What the card itself can do; `pcie_max` is what it can do in this slot."""
    return nvml.positive(n.nvmlDeviceGetGpuMaxPcieLinkGeneration(h))


def _nvlinks(n: Any, h: Any) -> dict[str, int]:
    """How many links are up, and how many answer at all.

    Raises:
        NVMLError: the card has none.
    """
    states = [n.nvmlDeviceGetNvLinkState(h, 0)]
    for link in range(1, n.NVML_NVLINK_MAX_LINKS):
        state, error = nvml.ask(partial(n.nvmlDeviceGetNvLinkState, h, link))
        if error is not None:
            break
        states.append(state)
    return {"up": sum(state == 1 for state in states), "of": len(states)}


def _virtualization(n: Any, h: Any) -> str:
    mode = n.nvmlDeviceGetVirtualizationMode(h)
    return _VIRTUALIZATION.get(mode, f"mode {mode}")


def other_processes(n: Any, h: Any) -> int:
    """Compute processes on the GPU apart from this one.

    Raises:
        NoValue: in a container that numbers processes by itself, where ours cannot be told.
    """
    pids = [process.pid for process in n.nvmlDeviceGetComputeRunningProcesses(h)]
    if pids and os.getpid() not in pids and is_container():
        raise nvml.NoValue("the driver and this container number processes differently")
    return len([pid for pid in pids if pid != os.getpid()])


_FACTS: dict[str, Callable[[Any, Any], Any]] = {
    "is_mig_enabled": lambda n, h: n.nvmlDeviceGetMigMode(h)[0] == 1,
    "virtualization": _virtualization,
    "is_persistent": lambda n, h: n.nvmlDeviceGetPersistenceMode(h) == 1,
    "is_ecc_enabled": lambda n, h: n.nvmlDeviceGetEccMode(h)[0] == 1,
    "power_limit_w": _watts("nvmlDeviceGetEnforcedPowerLimit"),
    "default_power_limit_w": _watts("nvmlDeviceGetPowerManagementDefaultLimit"),
    "max_sm_clock_hz": _clock("nvmlDeviceGetMaxClockInfo"),
    "max_memory_clock_hz": _clock("nvmlDeviceGetMaxClockInfo", "MEM"),
    "application_clock_hz": _clock("nvmlDeviceGetApplicationsClock"),
    "default_application_clock_hz": _clock("nvmlDeviceGetDefaultApplicationsClock"),
    "pcie_max": _pcie_max,
    "pcie_card_generation": _card_generation,
    "nvlinks": _nvlinks,
    "other_processes": other_processes,
}


def gpu_facts(device: nvml.NvmlDevice) -> tuple[dict[str, Any], dict[str, str]]:
    """Facts by name, None where one cannot be read; and the reasons for those.

    `are_clocks_set` says that someone chose application clocks other than the default. Clocks
    locked by `nvidia-smi -lgc` cannot be asked for; they show as limits in the telemetry.
    """
    facts: dict[str, Any] = {
        "found_by": device.found_by,
        "is_mig_partition": device.is_partition,
    }
    absent: dict[str, str] = {}
    for name, read in _FACTS.items():
        facts[name], error = nvml.ask(partial(read, device.nvml, device.handle))
        if error is not None:
            absent[f"gpu.{name}"] = nvml.reason(error)
    chosen, default = facts["application_clock_hz"], facts["default_application_clock_hz"]
    facts["are_clocks_set"] = None if None in (chosen, default) else chosen != default
    return facts, absent


def driver_facts(
    binding: Any = None, root: Path = Path("/")
) -> tuple[dict[str, Any], dict[str, str]]:
    """Versions of driver, kernel module and the CUDA that the driver offers; and what is absent."""
    facts: dict[str, Any] = {
        "version": None,
        "kernel_module_version": kernel_module_version(root),
        "cuda_version": None,
    }
    try:
        n = nvml.open_nvml(binding)
    except Unavailable as error:
        return facts, {"driver": str(error)}
    facts["version"], no_version = nvml.ask(n.nvmlSystemGetDriverVersion)
    cuda, no_cuda = nvml.ask(lambda: nvml.positive(n.nvmlSystemGetCudaDriverVersion()))
    facts["cuda_version"] = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None
    errors = {"driver.version": no_version, "driver.cuda_version": no_cuda}
    return facts, {name: nvml.reason(e) for name, e in errors.items() if e is not None}


def kernel_module_version(root: Path = Path("/")) -> str | None:
    """The version of the loaded NVIDIA kernel module; it may differ from the library's."""
    for path in (root / "sys/module/nvidia/version", root / "proc/driver/nvidia/version"):
        try:
            found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", path.read_text(errors="replace"))
        except OSError:
            continue
        if found:
            return found[0]
    return None
