"""Checks of each GPU through NVML: how it is shared, set, and connected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pymicro import nvml
from pymicro.devices.cuda_gpus import join
from pymicro.devices.identify import identify
from pymicro.devices.nvml import LocalGpu, bus_id
from pymicro.devices.spec import DeviceSpec
from pymicro.environment.gpu import gpu_facts
from pymicro.errors import Unavailable
from pymicro.probes.driver import driver
from pymicro.probes.evidence import Evidence
from pymicro.results.findings import Finding

# NVML's clock event reasons that mean trouble rather than management.
_SLOWDOWNS = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
_SETTINGS = 0x2
_SETTLE_TRIES, _SETTLE_S = 3, 1.0
Facts = Mapping[str, Any]


def gpus(e: Evidence) -> Iterator[Finding]:
    """All checks below for each device that CUDA shows this process."""
    if not e.view.gpus:
        return
    for number in range(len(e.devices)):
        name = f"GPU {number}" if len(e.devices) > 1 else "the GPU"
        try:
            found = _in_nvml(e, number)
        except Unavailable as error:
            seen = f"{name} of CUDA is not found in NVML: {error}"
            yield Finding("gpu-not-in-nvml", "warning", seen, "no clock, power or limit is known")
            continue
        facts = _settled(found, gpu_facts(found)[0]) | _now(found)
        spec = identify(local_gpu(e, number)).spec
        for check in _CHECKS:
            yield from check(name, facts, spec)


def local_gpu(e: Evidence, number: int) -> LocalGpu:
    """A device as CUDA and NVML tell it together."""
    told = e.devices[number]
    address, capability = told.get("pci_bus_id"), (told.get("major"), told.get("minor"))
    gpu = LocalGpu(
        name=told.get("name"),
        cuda_index=number,
        uuid=told.get("uuid"),
        pci_bus_id=bus_id(address) if address else None,
        capability=None if None in capability else capability,  # type: ignore[arg-type]
        sm_count=told.get("sm_count"),
    )
    return join(gpu, e.view)[0]


def spec_of(e: Evidence, number: int) -> DeviceSpec:
    """The row of a device of this machine, computed where it is in no catalogue.

    Raises:
        Unavailable: no such device, or nothing is known of it; in one sentence.
    """
    if number >= len(e.devices):
        reason = next(iter(driver(e))).seen
        raise Unavailable(f"no GPU cuda:{number} here ({reason}); name a card with --device.")
    spec = identify(local_gpu(e, number)).spec
    if spec is None:
        raise Unavailable(f"the driver tells no compute capability of cuda:{number}.")
    return spec


def widest_link(e: Evidence, number: int) -> tuple[int, int] | None:
    """Generation and lanes, the most that card and slot allow together; None if not told."""
    try:
        found = _in_nvml(e, number)
    except Unavailable:
        return None
    most = gpu_facts(found)[0]["pcie_max"]
    return (most[0], most[1]) if most else None


def _in_nvml(e: Evidence, number: int) -> nvml.NvmlDevice:
    if not e.view.gpus:  # Its library did not come back from a process of its own.
        raise Unavailable(e.view.reason or "NVML shows no GPU")
    told = e.devices[number]
    return nvml.find(told.get("uuid"), told.get("pci_bus_id"), e.nvml)


def _now(found: nvml.NvmlDevice) -> dict[str, Any]:
    """The link and the clock event reasons of this moment, None where not told."""
    n, h = found.nvml, found.handle
    questions: dict[str, Callable[[], Any]] = {
        "pcie_generation": lambda: nvml.positive(n.nvmlDeviceGetCurrPcieLinkGeneration(h)),
        "pcie_width": lambda: nvml.positive(n.nvmlDeviceGetCurrPcieLinkWidth(h)),
        "reasons": lambda: n.nvmlDeviceGetCurrentClocksEventReasons(h),
    }
    return {name: nvml.ask(question)[0] for name, question in questions.items()}


def _settled(found: nvml.NvmlDevice, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts, other processes asked again until none is left: one that has just ended, our own
    probes among them, may stand in NVML's list for a moment."""
    for _ in range(_SETTLE_TRIES):
        if not facts["other_processes"]:
            break
        time.sleep(_SETTLE_S)
        facts = {**facts, "other_processes": gpu_facts(found)[0]["other_processes"]}
    return facts


def _matched(name: str, f: Facts, spec: DeviceSpec | None) -> Iterator[Finding]:
    if f["found_by"] == "only device":
        yield Finding(
            "gpu-matched-as-only",
            "info",
            f"{name} has another UUID in NVML than in CUDA; it was matched as the only one there",
            "guests with a vGPU show this; telemetry is that of the device NVML has",
        )


