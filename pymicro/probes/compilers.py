"""Checks of compilers and assemblers: which there are, and the newest chip each one knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pymicro.probes.child import find_tool, run_tool
from pymicro.probes.evidence import Evidence, known_archs
from pymicro.results.findings import Finding
from pymicro.software.codes import Arch, Capability
from pymicro.software.versions import dotted

_COMPILERS = ("cc", "gcc", "clang")


def nvrtc_target(e: Evidence) -> Iterator[Finding]:
    """Whether NVRTC makes machine code for this very device."""
    facts = e.libraries["nvrtc"].facts
    if "cannot_target" in facts:
        yield Finding(
            "nvrtc-cannot-target",
            "error",
            f"NVRTC {facts.get('version')} does not compile for {facts['cannot_target']}; it "
            f"knows {facts['archs'][0]} to {facts['archs'][-1]}",
            "our CUDA kernels, which are compiled for the exact chip, cannot run",
            "older than 7.5: the extra cuda12; newer than the list: a newer NVRTC wheel",
        )


def triton_assemblers(e: Evidence) -> Iterator[Finding]:
    """Triton's own assemblers: present, and new enough for this device."""
    known = e.assemblers
    if not any(known.values()):
        return
    listed = ", ".join(f"{n} up to {_newest(archs)}" for n, archs in known.items() if archs)
    unknown = [c for c in e.capabilities if not any(_targets(c, a) for a in known.values())]
    if not unknown:
        yield Finding("triton-assemblers", "info", f"Triton assembles with {listed}")
        return
    chips = " and ".join(map(dotted, unknown))
    yield Finding(
        "triton-cannot-target",
        "error",
        f"Triton's assemblers ({listed}) do not know compute capability {chips}",
        "its kernels and torch.compile fail on this chip",
        "install a newer Triton with its torch, or point TRITON_PTXAS_PATH to a newer ptxas",
    )


def toolkit(e: Evidence) -> Iterator[Finding]:
    """The toolkit on the PATH, which pymicro does not need but others do."""
    ptxas = find_tool("ptxas", e.env)
    if ptxas is None:
        return
    archs = known_archs(ptxas, e.env)
    said = run_tool([ptxas, "--version"], e.env, 20).out
    version = re.search(r"release (\d+\.\d+)", said)
    if archs and version:
        seen = f"the toolkit on the PATH is CUDA {version[1]}; its ptxas knows up to"
        yield Finding("toolkit", "info", f"{seen} {_newest(archs)}")
    else:
        seen = "the ptxas on the PATH does not answer"
        yield Finding("toolkit-broken", "warning", seen, "builds from source will fail")


def host_compiler(e: Evidence) -> Iterator[Finding]:
    """Triton builds its launchers with a C compiler when a kernel first runs."""
    named = e.env.get("CC")
    found = find_tool(named.split()[0], e.env) if named and named.split() else None
    found = found or next((p for c in _COMPILERS if (p := find_tool(c, e.env))), None)
    if found is None and e.devices and e.libraries["triton"].is_installed:
        yield Finding(
            "compiler-absent",
            "warning",
            "no C compiler (cc, gcc, clang) is on the PATH",
            "Triton builds a launcher with it at the first launch of a kernel",
            "install gcc and the Python headers, or set CC",
        )


def native_module(e: Evidence) -> Iterator[Finding]:
    """pymicro's own C++ module, which is optional when installing."""
    report = e.native
    if not report.is_installed:
        yield Finding(
            "native-absent",
            "warning",
            "pymicro's compiled module is not there",
            "the CPU kernels of backend `native` are skipped",
            "install a C++20 compiler and reinstall pymicro; in its source tree, pip install -e .",
        )
    elif not report.is_ok:
        yield Finding(
            "native-broken",
            "error",
            f"pymicro's compiled module does not load: {report.how or report.ended}",
            "the CPU kernels of backend `native` cannot run",
            "reinstall pymicro with this Python",
        )


def _newest(archs: tuple[Arch, ...]) -> str:
    major, minor = max(a.capability for a in archs)
    return f"sm_{major}{minor}"


def _targets(capability: Capability, archs: tuple[Arch, ...]) -> bool:
    return any(a.capability == capability for a in archs)
