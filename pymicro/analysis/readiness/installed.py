"""Readiness of a chip for what is installed here, from what the probes found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pymicro import probes
from pymicro.analysis.readiness.rows import (
    Evidence,
    Readiness,
    Row,
    below_support,
    by_toolkit,
    torch_remedy,
    torch_row,
    with_ptx,
)
from pymicro.devices.spec import DeviceSpec
from pymicro.probes.child import Report
from pymicro.probes.driver import built_with
from pymicro.software import faults, stacks
from pymicro.software.codes import Arch, Capability, best_code, parse_archs
from pymicro.software.versions import Version, dotted, of_cuda, parse

_DOCTOR = "`pymicro doctor` says why and what to do"


@dataclass(frozen=True)
class Installed:
    """What the probes found on this machine.

    Attributes:
        libraries: a report of each library.
        assemblers: Triton's assemblers with the architectures each one knows.
        driver: version, and the newest CUDA version that it serves; None without a driver.
        is_here: the chip in question is in this machine, so kernels really ran on it.
        binaries: libraries under torch with the architectures that their files have code for.
    """

    libraries: Mapping[str, Report]
    assemblers: Mapping[str, tuple[Arch, ...]]
    driver: str | None = None
    driver_cuda: Version | None = None
    is_here: bool = False
    binaries: Mapping[str, tuple[Arch, ...]] = field(default_factory=dict)


def installed(e: probes.Evidence, is_here: bool) -> Installed:
    """Ask the probes; imports every library, each in a process of its own."""
    return Installed(e.libraries, e.assemblers, e.driver_branch, e.driver_cuda, is_here, e.binaries)


def for_machine(spec: DeviceSpec, found: Installed) -> Readiness:
    """What the software that is installed carries for a chip."""
    rows = [row for layer in _FROM_PROBES for row in layer(spec.capability, found)]
    rows += _runtime(spec, found)
    rows = [_as_it_ran(row, found) for row in rows] + list(_without_version(rows, found))
    software = {name: version for name, version in _versions(found).items() if version is not None}
    kinds = frozenset(row.kind for row in rows)
    known = faults.known_faults(spec.key, spec.capability, software, kinds)
    return Readiness(spec.name, spec.key, spec.capability, tuple(rows), known)


def _as_it_ran(row: Row, found: Installed) -> Row:
    """What a library carries counts for nothing on a chip where its empty kernel failed."""
    report = found.libraries.get(row.layer)
    if not found.is_here or report is None or report.is_ok:
        return row
    seen = f"{row.seen}, but here it fails at: {report.step}"
    return replace(row, kind="broken", evidence="probe", seen=seen, do=_DOCTOR)


def _without_version(rows: list[Row], found: Installed) -> Iterator[Row]:
    """Libraries that did not live to tell their version; leaving them out would hide them."""
    told = {row.layer for row in rows}
    for name, report in found.libraries.items():
        if report.is_installed and not report.is_ok and name not in told:
            seen = f"ends in {report.ended} at: {report.step}"
            version = str(report.facts.get("version", "unknown"))
            yield Row(name, version, "broken", "probe", seen, _DOCTOR)


def _versions(found: Installed) -> dict[str, Version | None]:
    facts = {name: report.facts for name, report in found.libraries.items()}
    return {
        "driver": parse(found.driver),
        "cuda": parse(facts["torch"].get("cuda")) or of_cuda(facts["nvrtc"].get("cuda")),
        "torch": parse(facts["torch"].get("version")),
        "triton": parse(facts["triton"].get("version")),
    }


def _installed_driver(capability: Capability, found: Installed) -> Iterator[Row]:
    if not found.is_here or found.driver_cuda is None:
        return
    limit = found.driver_cuda
    seen, version = f"serves CUDA up to {dotted(limit)}", found.driver or "unknown"
    newer = {n: v for n, v in built_with(found.libraries).items() if v[0] > limit[0]}
    if not newer:
        yield Row("driver", version, "native", "probe", seen)
        return
    needed = stacks.load().driver_for(max(newer.values()))
    seen += f"; older than {', '.join(f'{n} ({dotted(v)})' for n, v in newer.items())} need"
    do = f"install driver {dotted(needed)} or newer"
    yield Row("driver", version, "impossible", "probe", seen, do)


def _runtime(spec: DeviceSpec, found: Installed) -> Iterator[Row]:
    """The CUDA that torch brings: a runtime has no code for chips, but its toolkit knows some."""
    version = parse(found.libraries["torch"].facts.get("cuda"))
    toolkit = stacks.load().toolkit(version) if version else None
    if toolkit is not None:
        row = by_toolkit("cuda", dotted(toolkit.version), spec, toolkit)
        yield replace(row, seen=f"the runtime of torch; {row.seen}")


def _installed_nvrtc(capability: Capability, found: Installed) -> Iterator[Row]:
    facts = found.libraries["nvrtc"].facts
    if facts.get("archs"):
        archs = parse_archs(facts["archs"])
        yield _compiled_row("nvrtc", facts.get("version"), capability, archs, "binary")


def _compiled_row(
    layer: str,
    version: str | None,
    capability: Capability,
    archs: tuple[Arch, ...],
    evidence: Evidence,
) -> Row:
    """Code that is compiled at first use: native if the compiler knows the chip by name."""
    newest = max(a.capability for a in archs)
    kind, _ = best_code(capability, with_ptx(archs))
    known = kind == "native"
    ends = f"{dotted(min(a.capability for a in archs))} to {dotted(newest)}"
    seen = f"compiles for {dotted(capability)}" if known else f"knows {ends} only"
    do = "" if known else "install a version that knows this chip"
    return Row(layer, version or "unknown", kind, evidence, seen, do)


def _installed_torch(capability: Capability, found: Installed) -> Iterator[Row]:
    facts = found.libraries["torch"].facts
    version = facts.get("version")
    if version is None:
        return
    if not facts.get("cuda"):
        yield Row(
            "torch",
            version,
            "impossible",
            "binary",
            "a build without CUDA",
            torch_remedy(capability),
        )
        return
    if facts.get("archs"):
        yield torch_row(version, capability, parse_archs(facts["archs"]), "binary")
    is_on = facts.get("matmul_precision") in ("high", "medium")
    seen = f"float32 matmul precision is '{facts.get('matmul_precision')}'"
    do = "" if is_on or capability < (8, 0) else "torch.set_float32_matmul_precision('high')"
    yield Row("tf32", version, "on" if is_on else "off", "probe", seen, do)
    for name in ("cublas", "cudnn", "nccl"):
        if facts.get(name) or name in found.binaries:
            version = _spelled(str(facts.get(name) or "unknown"))
            yield _binary_row(name, version, capability, found.binaries.get(name, ()))


def _spelled(version: str) -> str:
    """cuDNN counts 91900 for 9.19.0."""
    number = int(version) if version.isdecimal() else 0
    if number < 10_000:
        return version
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"


def _binary_row(name: str, version: str, capability: Capability, archs: tuple[Arch, ...]) -> Row:
    """A library by the code that its files carry."""
    if not archs:
        seen = "loaded with torch; its files show no code"
        return Row(name, version, "unknown", "probe", seen)
    kind, arch = best_code(capability, archs)
    chips = ", ".join(map(str, archs))
    if kind == "native":
        seen = f"its files have machine code for {dotted(capability)} ({arch}), and for others"
        return Row(name, version, kind, "binary", seen)
    said = {"relative": f"the nearest is {arch} of a relative", "jit": f"only PTX ({arch}) fits"}
    seen = f"{said.get(kind, f'no code for {dotted(capability)}')}; it has {chips}"
    do = "" if kind == "relative" else torch_remedy(capability)
    return Row(name, version, kind, "binary", seen, do)


def _installed_triton(capability: Capability, found: Installed) -> Iterator[Row]:
    report = found.libraries["triton"]
    if report.facts.get("version") is None:
        return
    text, version = report.facts["version"], parse(report.facts["version"])
    rows = [c for c in stacks.load().compilers if c.name == "triton"]
    row = next((c for c in rows if version and version[:2] == c.version), rows[-1])
    archs = tuple(a for known in found.assemblers.values() for a in known)
    if row.first is not None and capability < row.first:
        yield below_support(row, text, capability)
    elif archs:
        yield _compiled_row("triton", text, capability, archs, "binary")


def _installed_kernels(capability: Capability, found: Installed) -> Iterator[Row]:
    """CuPy and Numba: by the kernel that ran, else by the NVRTC that they loaded."""
    for name in ("cupy", "numba"):
        facts = found.libraries[name].facts
        if facts.get("version") is None:
            continue
        if found.is_here and facts.get("ran_on") == "gpu":
            seen = "ran an empty kernel that was compiled for this chip"
            yield Row(name, facts["version"], "native", "probe", seen)
        elif facts.get("nvrtc"):
            toolkit = stacks.load().toolkit(tuple(facts["nvrtc"]))
            if toolkit is not None:
                yield _compiled_row(name, facts["version"], capability, toolkit.archs, "table")
        else:
            seen = "compiles with the CUDA that it finds when it runs"
            yield Row(name, facts["version"], "unknown", "probe", seen)


_FROM_PROBES = (
    _installed_driver,
    _installed_nvrtc,
    _installed_torch,
    _installed_triton,
    _installed_kernels,
)
