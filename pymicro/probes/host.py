"""Checks of the host: governor, virtual machine, container limits, NUMA and IOMMU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pymicro.devices.cpu import describe_cpu, usable_cores
from pymicro.environment import pressure
from pymicro.environment.host import host_facts
from pymicro.probes.evidence import Evidence
from pymicro.results.findings import Finding
from pymicro.units import binary_bytes

_CPUFREQ = "sys/devices/system/cpu/cpu0/cpufreq"
# Drivers whose `powersave` still raises the clock under load.
_DYNAMIC = ("intel_pstate", "amd-pstate-epp")


def governor(e: Evidence) -> Iterator[Finding]:
    """A governor that keeps the clock down slows every launch."""
    chosen, driver = e.read(f"{_CPUFREQ}/scaling_governor"), e.read(f"{_CPUFREQ}/scaling_driver")
    if chosen == "powersave" and driver not in _DYNAMIC:
        yield Finding(
            "governor",
            "warning",
            "the CPU governor is 'powersave'",
            "the clock stays low, and launches and small kernels wait for the host",
            "sudo cpupower frequency-set -g performance",
        )
    elif chosen:
        yield Finding("governor", "info", f"the CPU governor is '{chosen}'")


def busy(e: Evidence) -> Iterator[Finding]:
    """Whether others want the cores: a CPU's figures are then of what they leave."""
    seen = pressure.overload(pressure.load(), usable_cores())
    if seen:
        yield Finding(
            "busy",
            "warning",
            f"this machine is busy: {seen}",
            "figures of the CPU and of launches are of what other programs leave",
            "measure when they are done",
        )


def virtual(e: Evidence) -> Iterator[Finding]:
    """WSL, virtual machine or container, as far as it bears on a measurement."""
    facts = host_facts(e.root, e.env)
    if facts["is_wsl"]:
        yield Finding(
            "wsl",
            "info",
            "this is WSL: the GPU is reached through Windows",
            "launches cost more, pinned memory is limited, and Windows keeps the clocks",
        )
    elif facts["is_virtual"] and e.devices:
        seen = "this is a virtual machine"
        yield Finding("virtual-machine", "info", seen, "neighbours may change the host's speed")
    quota = facts["cpu_quota_cores"]
    if quota is not None and quota < facts["logical_cores"]:
        yield Finding(
            "cpu-quota",
            "info",
            f"this container may use {quota:g} cores' worth of {facts['logical_cores']}",
            "the host part of a job is throttled in bursts",
        )


def pinned_memory(e: Evidence) -> Iterator[Finding]:
    """How much pinned memory a transfer may take: the container's limit, and the locked one."""
    limit, installed = describe_cpu(e.root).memory_bytes, _installed_bytes(e)
    if limit is not None and installed is not None and limit < installed:
        yield Finding(
            "container-memory",
            "info",
            f"this container may use {binary_bytes(limit)} of {binary_bytes(installed)} of memory",
            "pinned buffers count against it; transfer benchmarks must stay below",
        )
    locked = _locked_limit_bytes()
    if locked is not None and locked < 64 * 2**20 and e.devices:
        yield Finding(
            "locked-memory",
            "info",
            f"at most {binary_bytes(locked)} may be locked (ulimit -l)",
            "pinning host memory may be refused where the driver cannot lock it itself",
            "raise the limit (docker: --ulimit memlock=-1) if a transfer fails",
        )


def _installed_bytes(e: Evidence) -> int | None:
    for line in e.read("proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _locked_limit_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows.
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def numa(e: Evidence) -> Iterator[Finding]:
    """Whether this process runs on the processors next to its GPU."""
    if not hasattr(os, "sched_getaffinity"):
        return
    usable = os.sched_getaffinity(0)
    for device in e.devices:
        folder = Path("sys/bus/pci/devices") / str(device.get("pci_bus_id", "?")).lower()
        near = cpu_list(e.read(folder / "local_cpulist"))
        if near and not near & usable:
            yield Finding(
                "numa-far",
                "warning",
                f"this process may only run on processors far from {device.get('name')}",
                "copies and launches cross the link between the sockets",
                f"taskset -c {e.read(folder / 'local_cpulist')}, or numactl --cpunodebind",
            )


def iommu(e: Evidence) -> Iterator[Finding]:
    """An IOMMU that translates makes peer copies slower or wrong."""
    groups = e.root / "sys/kernel/iommu_groups"
    on = groups.is_dir() and any(groups.iterdir())
    options = e.read("proc/cmdline").split()
    passes = "iommu=pt" in options or "iommu.passthrough=1" in options
    if on and len(e.devices) > 1 and not passes:
        yield Finding(
            "iommu",
            "info",
            "an IOMMU is on and not in pass-through mode",
            "copies between GPUs over PCIe may be slower, or go through the host",
            "iommu=pt on the kernel's command line, if peer copies disappoint",
        )


def counters(e: Evidence) -> Iterator[Finding]:
    """Whether the driver keeps hardware counters to administrators."""
    lines = e.read("proc/driver/nvidia/params").splitlines()
    if "RmProfilingAdminOnly: 1" in lines:
        yield Finding(
            "counters-restricted",
            "info",
            "the driver gives hardware counters to administrators only",
            "ncu and other tools may see none; kernels' names and times are not affected",
            "on the host, as root: options nvidia NVreg_RestrictProfilingToAdminUsers=0",
        )


def cpu_list(text: str) -> set[int]:
    """`0-3,8` as numbers; nothing for what is no such list."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
