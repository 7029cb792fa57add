"""Checks of the libraries under the backends, each imported and tried in a process of its own.

What a library says is quoted as a detail; the advice is ours, since theirs often fits another way
of installing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pymicro.devices.here import install_line
from pymicro.probes.child import Report
from pymicro.probes.driver import built_with
from pymicro.probes.evidence import Evidence
from pymicro.probes.quote import quote
from pymicro.results.findings import Finding, Severity
from pymicro.software.codes import Capability, best_code, parse_archs
from pymicro.software.versions import dotted

_TITLES = {
    "nvrtc": "NVRTC with cuda-core",
    "torch": "torch",
    "triton": "Triton",
    "cupy": "CuPy",
    "numba": "Numba",
}
_EXTRAS = {"torch": "torch", "triton": "triton", "numba": "numba"}
_REINSTALL = {
    "nvrtc": "reinstall cuda-core, cuda-bindings and the NVRTC wheel of one CUDA version",
    "torch": "reinstall torch from the index of one CUDA version",
    "triton": "install the Triton that belongs to this torch",
    "cupy": "install cupy-cuda13x[ctk] (or cupy-cuda12x[ctk]), and no second CuPy beside it",
    "numba": "install numba-cuda[cu13] (or [cu12]), which brings NVVM and NVRTC as wheels",
}


def libraries(e: Evidence) -> Iterator[Finding]:
    """Absent, broken, crashing, hanging, or fine: a finding for each library."""
    for name, report in e.libraries.items():
        if not report.is_installed:
            yield _absent(e, name)
        elif report.is_ok:
            yield _fine(e, name, report)
        else:
            yield _broken(e, name, report)
        if name == "numba" and report.facts.get("put_back"):
            yield _older_than_numpy(report)
        for text in report.warnings[:1]:
            # Said once here, and kept out of everybody's output.
            seen = f"{_TITLES[name]} warns: {quote(text, e.env)}"
            yield Finding(f"{name}-warns", "info", seen)


def _older_than_numpy(report: Report) -> Finding:
    names = ", ".join(f"numpy.{name}" for name in report.facts["put_back"])
    numba = report.facts.get("cuda_version", "unknown")
    return Finding(
        "numba-older-than-numpy",
        "warning",
        f"numba-cuda {numba} looks for {names}, which NumPy {report.facts['numpy']} no longer has",
        "pymicro puts it back before it uses Numba; kernels of other programs fail to compile",
        "install a NumPy older than 2.5, or a numba-cuda that knows this one",
    )


def _absent(e: Evidence, name: str) -> Finding:
    if name == "nvrtc":
        has_gpu = bool(e.devices)
        return Finding(
            "cuda-part-absent",
            "error" if has_gpu else "info",
            "the CUDA part of pymicro is not installed",
            "our own kernels cannot run on the GPU" if has_gpu else "it is for GPUs only",
            install_line(e.view, e.root),
        )
    extra = _EXTRAS.get(name, "cupy12" if e.driver_cuda and e.driver_cuda[0] < 13 else "cupy13")
    either = (
        ""
        if name in _EXTRAS or e.driver_cuda
        else ' (driver 580 or newer) or "pymicro-gpu[cupy12]"'
    )
    return Finding(
        f"{name}-absent",
        "info",
        f"{_TITLES[name]} is not installed",
        "its cases are skipped",
        f'pip install "pymicro-gpu[{extra}]"{either}',
    )


def _broken(e: Evidence, name: str, report: Report) -> Finding:
    doing = {"import": "while it is imported", "start": "before it is imported"}
    when = doing.get(report.step, f"at: {report.step}")
    title, how = _TITLES[name], quote(report.how, e.env)
    if report.ended == "crash":
        seen = f"{title} brings its process down with {how} {when}"
        return Finding(f"{name}-crashes", "error", seen, _WHY_CRASH, _REINSTALL[name])
    if report.ended == "timeout":
        seen = f"{title} hangs {when}: {how}"
        return Finding(f"{name}-hangs", "error", seen, _WHY_CRASH, _REINSTALL[name])
    compiles = report.step.startswith("compile")
    code = "cannot-compile" if compiles else "cannot-run" if "run" in report.step else "broken"
    what = "is present but cannot compile" if compiles else f"fails {when}"
    return Finding(
        f"{name}-{code}",
        _severity(e, report),
        f"{title} {what} (details: {how})",
        "its cases will be skipped with this reason",
        _advice(e, name, report),
    )


_WHY_CRASH = "a run that used it would end the same way; this one went on because it asked apart"


def _severity(e: Evidence, report: Report) -> Severity:
    """Without a GPU, a library that cannot compile for one has nothing to answer for."""
    if e.devices:
        return "error"
    return "warning" if report.step in ("import", "start") else "info"


def _advice(e: Evidence, name: str, report: Report) -> str:
    built = built_with(e.libraries).get(name)
    if built is not None and e.driver_cuda is not None and built[0] > e.driver_cuda[0]:
        return f"the driver is too old for its CUDA {dotted(built)}: see that finding"
    if other := re.search(r"module '(\w+)[\w.]*' has no attribute", report.how):
        title = _TITLES[name]
        return f"{title} and {other[1]} are not made for one another here: change one's version"
    return _missing_library(report.how) + _REINSTALL[name]


def _missing_library(said: str) -> str:
    """Names the shared library that the loader did not find."""
    found = re.search(r"\b(lib\w+\.so[.\d]*|\w+64_\w+\.dll)\b", said)
    return f"{found[1]} is missing: " if found else ""


def _fine(e: Evidence, name: str, report: Report) -> Finding:
    facts = report.facts
    did = "ran an empty kernel" if facts.get("ran_on") == "gpu" else "compiles an empty kernel"
    if name == "torch":
        did = f"runs on the {'GPU' if facts.get('ran_on') == 'gpu' else 'CPU'}"
    parts = [f"{_TITLES[name]} {facts.get('version', 'of unknown version')} {did}"]
    if name == "numba" and facts.get("cuda_version"):
        parts.append(f"its CUDA part is numba-cuda {facts['cuda_version']}")
    if name == "numba" and facts.get("is_simulated"):
        parts.append("NUMBA_ENABLE_CUDASIM is set, so its kernels run on the CPU")
    if name == "nvrtc" and facts.get("archs"):
        parts.append(f"the newest chip it knows is {facts['archs'][-1]}")
    return Finding(f"{name}-ok", "info", "; ".join(parts))


def torch_build(e: Evidence) -> Iterator[Finding]:
    """Whether torch was built for CUDA, sees the device, and carries code for it."""
    facts, report = e.libraries["torch"].facts, e.libraries["torch"]
    if not report.is_installed or "version" not in facts:
        return
    tag = f"torch {facts['version']}"
    if not facts.get("cuda"):
        yield _cpu_build(e, tag, facts.get("hip"))
    elif e.devices and not facts.get("is_available"):
        yield Finding(
            "torch-no-device",
            "error",
            f"{tag} is built for CUDA {facts['cuda']}, but sees no device although the driver does",
            "its cases are skipped",
            "compare its CUDA version with the driver's limit above; unset CUDA_VISIBLE_DEVICES",
        )
    elif facts.get("archs"):
        for capability in e.capabilities:
            yield _torch_code(capability, tag, facts["archs"])


def _cpu_build(e: Evidence, tag: str, hip: str | None) -> Finding:
    kind = f"built for ROCm {hip}" if hip else "a CPU build: it has no CUDA in it"
    if not e.devices:
        return Finding("torch-cpu-build", "info", f"{tag} is {kind}", "right for this machine")
    cuda = "cu130" if (e.driver_cuda or (12,))[0] >= 13 else "cu126"
    return Finding(
        "torch-cpu-build",
        "warning",
        f"{tag} is {kind}",
        "torch and Triton cases are skipped, though driver and card are in order",
        f"pip install torch --index-url https://download.pytorch.org/whl/{cuda}",
    )


def _torch_code(capability: Capability, tag: str, archs: list[str]) -> Finding:
    kind, arch = best_code(capability, parse_archs(archs))
    chip = f"compute capability {dotted(capability)}"
    severity: Severity = {"impossible": "error", "jit": "warning"}.get(kind, "info")  # type: ignore[assignment]
    says = {
        "native": f"{tag} carries machine code for {chip} ({arch})",
        "relative": f"{tag} runs {arch} code of a relative on {chip}",
        "jit": f"{tag} has only PTX ({arch}) for {chip}; the driver compiles it at first use",
        "impossible": f"{tag} has no code for {chip}; it has {', '.join(archs)}",
    }
    why = {
        "relative": "it is right, but tuned for another chip",
        "jit": "the first calls take seconds to minutes, and kernels are an older chip's",
        "impossible": "the first kernel fails: 'no kernel image is available'",
    }
    do = f"`pymicro readiness` names builds with code for {chip}" if severity != "info" else ""
    return Finding(f"torch-{kind}", severity, says[kind], why.get(kind, ""), do)
