"""What NVML says of the GPUs in this machine; each answer may be missing without harm to others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pymicro.nvml import initialise, reason


@dataclass(frozen=True)
class LocalGpu:
    """One GPU as the driver describes it. `None` means not told; `missing` says why.

    Attributes:
        index: NVML's index, which is not CUDA's; `cuda_index` is this process's CUDA ordinal.
        pci_bus_id: `0000:19:00.0`, in one form whoever told it.
        pci_device_id: vendor and device, `10DE:2330`.
        memory_bytes: what the driver shows, a little below the nominal size.
        max_sm_clock_hz, max_memory_clock_hz: limits of the board, not the clocks of now.
        part: this is a MIG slice or a vGPU, not the whole card.
    """

    name: str | None = None
    index: int | None = None
    cuda_index: int | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    pci_device_id: str | None = None
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None
    sm_count: int | None = None
    cuda_cores: int | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    memory_bus_width_bits: int | None = None
    l2_bytes: int | None = None
    default_power_limit_w: float | None = None
    mig_enabled: bool | None = None
    part: bool = False
    missing: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class NvmlView:
    """All GPUs that NVML shows, masked or not; `reason` says why there are none."""

    gpus: tuple[LocalGpu, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None
    reason: str | None = None


def look(nvml: Any = None) -> NvmlView:
    """Ask NVML once, without a CUDA context; `nvml` stands in for the module pynvml."""
    nvml, why = initialise(nvml)
    if why is not None:
        return NvmlView(reason=why)
    try:
        return _view(nvml)
    finally:
        _ask(nvml, ("nvmlShutdown",), (), {}, "shutdown")


def bus_id(text: str) -> str:
    """`0000:19:00.0` from NVML's eight-digit domain, CUDA's four-digit one, either case."""
    domain, bus, rest = text.strip().lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{rest}"


def _view(nvml: Any) -> NvmlView:
    missing: dict[str, str] = {}
    driver = _ask(nvml, ("nvmlSystemGetDriverVersion",), (), missing, "driver_version")
    names = ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion")
    cuda = _ask(nvml, names, (), missing, "cuda_version")
    count = _ask(nvml, ("nvmlDeviceGetCount",), (), missing, "count")
    gpus = []
    for index in range(count or 0):
        lost: dict[str, str] = {}
        handle = _ask(nvml, ("nvmlDeviceGetHandleByIndex",), (index,), lost, "handle")
        gpus.append(LocalGpu(index=index, missing=lost) if lost else _gpu(nvml, index, handle))
    why = None if gpus else missing.get("count", "NVML shows no GPU")
    return NvmlView(
        tuple(gpus),
        None if driver is None else _text(driver),
        None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        why,
    )


@dataclass(frozen=True)
class _Question:
    """One NVML call, the older names it had, and how its answer becomes a value."""

    attribute: str
    calls: tuple[str, ...]
    convert: Callable[[Any], Any]
    arguments: tuple[Any, ...] = ()


# NVML's numbers for clock domains (nvmlClockType_t): 1 SM, 2 memory.
_SM, _MEMORY = 1, 2
_PCI = ("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2")


def _text(raw: Any) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)


def _pci_device(info: Any) -> str:
    return f"{info.pciDeviceId & 0xFFFF:04X}:{info.pciDeviceId >> 16:04X}"


_QUESTIONS = (
    _Question("name", ("nvmlDeviceGetName",), _text),
    _Question("uuid", ("nvmlDeviceGetUUID",), _text),
    _Question("pci_bus_id", _PCI, lambda info: bus_id(_text(info.busId))),
    _Question("pci_device_id", _PCI, _pci_device),
    _Question("memory_bytes", ("nvmlDeviceGetMemoryInfo",), lambda info: int(info.total)),
    _Question("capability", ("nvmlDeviceGetCudaComputeCapability",), lambda cc: (cc[0], cc[1])),
    _Question("cuda_cores", ("nvmlDeviceGetNumGpuCores",), int),
    _Question("max_sm_clock_hz", ("nvmlDeviceGetMaxClockInfo",), lambda mhz: mhz * 1e6, (_SM,)),
    _Question(
        "max_memory_clock_hz", ("nvmlDeviceGetMaxClockInfo",), lambda mhz: mhz * 1e6, (_MEMORY,)
    ),
    _Question("memory_bus_width_bits", ("nvmlDeviceGetMemoryBusWidth",), int),
    _Question(
        "default_power_limit_w", ("nvmlDeviceGetPowerManagementDefaultLimit",), lambda mw: mw / 1e3
    ),
    _Question("mig_enabled", ("nvmlDeviceGetMigMode",), lambda mode: mode[0] == 1),
)


def _gpu(nvml: Any, index: int, handle: Any) -> LocalGpu:
    missing: dict[str, str] = {}
    values = {}
    for q in _QUESTIONS:
        answer = _ask(nvml, q.calls, (handle, *q.arguments), missing, q.attribute)
        if q.attribute in missing:
            continue
        try:
            values[q.attribute] = q.convert(answer)
        except Exception as error:  # An answer of a form that no binding documents.
            missing[q.attribute] = f"unreadable answer ({type(error).__name__})"
    return LocalGpu(index=index, missing=missing, **values)


def _ask(
    nvml: Any,
    calls: tuple[str, ...],
    arguments: tuple[Any, ...],
    missing: dict[str, str],
    attribute: str,
) -> Any:
    """The answer of the first call that the binding and the driver both have.

    NVML's refusals (not supported, function not found, unknown error, lost GPU) are noted under
    `attribute` and leave None.
    """
    why = "the NVML binding lacks the call"
    for call in calls:
        function = getattr(nvml, call, None)
        if function is None:
            continue
        try:
            return function(*arguments)
        except Exception as error:  # NVMLError, or what a faulty library makes of a call.
            why = reason(error)
    missing[attribute] = why
    return None
