"""One device in full, as pairs of label and text for a screen that others draw."""

from __future__ import annotations

from pymicro.devices.cpu import CpuSpec
from pymicro.devices.spec import PATHS, DeviceSpec
from pymicro.units import binary_bytes, si

UNKNOWN = "not known"


def describe(spec: DeviceSpec | CpuSpec) -> dict[str, str]:
    """Label to value with unit, in the order to show; what is not known says so."""
    return _cpu(spec) if isinstance(spec, CpuSpec) else _gpu(spec)


def _gpu(s: DeviceSpec) -> dict[str, str]:
    major, minor = s.capability
    links = f"NVLink {s.nvlink_generation}, {s.nvlink_links} links, {s.nvlink_kind}"
    return {
        "name": s.name,
        "key": s.key or "none: computed from what the driver says",
        "names in NVML": _list(s.nvml_names),
        "PCI ids": _list(s.pci_device_ids),
        "chip": f"{s.chip}, {s.architecture}" if s.chip else UNKNOWN,
        "compute capability": f"{major}.{minor}",
        "launched": _text(s.launch_year),
        "SMs": _text(s.sm_count),
        "boost clock": _si(s.boost_clock_hz, "Hz"),
        "tensor boost clock": _si(s.tensor_boost_clock_hz or s.boost_clock_hz, "Hz"),
        "maximum clock": _si(s.max_clock_hz, "Hz"),
        **_peaks(s),
        "memory": f"{_size(s.memory_bytes)} {s.memory_type}".strip(),
        "memory bus": _text(s.memory_bus_width_bits, " bit"),
        "memory bandwidth": _si(s.memory_bytes_per_s, "B/s"),
        "L2 cache": _size(s.l2_bytes),
        "L1 and shared memory per SM": _size(s.l1_and_shared_bytes_per_sm),
        "shared memory per SM, per block": f"{_size(s.shared_bytes_per_sm)}, "
        f"{_size(s.shared_bytes_per_block)}",
        "registers per SM": _text(s.registers_per_sm),
        "threads per SM": _text(s.max_threads_per_sm),
        "PCI Express": _pcie(s),
        "NVLink": f"{links}, {_si(s.nvlink_bytes_per_s, 'B/s')} both ways together"
        if s.nvlink_links
        else (UNKNOWN if s.nvlink_links is None else s.nvlink_kind or "none"),
        "peer access over PCIe": s.p2p_over_pcie or UNKNOWN,
        "power limit": _text(s.tdp_w, " W"),
        "ECC": s.ecc or UNKNOWN,
        "CUDA toolkit": _toolkit(s),
        "PyTorch": f"from {s.pytorch_first}; {s.pytorch_note}" if s.pytorch_first else UNKNOWN,
        **{f"note {i}": note for i, note in enumerate(s.notes, 1)},
        "inferred, not stated by a source": _list(s.inferred),
        "vendor documents": _list(s.vendor_documents),
        "sources": _list(s.sources),
    }


def _unit(path: str) -> str:
    return "OP/s" if path.startswith("int") else "FLOP/s"


def _peaks(s: DeviceSpec) -> dict[str, str]:
    """A line a path: dense peak, the clock it is at, the published figure, why they differ."""
    lines = {}
    for path in PATHS:
        peak = s.peak_ops_per_s(path)
        if peak is None:
            lines[f"peak {path}"] = UNKNOWN
            continue
        if peak == 0:
            lines[f"peak {path}"] = "no such path"
            continue
        unit = _unit(path)
        text = f"{_si(peak, unit)} at {_si(s.clock_hz(path), 'Hz')}"
        if path in s.published_ops_per_s:
            text += f"; published {_si(s.published_ops_per_s[path], unit)}"
        if path in s.published_halved_from_sparse:
            text += " (half of the sparse figure)"
        if path in s.published_not_confirmed:
            text += " (no opened source shows it)"
        if path in s.explained_mismatch:
            text += f": {s.explained_mismatch[path]}"
        lines[f"peak {path}"] = text
    return lines


def _cpu(s: CpuSpec) -> dict[str, str]:
    cores = f"{s.physical_cores} cores, {s.logical_cores} threads"
    if s.quota_cores is not None:
        cores += f", at most {s.quota_cores:g} cores at once (control group)"
    return {
        "name": s.name + (" (virtual machine)" if s.virtual else ""),
        "core": s.core or UNKNOWN,
        "vendor, family, model": f"{s.vendor}, {_text(s.family)}, {_text(s.model)}",
        "usable": cores,
        "maximum clock": _si(s.max_clock_hz, "Hz"),
        **{f"peak {p}": _cpu_peak(s, p) for p in PATHS if s.ops_per_clk(p) is not None},
        "instruction sets": _list(s.simd),
        "L1 data, L2 of a core": f"{_size(s.l1d_bytes)}, {_size(s.l2_bytes)}",
        "L3 of the usable cores": _size(s.l3_bytes),
        "memory": _size(s.memory_bytes),
        "memory bandwidth": _si(s.memory_bytes_per_s, "B/s"),
        "sources": _list(s.sources),
    }


def _cpu_peak(s: CpuSpec, path: str) -> str:
    per_clk, peak = s.ops_per_clk(path), s.peak_ops_per_s(path)
    if per_clk == 0:
        return "no such path"
    rate = f"{per_clk:g} operations a clock"
    return rate if peak is None else f"{_si(peak, _unit(path))} at most ({rate})"


def _pcie(s: DeviceSpec) -> str:
    if s.pcie_generation is None or s.pcie_lanes is None:
        return UNKNOWN
    rate = _si(s.pcie_bytes_per_s, "B/s")
    return f"generation {s.pcie_generation}, {s.pcie_lanes} lanes, {rate} one way"


def _toolkit(s: DeviceSpec) -> str:
    if not s.cuda_toolkit_first:
        return UNKNOWN
    last = f" to {s.cuda_toolkit_last}" if s.cuda_toolkit_last else ""
    return f"from {s.cuda_toolkit_first}{last}"


def _si(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else si(value, unit)


def _size(value: int | None) -> str:
    return UNKNOWN if value is None else binary_bytes(value)


def _text(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{value:g}{unit}" if unit else str(value)


def _list(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "none"
