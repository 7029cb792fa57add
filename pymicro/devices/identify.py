"""Which row of the catalogue a GPU found here is: whole name first, everything else as witness.

A card that is not in the catalogue gets a computed spec: with the rates of its generation where
all rows of that generation agree, with FP32 alone where the catalogue has no such row, and
without peaks where even that is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pymicro.devices.catalogue import catalogue
from pymicro.devices.nvml import LocalGpu
from pymicro.devices.schema import differs
from pymicro.devices.spec import PATHS, DeviceSpec

# The driver keeps some memory to itself, and GDDR with ECC gives up 1/16 of it.
_MEMORY_LOW, _MEMORY_HIGH = 0.88, 1.05
_BANDWIDTH_TOLERANCE = 0.03
# Board makers raise the power limit of a gaming card a little; another variant is further off.
_POWER_TOLERANCE = 0.15
# NVIDIA names a vGPU after its card, its memory in GB and a letter for the licence: A100-40C.
_PART = re.compile(r"\b(grid|mig|vgpu)\b|-\d+[abcq]\b", re.IGNORECASE)
# FP32 units of one SM, each an FMA a clock (NVIDIA/cuda-samples, Common/helper_cuda.h); the same
# number that NVML's count of cores is made with.
CORES_PER_SM: dict[tuple[int, int], int] = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128, (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128, (10, 0): 128, (10, 1): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128,
    (12, 1): 128,
}  # fmt: skip


@dataclass(frozen=True)
class Identification:
    """The spec that holds for a GPU, how it was chosen in words, and what does not agree."""

    spec: DeviceSpec | None
    how: str
    warnings: tuple[str, ...] = ()


def identify(gpu: LocalGpu, specs: Mapping[str, DeviceSpec] | None = None) -> Identification:
    """Find the row for `gpu`: its NVML name as a whole, or else its PCI id if all else agrees."""
    specs = catalogue() if specs is None else specs
    gpu = _with_sm_count(gpu)
    if gpu.part or _PART.search(gpu.name or ""):
        return _computed(gpu, specs, f"'{gpu.name}' is a part of a card (MIG or vGPU)")
    named = next((s for s in specs.values() if _has_name(s, gpu.name)), None)
    if named is not None:
        wrong = _contradictions(gpu, named)
        if not wrong:
            return _identified(gpu, named, specs, f"by its whole name '{gpu.name}'")
        claim = f"'{gpu.name}' is called like {named.name}, but has {' and '.join(wrong)}"
        return _computed(gpu, specs, claim, warn=True)
    by_id = [s for s in specs.values() if gpu.pci_device_id in s.pci_device_ids]
    if len(by_id) == 1 and _all_agree(gpu, by_id[0]):
        how = f"by PCI id {gpu.pci_device_id}, as the name '{gpu.name}' is not in the catalogue"
        return _identified(gpu, by_id[0], specs, how)
    return _computed(gpu, specs, f"'{gpu.name}' is not in the catalogue")


def _has_name(spec: DeviceSpec, name: str | None) -> bool:
    return name is not None and _folded(name) in {_folded(n) for n in spec.nvml_names}


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _with_sm_count(gpu: LocalGpu) -> LocalGpu:
    """NVML counts cores, not SMs."""
    per_sm = CORES_PER_SM.get(gpu.capability) if gpu.capability else None
    if gpu.sm_count or not gpu.cuda_cores or per_sm is None:
        return gpu
    return replace(gpu, sm_count=gpu.cuda_cores // per_sm)


def _contradictions(gpu: LocalGpu, spec: DeviceSpec) -> list[str]:
    """What cannot be true of the card in this row: its peaks would be another's."""
    wrong = []
    if gpu.capability not in (None, spec.capability):
        wrong.append(
            f"compute capability {_dotted(gpu.capability)}, not {_dotted(spec.capability)}"
        )
    if gpu.sm_count not in (None, spec.sm_count):
        wrong.append(f"{gpu.sm_count} SMs, not {spec.sm_count}")
    return wrong


def _memory_agrees(gpu: LocalGpu, spec: DeviceSpec) -> bool | None:
    if gpu.memory_bytes is None or spec.memory_bytes is None:
        return None
    return _MEMORY_LOW <= gpu.memory_bytes / spec.memory_bytes <= _MEMORY_HIGH


def _all_agree(gpu: LocalGpu, spec: DeviceSpec) -> bool:
    known = gpu.capability is not None and gpu.sm_count is not None
    return known and not _contradictions(gpu, spec) and _memory_agrees(gpu, spec) is True


def _identified(
    gpu: LocalGpu, spec: DeviceSpec, specs: Mapping[str, DeviceSpec], how: str
) -> Identification:
    witnesses = [
        f"compute capability {_dotted(spec.capability)}" if gpu.capability else "",
        f"{spec.sm_count} SMs" if gpu.sm_count else "",
        "its memory" if _memory_agrees(gpu, spec) else "",
        f"PCI id {gpu.pci_device_id}" if gpu.pci_device_id in spec.pci_device_ids else "",
    ]
    agreeing = [w for w in witnesses if w]
    if agreeing:
        how += f"; {', '.join(agreeing)} agree{'s' if len(agreeing) == 1 else ''}"
    warnings = tuple(_disagreements(gpu, spec, specs))
    if _memory_agrees(gpu, spec) is False:
        spec = replace(spec, memory_bytes=gpu.memory_bytes)
    return Identification(spec, how, warnings)


