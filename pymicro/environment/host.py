"""Facts of the host: processor, cores, operating system, container; and installed versions."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pymicro import __version__
from pymicro.environment.variables import holds_private, private_words

# What we call it -> the distributions that can carry it, the first that is installed counts.
_DISTRIBUTIONS = {
    "numpy": ("numpy",),
    "torch": ("torch",),
    "triton": ("triton", "triton-windows", "pytorch-triton"),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "numba": ("numba",),
    "numba-cuda": ("numba-cuda",),
    "cuda-core": ("cuda-core",),
    "cuda-bindings": ("cuda-bindings",),
    "nvrtc": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"),
    "cublas": ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
    "nvidia-ml-py": ("nvidia-ml-py",),
    "transformers": ("transformers",),
}
_CONTAINER_WORDS = re.compile(r"docker|kubepods|containerd|libpod|lxc|garden")


def versions() -> dict[str, str | None]:
    """Versions as installed, without importing anything; None where it is not installed."""
    return {name: _version(candidates) for name, candidates in _DISTRIBUTIONS.items()}


def _version(candidates: tuple[str, ...]) -> str | None:
    for candidate in candidates:
        try:
            return metadata.version(candidate) or None
        except (metadata.PackageNotFoundError, KeyError):  # KeyError: metadata without a version.
            continue
    return None


def software() -> dict[str, str | None]:
    """pymicro, Python and the operating system."""
    kernel = platform.release()
    return {
        "pymicro": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "os": _os_name(),
        # People name the kernels that they build.
        "kernel": None if holds_private(kernel, private_words()) else kernel,
        "machine": platform.machine(),
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.version() if os.name == 'nt' else ''}".strip()


def host_facts(root: Path = Path("/"), variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The processor and what stands between us and it. `root` is for tests."""
    cpuinfo = _text(root / "proc/cpuinfo")
    return {
        "cpu": _cpu_brand(cpuinfo),
        "logical_cores": logical_cores(),
        "cpu_quota_cores": cpu_quota_cores(root),
        "governor": _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "is_container": is_container(root, variables),
        "is_wsl": "microsoft" in _text(root / "proc/sys/kernel/osrelease").lower(),
        "is_virtual": _is_virtual(root, cpuinfo),
    }


def logical_cores() -> int:
    """Logical cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota_cores(root: Path = Path("/")) -> float | None:
    """Cores' worth of time that a container grants, None without a limit (cgroup v2, then v1)."""
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if not period:
        quota = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # `max`, or no such file.
        return None
    return cores if cores > 0 else None


def is_container(root: Path = Path("/"), variables: Mapping[str, str] = os.environ) -> bool:
    """Whether the usual marks of a container are there."""
    marks = (root / ".dockerenv", root / "run/.containerenv")
    named = "container" in variables or "KUBERNETES_SERVICE_HOST" in variables
    in_group = bool(_CONTAINER_WORDS.search(_text(root / "proc/1/cgroup")))
    return named or in_group or any(mark.exists() for mark in marks)


def _is_virtual(root: Path, cpuinfo: str) -> bool | None:
    """Whether a hypervisor runs below; None where neither the flag nor the firmware tells."""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags:
        return "hypervisor" in flags[1].split()
    vendor = _text(root / "sys/class/dmi/id/sys_vendor").lower()
    return bool(re.search(r"qemu|amazon ec2|vmware|xen|google", vendor)) if vendor else None


def _cpu_brand(cpuinfo: str) -> str | None:
    for key in ("model name", "Model", "cpu model", "cpu"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        if found:
            return " ".join(found[1].split())
    return platform.processor() or None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
