"""What CUDA tells of this process's GPUs, and how that is joined with what NVML tells."""

from __future__ import annotations

from dataclasses import replace

from pymicro import driver
from pymicro.devices.nvml import LocalGpu, NvmlView, bus_id


def cuda_gpus() -> list[LocalGpu]:
    """The GPUs that this process sees through CUDA, asked without a context."""
    gpus = []
    for index in range(driver.device_count()):
        handle = driver.check(driver.cuda().cuDeviceGet(index))
        gpu = driver.Gpu(index, handle, None)
        gpus.append(
            LocalGpu(
                name=gpu.name,
                cuda_index=index,
                uuid=gpu.uuid,
                pci_bus_id=bus_id(gpu.pci_bus_id),
                memory_bytes=int(driver.check(driver.cuda().cuDeviceTotalMem(handle))),
                capability=gpu.capability,
                sm_count=_told(gpu, "MULTIPROCESSOR_COUNT"),
                l2_bytes=_told(gpu, "L2_CACHE_SIZE"),
                max_sm_clock_hz=_hz(_told(gpu, "CLOCK_RATE")),
                max_memory_clock_hz=_hz(_told(gpu, "MEMORY_CLOCK_RATE")),
                memory_bus_width_bits=_told(gpu, "GLOBAL_MEMORY_BUS_WIDTH"),
            )
        )
    return gpus


def _told(gpu: driver.Gpu, attribute: str) -> int | None:
    """An attribute, None where this driver does not have it or tells 0 (unified memory)."""
    try:
        return gpu.attribute(attribute) or None
    except (driver.DriverError, AttributeError):
        return None


def _hz(kilohertz: int | None) -> float | None:
    return None if kilohertz is None else kilohertz * 1e3


def join(cuda: LocalGpu, view: NvmlView) -> tuple[LocalGpu, str]:
    """CUDA's and NVML's view of one GPU as one, and how they were matched.

    By UUID, else by PCI bus id, else as the only GPU there is; never by index.
    """
    by_uuid = [g for g in view.gpus if g.uuid is not None and g.uuid == cuda.uuid]
    by_bus = [g for g in view.gpus if g.pci_bus_id is not None and g.pci_bus_id == cuda.pci_bus_id]
    if by_uuid:
        twin, how = by_uuid[0], ""
    elif len(by_bus) == 1:
        twin, how = by_bus[0], "matched to NVML by its PCI bus id"
    elif len(view.gpus) == 1:
        twin, how = view.gpus[0], "matched to NVML as the only GPU, its UUID there is another"
    else:
        return cuda, "not found in NVML: no telemetry" if view.gpus else ""
    # Of a MIG slice NVML tells the whole card, so what CUDA says of the slice goes first.
    part = not by_uuid and bool(twin.mig_enabled)
    told = {
        attribute: value
        for attribute, value in vars(cuda).items()
        if attribute not in ("missing", "part")
        and value is not None
        and (part or getattr(twin, attribute) is None)
    }
    return replace(twin, **told, part=part), how
