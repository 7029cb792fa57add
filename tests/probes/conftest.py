"""Doubles for probes: a driver library built by gcc, modules in a folder, tools on a PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pymicro.probes import Evidence
from pymicro.probes.child import Report

_STUB = r"""
#include <stdlib.h>
#include <string.h>
#ifndef DIES
#define DIES 0
#endif
int cuDriverGetVersion(int *v) { *v = VERSION; return 0; }
int cuInit(unsigned flags) { if (DIES) abort(); return INIT; }
int cuDeviceGetCount(int *n) { *n = COUNT; return INIT; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, NAME, n); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
    *v = a == 75 ? MAJOR : a == 76 ? MINOR : a == 16 ? 132 : 0;
    return 0;
}
int cuDeviceGetUuid(unsigned char *u, int d) { memset(u, 0x11, 16); return 0; }
"""


@pytest.fixture
def stub_driver(tmp_path) -> Callable[..., dict[str, str]]:
    """Builds a driver library that answers as told; returns variables that put it first."""
    if shutil.which("gcc") is None or sys.platform == "win32":
        pytest.skip("the stub driver library is built with gcc")

    def build(init=0, version=13000, count=0, name="NVIDIA H200", cc=(9, 0), dies=0):
        folder = tmp_path / "driver"
        folder.mkdir(exist_ok=True)
        source = folder / "stub.c"
        source.write_text(_STUB)
        values = {"INIT": init, "VERSION": version, "COUNT": count, "NAME": f'"{name}"'}
        values |= {"MAJOR": cc[0], "MINOR": cc[1], "DIES": dies}
        defines = [f"-D{key}={value}" for key, value in values.items()]
        command = ["gcc", "-shared", "-fPIC", "-w", *defines, str(source)]
        subprocess.run([*command, "-o", str(folder / "libcuda.so.1")], check=True)
        return {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"} | {
            "LD_LIBRARY_PATH": str(folder)
        }

    return build


@pytest.fixture
def fake_modules(tmp_path) -> Callable[..., dict[str, str]]:
    """Writes modules by name and source; returns variables that put them first."""

    def write(**sources: str) -> dict[str, str]:
        folder = tmp_path / "modules"
        folder.mkdir(exist_ok=True)
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        return dict(os.environ) | {"PYTHONPATH": str(folder)}

    return write


@pytest.fixture
def fake_tool(tmp_path) -> Callable[..., dict[str, str]]:
    """Puts a shell script of a name first on the PATH."""

    def write(name: str, body: str) -> dict[str, str]:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
        return dict(os.environ) | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    return write


ABSENT = Report("ok", facts={"installed": False})
DEVICE = {
    "name": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "sm_count": 132,
    "uuid": "GPU-11111111-2222-3333-4444-555555555555",
    "pci_bus_id": "0000:01:00.0",
}


def a_driver(cuda=13000, devices=(DEVICE,), init=0) -> Report:
    facts = {"library": "libcuda.so.1", "cuda": cuda, "init": init, "devices": list(devices)}
    return Report("ok", facts=facts)


def evidence(
    root: Path = Path("/nonexistent"), env: dict[str, str] | None = None, nvml=None, **given: Report
) -> Evidence:
    """Evidence in which everything is scripted: a working H200 and no library, unless given."""
    names = ("nvrtc", "torch", "triton", "cupy", "numba", "nvml", "native")
    reports = dict.fromkeys(names, ABSENT) | {"driver": a_driver()} | given
    return Evidence(
        env={"PATH": "/nonexistent"} if env is None else env,
        root=root,
        nvml=nvml,
        given=reports,
        distributions=lambda: iter(()),
    )


@pytest.fixture
def scripted() -> SimpleNamespace:
    return SimpleNamespace(evidence=evidence, driver=a_driver, device=DEVICE, absent=ABSENT)


@pytest.fixture
def codes() -> Callable[..., dict[str, str]]:
    """The findings of one check as code -> severity."""
    return lambda check, e: {f.code: f.severity for f in check(e)}
