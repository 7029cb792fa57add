"""The CPU this process may use, from /proc and sysfs, and its peaks where they are certain.

Peak = usable physical cores x operations per clock and core x maximum clock. The rates are rows
of cpus.toml by microarchitecture; a core that is not in it, or a clock that nobody tells (a
virtual machine shows none), gives None, and a measured clock may be passed in. Wide vectors
lower the clock of many parts, so a peak at the maximum clock is an upper bound.
"""

from __future__ import annotations

import importlib
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymicro.devices.catalogue import DATA
from pymicro.devices.spec import PATHS
from pymicro.errors import PymicroError, unknown

# Flags of /proc/cpuinfo that a kernel may choose by, narrow to wide.
_SIMD = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2",
)  # fmt: skip


@dataclass(frozen=True)
class CpuSpec:
    """A CPU as far as this process may use it. `None` means not known.

    Attributes:
        name: the brand string.
        core: microarchitecture, empty if it is not in the table.
        physical_cores, logical_cores: those in this process's affinity mask.
        quota_cores: limit of the control group, in cores, None without one.
        l1d_bytes, l2_bytes: of one core. `l3_bytes`: all that the usable cores share.
        max_clock_hz: boost limit, not the clock of now.
        ops_per_clk_per_core: dense operations by path, an FMA counted as two; 0 = no such path,
            a path that is not listed is not known.
    """

    name: str
    vendor: str = ""
    family: int | None = None
    model: int | None = None
    core: str = ""
    physical_cores: int = 1
    logical_cores: int = 1
    quota_cores: float | None = None
    l1d_bytes: int | None = None
    l2_bytes: int | None = None
    l3_bytes: int | None = None
    simd: tuple[str, ...] = ()
    max_clock_hz: float | None = None
    memory_bytes: int | None = None
    memory_bytes_per_s: float | None = None
    virtual: bool = False
    ops_per_clk_per_core: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[str, ...] = field(default=(), repr=False)

    kind = "cpu"
    key = "cpu"

    @property
    def cores(self) -> float:
        """Cores that can do arithmetic at once: physical ones, or fewer by quota."""
        return min(self.physical_cores, self.quota_cores or self.physical_cores)

    @property
    def last_level_cache_bytes(self) -> int | None:
        return self.l3_bytes or self.l2_bytes

    def ops_per_clk(self, path: str) -> float | None:
        """Dense operations per clock of all usable cores; 0 without the path, None if unknown."""
        if path not in PATHS:
            raise unknown("arithmetic path", path, PATHS)
        rate = self.ops_per_clk_per_core.get(path)
        return None if rate is None else rate * self.cores

    def peak_ops_per_s(self, path: str, clock_hz: float | None = None) -> float | None:
        """The peak at the maximum clock, or at one measured; None where a factor is unknown."""
        per_clk = self.ops_per_clk(path)
        clock = self.max_clock_hz if clock_hz is None else clock_hz
        if per_clk == 0:
            return 0.0
        return None if per_clk is None or clock is None else per_clk * clock


def describe_cpu(root: Path = Path("/"), usable: set[int] | None = None) -> CpuSpec:
    """Describe the CPU; `root` and `usable` stand in for the file system and the affinity mask."""
    info = _cpuinfo(root)
    usable = _affinity() if usable is None else usable
    family, model = _number(info, "cpu family"), _number(info, "model")
    vendor = info.get("vendor_id", info.get("CPU implementer", ""))
    flags = _flags(info)
    core = _core(vendor, family, model)
    caches = {(level, kind): size for level, kind, size, _ in _caches(root, min(usable))}
    return CpuSpec(
        name=info.get("model name") or platform.processor() or platform.machine(),
        vendor=vendor,
        family=family,
        model=model,
        core=core.get("name", ""),
        physical_cores=_physical(root, usable),
        logical_cores=len(usable),
        quota_cores=_quota_cores(root),
        l1d_bytes=caches.get((1, "Data")),
        l2_bytes=caches.get((2, "Unified")),
        l3_bytes=_l3_bytes(root, usable),
        simd=tuple(f for f in _SIMD if f in flags),
        max_clock_hz=_max_clock_hz(root, usable),
        memory_bytes=_memory_bytes(root),
        virtual="hypervisor" in flags,
        ops_per_clk_per_core=_rates(core, flags),
        sources=tuple(core.get("sources", ())),
    )


def usable_cores() -> int:
    """Cores that this process may use: its affinity mask, or fewer by its control group."""
    usable = len(_affinity())
    return max(1, min(usable, math.ceil(_quota_cores(Path("/")) or usable)))


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's block."""
    text = (_read(root / "proc/cpuinfo") or "").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {k.strip(): v.strip() for k, v in pairs}


