"""Devices on a screen: the catalogue as a table, one device as a list of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pymicro.devices.describe import describe
from pymicro.devices.identify import Identification
from pymicro.devices.nvml import LocalGpu
from pymicro.devices.peaks import Spec, peak_ops_per_s
from pymicro.devices.spec import DeviceSpec
from pymicro.dtypes import DTYPES
from pymicro.report.terminal import Terminal
from pymicro.units import si


def _peak(name: str) -> Callable[[DeviceSpec], str]:
    def text(spec: DeviceSpec) -> str:
        path = DTYPES[name].peak_path
        peak = spec.peak_ops_per_s(path)
        if not peak:
            return "-" if peak == 0 else "?"
        return f"{peak / 1e12:.3g}" if peak < 1e15 else f"{peak / 1e12:.0f}"

    return text


# Title, text. FP16 and BF16 with FP32 accumulate, which GeForce cards run at half rate.
_CATALOGUE: tuple[tuple[str, Callable[[DeviceSpec], str]], ...] = (
    ("card", lambda s: s.name.removeprefix("NVIDIA ")),
    ("cc", lambda s: ".".join(map(str, s.capability))),
    ("GiB", lambda s: f"{(s.memory_bytes or 0) / 2**30:.0f}"),
    ("TB/s", lambda s: f"{(s.memory_bytes_per_s or 0) / 1e12:.3g}"),
    ("fp32", _peak("fp32")),
    ("tf32", _peak("tf32")),
    ("fp16", _peak("fp16")),
    ("bf16", _peak("bf16")),
    ("fp8", _peak("fp8_e4m3")),
    ("int8", _peak("int8")),
    ("fp64", lambda s: f"{(peak_ops_per_s(s, DTYPES['fp64']) or 0) / 1e12:.3g}"),
    ("W", lambda s: f"{s.tdp_w:.0f}" if s.tdp_w else "?"),
)


# What a narrow screen leaves out first.
_LEAVING = ("bf16", "int8", "fp64", "fp8", "tf32")


def many(specs: Iterable[DeviceSpec], terminal: Terminal | None = None) -> None:
    """The catalogue: dense peaks in TFLOP/s (TOP/s for int8) at the vendor's clock."""
    terminal = terminal or Terminal()
    rows = [[text(spec) for _, text in _CATALOGUE] for spec in specs]
    titles = [title for title, _ in _CATALOGUE]
    leaving = [titles.index(title) for title in _LEAVING]
    terminal.table(titles, rows, range(1, len(titles)), leaving)
    terminal.say("Dense peaks in TFLOP/s at the vendor's clock; fp16 and bf16 accumulate in fp32.")
    terminal.say("One card in full, with sources: pymicro devices NAME")


# Addresses, which no cell can hold unbroken.
_LINKS = ("vendor documents", "sources")


def one(spec: Spec, note: str | None = None, terminal: Terminal | None = None) -> None:
    """One device in full."""
    terminal = terminal or Terminal()
    if note:
        terminal.say(note)
    facts = describe(spec)
    links = {label: facts.pop(label) for label in _LINKS if label in facts}
    terminal.table(None, [[label, text] for label, text in facts.items()], numbers=())
    for label, text in links.items():
        terminal.say(f"{label}:")
        for link in text.split(", "):
            terminal.say(f"  {link}")


def local(gpu: LocalGpu, found: Identification, terminal: Terminal | None = None) -> None:
    """One GPU of this machine: what the driver says, and which row it is."""
    terminal = terminal or Terminal()
    facts: dict[str, Any] = {
        "GPU": f"{gpu.index}: {gpu.name}",
        "row": f"{found.spec.name if found.spec else 'none'} ({found.how})",
        "UUID": gpu.uuid,
        "PCI bus id": gpu.pci_bus_id,
        "compute capability": ".".join(map(str, gpu.capability)) if gpu.capability else None,
        "memory": f"{gpu.memory_bytes / 2**30:.1f} GiB" if gpu.memory_bytes else None,
        "maximum SM clock": si(gpu.max_sm_clock_hz, "Hz") if gpu.max_sm_clock_hz else None,
        "power limit": f"{gpu.default_power_limit_w:.0f} W" if gpu.default_power_limit_w else None,
        "memory bandwidth": si(found.spec.memory_bytes_per_s, "B/s")
        if found.spec and found.spec.memory_bytes_per_s
        else None,
        "peak fp16": si(peak, "FLOP/s")
        if (peak := peak_ops_per_s(found.spec, DTYPES["fp16"]))
        else None,
    }
    terminal.table(None, [[k, v or "not known"] for k, v in facts.items()], numbers=())
    for warning in found.warnings:
        terminal.say(f"warning: {warning}")
