"""Checks of where libraries are found: folders and wheels that stand before one another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pymicro.probes.evidence import Evidence
from pymicro.results.findings import Finding

_CUDA_LIBRARY = re.compile(r"lib(cuda|cudart|cublas|cublasLt|nvrtc|cudnn|nccl|nvJitLink)\.so")
# Wheels carry the major number in the name (…-cu12) up to CUDA 12 and in the version from 13 on.
_WHEEL = re.compile(r"nvidia-(cuda-runtime|cuda-nvrtc|cublas)(?:-cu(\d+))?")

_NO_DRIVERS = {"stubs": "the toolkit's stub", "compat": "a compatibility package"}
_SYSTEM_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib/wsl/lib",
)


def loader_path(e: Evidence) -> Iterator[Finding]:
    """Folders of LD_LIBRARY_PATH that hold CUDA libraries: the loader takes them first."""
    for folder in filter(None, e.env.get("LD_LIBRARY_PATH", "").split(":")):
        names = sorted({m[0] for n in _names(Path(folder)) if (m := _CUDA_LIBRARY.match(n))})
        if not names:
            continue
        last = Path(folder).name or folder
        kind = next((k for part, k in _NO_DRIVERS.items() if part in Path(folder).parts), None)
        if "libcuda.so" in names and (kind or _has_system_driver(e)):
            yield _second_driver(last, kind)
        elif names != ["libcuda.so"]:
            yield Finding(
                "shadowed-libraries",
                "warning" if e.devices else "info",
                f"LD_LIBRARY_PATH puts {', '.join(names)} of the folder '{last}' first",
                "libraries that bring their own may load these versions instead",
                "unset LD_LIBRARY_PATH unless a program needs it",
            )


def _has_system_driver(e: Evidence) -> bool:
    """Whether the system's folders have a driver library; some clusters mount it elsewhere."""
    return any((e.root / folder / "libcuda.so.1").exists() for folder in _SYSTEM_FOLDERS)


def _second_driver(folder: str, kind: str | None) -> Finding:
    return Finding(
        "second-driver-library",
        "warning",
        f"LD_LIBRARY_PATH puts a driver library (libcuda) of the folder '{folder}' first"
        + (f": {kind}" if kind else ""),
        "CUDA then is not the one that the installed driver brings",
        "take that folder off LD_LIBRARY_PATH unless it is meant",
    )


def _names(folder: Path) -> list[str]:
    try:
        return [p.name for p in folder.iterdir()]
    except OSError:
        return []


def wheels(e: Evidence) -> Iterator[Finding]:
    """The same CUDA library as wheels of two major versions: one process loads only one."""
    majors: dict[str, set[str]] = {}
    for name, version in e.wheels.items():
        if match := _WHEEL.fullmatch(name):
            majors.setdefault(match[1], set()).add(match[2] or version.split(".")[0])
    for library, found in sorted(majors.items()):
        if len(found) > 1:
            yield Finding(
                "two-cuda-majors",
                "warning",
                f"{library} is installed for CUDA {' and '.join(sorted(found))}",
                "libraries that look it up by name all get the same one, right or wrong",
                "keep one environment for each major version of CUDA",
            )


def two_cupys(e: Evidence) -> Iterator[Finding]:
    """Several CuPy wheels write into one folder, and the last one installed wins."""
    found = sorted(n for n in e.wheels if re.fullmatch(r"cupy(-cuda\d+x?)?", n))
    if len(found) > 1:
        yield Finding(
            "two-cupys",
            "warning",
            f"{' and '.join(found)} are installed together",
            "their files overwrite each other",
            f"pip uninstall {' '.join(found)}, then install one",
        )


def toolkit_variables(e: Evidence) -> Iterator[Finding]:
    """CUDA_PATH and CUDA_HOME that point nowhere."""
    for name in ("CUDA_PATH", "CUDA_HOME"):
        value = e.env.get(name)
        if value and not Path(value).is_dir():
            yield Finding(
                "toolkit-folder-absent",
                "warning",
                f"{name} points to a folder that does not exist ('{Path(value).name}')",
                "CuPy, Numba and builds from source look for headers and libraries there",
                f"unset {name}, or set it to the toolkit's folder",
            )