def _disagreements(gpu: LocalGpu, spec: DeviceSpec, specs: Mapping[str, DeviceSpec]) -> list[str]:
    said = []
    if _memory_agrees(gpu, spec) is False:
        assert gpu.memory_bytes is not None
        assert spec.memory_bytes is not None
        said.append(
            f"it has {gpu.memory_bytes / 2**30:.1f} GiB of memory where {spec.name} has "
            f"{spec.memory_bytes / 2**30:.0f}: bandwidth and power may be another variant's."
        )
    bandwidth = computed_bandwidth(gpu)
    table = spec.memory_bytes_per_s
    if bandwidth and table and differs(bandwidth, table, _BANDWIDTH_TOLERANCE):
        said.append(
            f"its maximum memory clock and bus width make {bandwidth / 1e9:.0f} GB/s, "
            f"the catalogue says {table / 1e9:.0f}."
        )
    limit = gpu.default_power_limit_w
    if limit and spec.tdp_w and differs(limit, spec.tdp_w, _POWER_TOLERANCE):
        said.append(
            f"its default power limit is {limit:.0f} W, the catalogue says {spec.tdp_w:.0f}."
        )
    other = [
        s for s in specs.values() if s.key != spec.key and gpu.pci_device_id in s.pci_device_ids
    ]
    if other:
        said.append(f"its PCI id {gpu.pci_device_id} is that of {other[0].name}.")
    return said


def computed_bandwidth(gpu: LocalGpu) -> float | None:
    """Bytes per second from the maximum memory clock and the bus width.

    NVML and CUDA count two transfers per tick for HBM2 to HBM3e, GDDR5X, GDDR6, GDDR6X and GDDR7
    alike: the catalogue's `memory_clock_nvml_mhz` is half of every data rate it lists.
    """
    if gpu.part or not gpu.max_memory_clock_hz or not gpu.memory_bus_width_bits:
        return None
    return 2 * gpu.max_memory_clock_hz * gpu.memory_bus_width_bits / 8


def _computed(
    gpu: LocalGpu, specs: Mapping[str, DeviceSpec], why: str, warn: bool = False
) -> Identification:
    warnings = (f"{why}.",) if warn else ()
    if gpu.capability is None:
        how = f"{why}, and the driver tells no compute capability: no peaks"
        return Identification(None, how, warnings)
    rates = _rates(gpu, specs)
    generation = f"compute capability {_dotted(gpu.capability)}"
    if not rates:
        how = f"{why}, and {generation} is not in it either: no peaks"
    elif gpu.sm_count is None or gpu.max_sm_clock_hz is None:
        how = f"{why}, and the driver does not tell its SMs and maximum clock: no peaks"
    else:
        # H20, H800, CMP: the maker cuts some products below what their chip does per clock.
        how = (
            f"{why}: peaks at most, computed from {gpu.sm_count} SMs, its maximum clock of "
            f"{gpu.max_sm_clock_hz / 1e6:.0f} MHz and the rates of {generation}"
        )
        how += " (only FP32 is known)" if set(rates) == {"fp32"} else ""
    spec = DeviceSpec(
        key="",
        name=gpu.name or "unnamed GPU",
        capability=gpu.capability,
        sm_count=gpu.sm_count,
        boost_clock_hz=gpu.max_sm_clock_hz,
        max_clock_hz=gpu.max_sm_clock_hz,
        memory_bytes=gpu.memory_bytes,
        memory_clock_hz=gpu.max_memory_clock_hz,
        memory_bus_width_bits=gpu.memory_bus_width_bits,
        memory_bytes_per_s=computed_bandwidth(gpu),
        l2_bytes=gpu.l2_bytes,
        tdp_w=gpu.default_power_limit_w,
        ops_per_clk_per_sm=rates,
        notes=(how,),
        computed=True,
    )
    return Identification(spec, how, warnings)


def _rates(gpu: LocalGpu, specs: Mapping[str, DeviceSpec]) -> dict[str, int]:
    """Operations per clock and SM on which all cards of the generation and brand agree.

    GeForce chips sum FP16 products into FP32 at half rate and some have no tensor cores at all,
    so without a row of the same brand nothing is known of the tensor paths.
    """
    same = [s for s in specs.values() if s.capability == gpu.capability]
    if not same:
        cores = CORES_PER_SM.get(gpu.capability) if gpu.capability else None
        return {} if cores is None else {"fp32": 2 * cores}
    gaming = "geforce" in _folded(gpu.name or "")
    branded = [s for s in same if ("geforce" in _folded(s.name)) is gaming]
    rates = {}
    for path in PATHS if branded else [p for p in PATHS if "_tensor" not in p]:
        values = {s.ops_per_clk_per_sm[path] for s in branded or same}
        if len(values) == 1:
            rates[path] = values.pop()
    return rates


def _dotted(capability: tuple[int, int] | None) -> str:
    return "unknown" if capability is None else f"{capability[0]}.{capability[1]}"