def _number(info: Mapping[str, str], key: str) -> int | None:
    value = info.get(key, "")
    return int(value) if value.isdigit() else None


def _flags(info: Mapping[str, str]) -> set[str]:
    """Flags of the kernel, and of the compiled module where the kernel shows none."""
    flags = set((info.get("flags") or info.get("Features") or "").split())
    return flags or _native_flags()


def _native_flags() -> set[str]:
    try:
        native: Any = importlib.import_module("pymicro._native")
        features = native.cpu_features()
    except (ImportError, AttributeError):
        return set()
    return {f for f in features if not isinstance(features, Mapping) or features[f]}


def _cpu_list(text: str) -> set[int]:
    """`0-3,8` as numbers."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def _physical(root: Path, usable: set[int]) -> int:
    """Cores behind the usable threads; every thread is one where the kernel does not tell."""
    cores = set()
    for cpu in usable:
        base = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = _read(base / "core_cpus_list") or _read(base / "thread_siblings_list")
        cores.add(frozenset(_cpu_list(siblings)) if siblings else frozenset({cpu}))
    return len(cores)


def _caches(root: Path, cpu: int) -> Iterator[tuple[int, str, int, frozenset[int]]]:
    """Level, type, size in bytes and sharing CPUs of each cache of one CPU."""
    for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        size = re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size") or "")
        level, kind = _read(index / "level"), _read(index / "type")
        if size and level and kind:
            scale = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[size[2]]
            shared = frozenset(_cpu_list(_read(index / "shared_cpu_list") or str(cpu)))
            yield int(level), kind, int(size[1]) * scale, shared


def _l3_bytes(root: Path, usable: set[int]) -> int | None:
    slices = {
        shared: size
        for cpu in usable
        for level, _, size, shared in _caches(root, cpu)
        if level == 3
    }
    return sum(slices.values()) or None


def _max_clock_hz(root: Path, usable: set[int]) -> float | None:
    """The fastest of the usable cores; sysfs tells kHz, and a virtual machine nothing."""
    files = (f"sys/devices/system/cpu/cpu{c}/cpufreq/cpuinfo_max_freq" for c in usable)
    told = [int(text) * 1e3 for f in files if (text := _read(root / f)) and text.isdigit()]
    return max(told, default=None)


def _memory_bytes(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo") or "", re.MULTILINE)
    limits = [int(match[1]) * 1024] if match else []
    for file in ("memory.max", "memory.limit_in_bytes"):
        limits += [int(t) for t in _in_cgroups(root, "memory", file) if t.isdigit()]
    return min(limits, default=None)


def _quota_cores(root: Path) -> float | None:
    """The tightest CPU quota of the control groups around this process, versions 1 and 2."""
    limits = []
    for text in _in_cgroups(root, "cpu", "cpu.max"):
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit():
            limits.append(int(quota) / int(period))
    quotas = list(_in_cgroups(root, "cpu", "cpu.cfs_quota_us"))
    periods = list(_in_cgroups(root, "cpu", "cpu.cfs_period_us"))
    limits += [int(q) / int(p) for q, p in zip(quotas, periods, strict=False) if q.isdigit()]
    return min(limits, default=None)


def _in_cgroups(root: Path, controller: str, file: str) -> Iterator[str]:
    """The contents of `file` in this process's group and all groups above it."""
    base = root / "sys/fs/cgroup"
    for line in (_read(root / "proc/self/cgroup") or "0::/").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = base / controllers if controllers else base
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(mount) and (text := _read(folder / file)) is not None:
                yield text


def _core(vendor: str, family: int | None, model: int | None) -> dict[str, Any]:
    """The row of cpus.toml for this family and model, empty if there is none."""
    import tomllib

    file = DATA / "cpus.toml"
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        rows, common = tables["core"], tables["meta"]["sources_all_cores"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise PymicroError(f"{file.name} cannot be read: {error}.") from error
    for row in rows.values():
        if (row["vendor"], row["family"]) == (vendor, family) and model in row["models"]:
            return {**row, "sources": row["sources"] + common}
    return {}


def _rates(core: Mapping[str, Any], flags: set[str]) -> dict[str, int]:
    """Per path the highest rate among the instruction sets that the CPU really reports."""
    # No CPU multiplies FP64 or TF32 in a matrix unit.
    rates = {"fp64_tensor": 0, "tf32_tensor": 0} if core else {}
    for instructions, paths in core.get("ops_per_clk", {}).items():
        if instructions in flags:
            for path, rate in paths.items():
                rates[path] = max(rates.get(path, 0), rate)
    return rates