def _shared(name: str, f: Facts, spec: DeviceSpec | None) -> Iterator[Finding]:
    if f["is_mig_partition"] or f["is_mig_enabled"]:
        yield Finding(
            "mig",
            "info",
            f"{name} is a MIG partition" if f["is_mig_partition"] else f"MIG is on for {name}",
            "peaks are those of the slice, and NVML's counters those of the whole card",
        )
    kind = f["virtualization"]
    if kind in ("vgpu", "passthrough"):
        seen = f"{name} is a vGPU" if kind == "vgpu" else f"{name} is passed through to a guest"
        yield Finding("virtual-gpu", "info", seen, "other guests or the host may set its limits")
    if f["other_processes"]:
        yield Finding(
            "gpu-in-use",
            "warning",
            f"{f['other_processes']} other compute process(es) use {name}",
            "they take time, memory, power and cache from what is measured (looked at for 3 s)",
            "wait until they end, or measure on another GPU",
        )


def _settings(name: str, f: Facts, spec: DeviceSpec | None) -> Iterator[Finding]:
    limit, default = f["power_limit_w"], f["default_power_limit_w"]
    if limit and default and limit < 0.995 * default:
        yield Finding(
            "power-limit-lowered",
            "warning",
            f"the power limit of {name} is {limit:.0f} W, {default:.0f} W by default",
            "products of large matrices are held back by it",
            f"sudo nvidia-smi -pl {default:.0f} restores it",
        )
    if f["are_clocks_set"] or (f["reasons"] or 0) & _SETTINGS:
        yield Finding(
            "clocks-set",
            "warning",
            f"someone chose application clocks or locked the clocks of {name}",
            "rates are those of that setting, not of the card",
            "sudo nvidia-smi -rac -rgc restores the defaults",
        )
    if f["is_persistent"] is False:
        yield Finding(
            "persistence-off",
            "info",
            f"persistence mode of {name} is off",
            "the first CUDA call after a pause starts the driver anew, which takes seconds",
            "sudo nvidia-smi -pm 1, or run nvidia-persistenced",
        )
    if f["is_ecc_enabled"] is False and spec is not None and spec.ecc.startswith("on"):
        yield Finding(
            "ecc-off",
            "info",
            f"ECC of {name} is off, though it is on by default",
            "memory errors go unseen; GDDR cards gain a little memory and bandwidth",
        )


def _slowdowns(name: str, f: Facts, spec: DeviceSpec | None) -> Iterator[Finding]:
    seen = [text for bit, text in _SLOWDOWNS.items() if (f["reasons"] or 0) & bit]
    if seen:
        yield Finding(
            "slowdown",
            "warning",
            f"{name} reports {' and '.join(seen)} right now",
            "heat or the power supply holds it down",
            "check cooling, power cables and the server's power settings",
        )


def _link(name: str, f: Facts, spec: DeviceSpec | None) -> Iterator[Finding]:
    if f["pcie_generation"] and f["pcie_width"] and f["pcie_max"]:
        card = (spec.pcie_generation, spec.pcie_lanes) if spec is not None else (None, None)
        now = (f["pcie_generation"], f["pcie_width"])
        yield link_finding(name, now, tuple(f["pcie_max"]), card)


def link_finding(
    name: str,
    now: tuple[int, int],
    most: tuple[int, ...],
    card: tuple[int | None, int | None] = (None, None),
    under_load: bool = False,
) -> Finding:
    """Judge a PCIe link: generation and width now, the most that card and slot allow together,
    and what the data sheet gives the card. An idle link saves power at a lower generation."""
    (generation, width), state = now, "under load" if under_load else "idle"
    seen = f"the link of {name} is generation {generation} x{width} ({state}), "
    seen += f"at most {most[0]} x{most[1]} here"
    lost = generation < most[0] if under_load else False
    if width < most[1] or lost:
        return Finding(
            "link-degraded",
            "warning",
            seen,
            "copies between host and GPU are that much slower",
            "reseat the card or riser; look at the slot's settings in the firmware",
        )
    if (card[0] or 0) > most[0] or (card[1] or 0) > most[1]:
        return Finding(
            "link-below-card",
            "info",
            f"{seen}; the card could do generation {card[0]} x{card[1]}",
            "board, slot or CPU limit copies between host and GPU",
        )
    return Finding("link", "info", seen)


def _in_order(name: str, f: Facts, spec: DeviceSpec | None) -> Iterator[Finding]:
    """What was looked at and is as it should be, so that silence is not taken for it."""
    limit, default = f["power_limit_w"], f["default_power_limit_w"]
    told = {
        "no MIG": f["is_mig_enabled"] is False and not f["is_mig_partition"],
        "persistence mode on": f["is_persistent"] is True,
        "ECC on": f["is_ecc_enabled"] is True,
        f"power limit {limit or 0:.0f} W, the default": bool(
            limit and default and limit >= 0.995 * default
        ),
        "clocks not set": f["are_clocks_set"] is False and f["reasons"] is not None
        and not f["reasons"] & _SETTINGS,
        "no slowdown now": f["reasons"] is not None
        and not any(f["reasons"] & bit for bit in _SLOWDOWNS),
        "no other process": f["other_processes"] == 0,
    }  # fmt: skip
    good = [words for words, holds in told.items() if holds]
    if good:
        yield Finding("gpu-in-order", "info", f"{name}: {', '.join(good)}")


_CHECKS = (_in_order, _matched, _shared, _settings, _slowdowns, _link)
