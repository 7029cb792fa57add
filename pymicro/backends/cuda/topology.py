"""Why two GPUs reach each other's memory or do not, in NVML's words."""

from __future__ import annotations

from typing import Any

from pymicro import nvml
from pymicro.driver import Gpu
from pymicro.errors import Unavailable

# nvml.h, nvmlGpuP2PStatus_t.
_STATUS = {
    1: "the chipset does not support it",
    2: "these GPUs do not support it, as GeForce cards of the last generations",
    3: "they hang on different host bridges",
    4: "it is switched off in the driver's settings",
    5: "it is not supported",
}
_READ, _NVLINK = 0, 2  # NVML_P2P_CAPS_INDEX_READ, _NVLINK
_OTHERWISE = "an IOMMU, access control on a PCIe switch, or a virtual machine may be in between"


def are_nvlinked(one: Gpu, other: Gpu, binding: Any = None) -> bool | None:
    """Whether two GPUs reach each other over NVLink; None where NVML does not tell. Virtual
    machines hide the state of the links themselves."""
    try:
        first, second = (nvml.find(gpu.uuid, gpu.pci_bus_id, binding) for gpu in (one, other))
    except Unavailable:
        return None
    question = first.nvml.nvmlDeviceGetP2PStatus
    status, error = nvml.ask(lambda: question(first.handle, second.handle, _NVLINK))
    return None if error is not None else status == 0


def why_no_peer(one: Gpu, other: Gpu, binding: Any = None) -> str:
    """The reason in a sentence; CUDA itself only says that there is no access."""
    status, error = None, None
    try:
        first, second = (nvml.find(gpu.uuid, gpu.pci_bus_id, binding) for gpu in (one, other))
    except Unavailable:
        pass
    else:
        question = first.nvml.nvmlDeviceGetP2PStatus
        status, error = nvml.ask(lambda: question(first.handle, second.handle, _READ))
    known = _STATUS.get(status) if error is None and status is not None else None
    return f"no peer access from cuda:{one.index} to cuda:{other.index}: {known or _OTHERWISE}."
