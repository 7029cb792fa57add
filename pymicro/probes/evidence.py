"""What the checks look at, each piece asked once and only if a check wants it.

Tests put their own pieces in: a report of a probe, a fake NVML, a folder in place of `/`.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from pymicro.devices.nvml import NvmlView, look
from pymicro.probes import child, fatbins
from pymicro.probes.child import Report
from pymicro.probes.monitor import Monitor, ask_monitor
from pymicro.software.codes import Arch, Capability, parse_archs
from pymicro.software.versions import Version, of_cuda

# The libraries that are imported, each in a process of its own.
LIBRARIES = ("nvrtc", "torch", "triton", "cupy", "numba")
MASK = "CUDA_VISIBLE_DEVICES"
# Libraries under torch by the names of their files. cuDNN loads its parts when it needs them.
BINARIES = {"cublas": "libcublas*.so*", "cudnn": "libcudnn*.so*", "nccl": "libnccl.so*"}


def _distributions() -> Iterator[tuple[str, str]]:
    for found in metadata.distributions():
        if (name := found.metadata["Name"]) is not None:
            yield name.lower().replace("_", "-"), found.version


def _archs_of(pattern: str, loaded: list[str]) -> tuple[Arch, ...]:
    """All architectures of the files of a pattern beside those that were loaded."""
    folders = {Path(p).parent for p in loaded if fnmatch(Path(p).name, pattern)}
    found: set[Arch] = set()
    for file in {f.resolve() for folder in folders for f in folder.glob(pattern)}:
        with contextlib.suppress(OSError, ValueError, struct.error):  # Gone, empty or no ELF file.
            found.update(fatbins.archs_of(file))
    return tuple(sorted(found, key=lambda a: (a.capability, a.is_ptx, a.suffix)))


def known_archs(tool: str, env: Mapping[str, str]) -> tuple[Arch, ...]:
    """The architectures that an assembler accepts by its own help; none if it does not answer."""
    said = child.run_tool([tool, "--help"], env, 20)
    return parse_archs(sorted(set(re.findall(r"\bsm_\d{2,3}[af]?\b", said.out))))


@dataclass
class Evidence:
    """One look at this machine.

    Attributes:
        env: variables for everything that is started.
        root: the file system, for tests.
        nvml: stands in for the module pynvml; asked in this process, real ones in a child first.
        timeout_s: for each probe; importing from a cold network drive takes its time.
        given: reports that are not asked for.
        distributions: names and versions of what is installed, without importing it.
    """

    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: Path = Path("/")
    nvml: Any = None
    timeout_s: float = 120.0
    given: Mapping[str, Report] = field(default_factory=dict)
    distributions: Callable[[], Iterator[tuple[str, str]]] = _distributions

    def _ask(self, probe: str, **argument: Any) -> Report:
        if probe in self.given:
            return self.given[probe]
        return child.ask(probe, self.env, self.timeout_s, **argument)

    @cached_property
    def driver(self) -> Report:
        return self._ask("driver")

    @cached_property
    def unmasked_driver(self) -> Report:
        """The driver as it would answer without CUDA_VISIBLE_DEVICES."""
        if "unmasked_driver" in self.given or MASK not in self.env:
            return self.given.get("unmasked_driver", self.driver)
        env = {k: v for k, v in self.env.items() if k != MASK}
        return child.ask("driver", env, self.timeout_s)

    @cached_property
    def nvml_report(self) -> Report:
        return Report("ok") if self.nvml is not None else self._ask("nvml")

    @cached_property
    def view(self) -> NvmlView:
        """What NVML shows, asked in this process only after a child came back from it."""
        report = self.nvml_report
        if not report.is_ok:
            return NvmlView(reason=f"NVML: {report.how} ({report.step})")
        if (
            self.nvml is None and "nvml" in self.given
        ):  # A scripted report has no library behind it.
            return NvmlView(reason=str(report.facts.get("said", "NVML shows no GPU")))
        return look(self.nvml)

    @cached_property
    def libraries(self) -> Mapping[str, Report]:
        """A report of each library; two at a time, since importing is mostly reading."""
        argument = {"capability": list(self.capability) if self.capability else None}
        with ThreadPoolExecutor(2) as pool:
            reports = pool.map(lambda name: self._ask(name, **argument), LIBRARIES)
            return dict(zip(LIBRARIES, reports, strict=True))

    @cached_property
    def assemblers(self) -> Mapping[str, tuple[Arch, ...]]:
        """Triton's assemblers by name and version, and what each one knows."""
        tools = self.libraries["triton"].facts.get("assemblers") or {}
        return {
            f"{name} {tool['version']}": known_archs(tool["path"], self.env)
            for name, tool in tools.items()
        }

    @cached_property
    def binaries(self) -> Mapping[str, tuple[Arch, ...]]:
        """The libraries that torch loads, and the architectures that their files carry code for."""
        loaded = self.libraries["torch"].facts.get("loaded") or {}
        return {
            layer: archs
            for layer, pattern in BINARIES.items()
            if (archs := _archs_of(pattern, list(loaded.values())))
        }

    @cached_property
    def native(self) -> Report:
        """pymicro's compiled module."""
        folder = Path(child.__file__).parents[1]
        files = [folder / f"_native{suffix}" for suffix in EXTENSION_SUFFIXES]
        found = next((file for file in files if file.exists()), None)
        if "native" not in self.given and found is None:
            return Report("ok", facts={"installed": False})
        return self._ask("native", path=str(found))

    @cached_property
    def monitor(self) -> Monitor:
        return ask_monitor(self.env)

    @cached_property
    def wheels(self) -> Mapping[str, str]:
        """Installed distributions, name to version."""
        return dict(self.distributions())

    @property
    def devices(self) -> list[Mapping[str, Any]]:
        """The devices that CUDA shows this process."""
        return self.driver.facts.get("devices") or []

    @property
    def capability(self) -> Capability | None:
        """Of the first CUDA device."""
        return self.capabilities[0] if self.capabilities else None

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """Of all CUDA devices, each once: cards of two generations may share a machine."""
        told = (d for d in self.devices if {"major", "minor"} <= d.keys())
        return tuple(dict.fromkeys((d["major"], d["minor"]) for d in told))

    @property
    def driver_cuda(self) -> Version | None:
        """The newest CUDA version that the driver serves, by the driver library itself."""
        return of_cuda(self.driver.facts.get("cuda"))

    @property
    def driver_branch(self) -> str | None:
        """The driver's own version, as `580.95.05`."""
        from pymicro.environment.gpu import kernel_module_version

        return self.view.driver_version or kernel_module_version(self.root)

    @cached_property
    def marks(self) -> list[str]:
        """What shows that NVIDIA hardware or its driver is here, whatever CUDA says."""
        found = [
            f"{p} exists"
            for p in ("/proc/driver/nvidia/version", "/dev/nvidia0", "/dev/dxg")
            if (self.root / p.lstrip("/")).exists()
        ]
        return found + [f"PCI device {a} is NVIDIA's" for a in self.cards]

    @cached_property
    def cards(self) -> list[str]:
        """PCI addresses of NVIDIA display and compute cards that are plugged in."""
        found = []
        for device in sorted((self.root / "sys/bus/pci/devices").glob("*")):
            # PCI vendor 10DE is NVIDIA, class 03 a display or 3D controller.
            if self.read(device / "vendor") == "0x10de" and self.read(device / "class").startswith(
                "0x03"
            ):
                found.append(device.name)
        return found

    def read(self, path: str | Path) -> str:
        """A file below `root` (a whole path is taken as it is), empty if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return ""
