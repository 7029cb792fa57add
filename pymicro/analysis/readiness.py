"""How far software serves a chip, layer by layer: from tables for a stack that is named, from what
the probes found for the one that is installed.

Rows that need a measurement (which kernel a library really launches, the library gap, the
generation gap) are rows of the same kind with `profiler` as evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pymicro import probes
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import UsageError, unknown
from pymicro.probes.child import Report
from pymicro.software import faults, stacks
from pymicro.software.codes import Arch, Capability, best_code, parse_archs
from pymicro.software.versions import Version, dotted, of_cuda, parse

RowKind = Literal["native", "relative", "jit", "dropped", "impossible", "unknown", "on", "off"]
Evidence = Literal["binary", "profiler", "probe", "table"]
# From best to worst; `unknown` and the states of flags are no ranks.
_RANKS: tuple[RowKind, ...] = ("native", "relative", "jit", "dropped", "impossible")
LAYERS = ("driver", "cuda", "torch", "triton", "cupy", "numba-cuda")
_ALIASES = {"pytorch": "torch", "numba": "numba-cuda", "toolkit": "cuda"}


@dataclass(frozen=True)
class Row:
    """One layer on one chip.

    Attributes:
        kind: how its code runs there; `dropped`: older versions served the chip; `on`, `off`: a
            flag's state.
        evidence: `binary`: the library's own list of what it carries; `profiler`: what ran;
            `probe`: an empty kernel that compiled or ran; `table`: versions and sources.
    """

    layer: str
    version: str
    kind: RowKind
    evidence: Evidence
    seen: str
    do: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Readiness:
    """All rows for a chip, and the documented faults that hold for it with this software.

    Attributes:
        device, key: the card's name, and its row in the catalogue (empty if it has none).
    """

    device: str
    key: str
    capability: Capability
    rows: tuple[Row, ...]
    faults: tuple[faults.Fault, ...] = ()

    @property
    def verdict(self) -> RowKind:
        """The worst layer's kind; `unknown` where no layer has one."""
        ranks = [_RANKS.index(row.kind) for row in self.rows if row.kind in _RANKS]
        return _RANKS[max(ranks)] if ranks else "unknown"


def parse_stack(words: str) -> dict[str, Version]:
    """Read `torch=2.7,cuda=12.8`.

    Raises:
        UsageError: not of this form, an unknown layer, or no version.
    """
    stack: dict[str, Version] = {}
    for word in words.split(","):
        name, _, value = (part.strip().lower() for part in word.partition("="))
        name, version = _ALIASES.get(name, name), parse(value)
        if name not in LAYERS:
            raise unknown("layer", name, LAYERS)
        if version is None:
            raise UsageError(f"--stack '{word}' has no version; write torch=2.7,cuda=12.8.")
        stack[name] = version
    return stack


def for_stack(spec: DeviceSpec, stack: Mapping[str, Version]) -> Readiness:
    """What the tables say of a card and a set of versions.

    Raises:
        UsageError: a version is not in the tables, or the builds asked for do not exist.
    """
    tables = stacks.load()
    rows: list[Row] = []
    for name in (layer for layer in LAYERS if layer in stack):
        rows += _FROM_TABLES[name](spec, stack, tables)
    kinds = frozenset(row.kind for row in rows)
    found = faults.known_faults(spec.key, spec.capability, stack, kinds)
    return Readiness(spec.name, spec.key, spec.capability, tuple(rows), found)


def _driver_rows(
    spec: DeviceSpec, stack: Mapping[str, Version], tables: stacks.Stacks
) -> Iterator[Row]:
    version = stack["driver"]
    cuda = stack.get("cuda") or parse(spec.cuda_toolkit_first)
    needed = tables.driver_for(cuda) if cuda else None
    if cuda is None or needed is None:
        yield Row("driver", dotted(version), "unknown", "table", "no table row for its CUDA")
    elif version[0] < needed[0]:
        seen = f"older than {dotted(needed)}, the first driver for CUDA {dotted(cuda)}"
        do = f"install driver {dotted(needed)} or newer"
        yield Row("driver", dotted(version), "impossible", "table", seen, do)
    else:
        yield Row("driver", dotted(version), "native", "table", f"serves CUDA {cuda[0]}.x")


def _toolkit(version: Version, tables: stacks.Stacks) -> stacks.Toolkit:
    toolkit = tables.toolkit(version)
    if toolkit is None:
        listed = stacks.known(tuple(t.version for t in tables.toolkits))
        raise UsageError(f"CUDA {dotted(version)} is not in the table; it has {listed}.")
    return toolkit


def _cuda_rows(
    spec: DeviceSpec, stack: Mapping[str, Version], tables: stacks.Stacks
) -> Iterator[Row]:
    toolkit = _toolkit(stack["cuda"], tables)
    yield _by_toolkit("cuda", dotted(toolkit.version), spec, toolkit)
    first = parse(spec.cublas_first_cuda_toolkit)
    if first and first > toolkit.version:
        seen = f"its first version with code for this chip is that of CUDA {dotted(first)}"
        do = f"use CUDA {dotted(first)} or newer"
        yield Row("cublas", dotted(toolkit.version), "unknown", "table", seen, do, spec.sources)


def _by_toolkit(layer: str, version: str, spec: DeviceSpec, toolkit: stacks.Toolkit) -> Row:
    """What the compilers of a toolkit make for a chip: its own code, a relative's, PTX or none."""
    kind, arch = best_code(spec.capability, (*toolkit.archs, Arch(toolkit.newest, is_ptx=True)))
    chip, cuda = dotted(spec.capability), f"CUDA {dotted(toolkit.version)}"
    if kind == "native":
        seen, do = f"{cuda} compiles for {chip}", ""
    elif kind == "impossible":
        seen = f"{cuda} starts at compute capability {dotted(toolkit.first)}"
        last = spec.cuda_toolkit_last
        seen += f": {chip} was dropped" if last else ""
        do = f"use CUDA {last}" if last else f"use another CUDA; the card has {chip}"
        return Row(layer, version, "dropped" if last else kind, "table", seen, do, toolkit.sources)
    else:
        seen = f"{cuda} does not know {chip}; the best is {arch}"
        do = f"use CUDA {spec.cuda_toolkit_first} or newer" if spec.cuda_toolkit_first else ""
    return Row(layer, version, kind, "table", seen, do, toolkit.sources)


def _torch_rows(
    spec: DeviceSpec, stack: Mapping[str, Version], tables: stacks.Stacks
) -> Iterator[Row]:
    version, cuda = stack["torch"], stack.get("cuda")
    builds = tables.torch_builds(version)
    if not builds:
        listed = stacks.known(tuple(b.version for b in tables.torch))
        raise UsageError(f"torch {dotted(version)} is not in the table; it has {listed}.")
    chosen = [b for b in builds if cuda is None or b.cuda == cuda[:2]]
    if not chosen and cuda is not None:
        listed = stacks.known(tuple(b.cuda for b in builds))
        raise UsageError(
            f"no build of torch {dotted(version)} for CUDA {dotted(cuda)} is in the table; "
            f"it has {listed}."
        )
    for build in chosen:
        yield torch_row(
            f"{dotted(version)} for CUDA {dotted(build.cuda)}",
            spec.capability,
            build.archs,
            "table",
            build.sources,
        )


def torch_row(
    version: str,
    capability: Capability,
    archs: tuple[Arch, ...],
    evidence: Evidence,
    sources: tuple[str, ...] = (),
) -> Row:
    """How torch's own kernels run on a chip; its remedy is a build that has better code."""
    kind, arch = best_code(capability, archs)
    chip = dotted(capability)
    seen = {
        "native": f"its kernels have machine code for {chip} ({arch})",
        "relative": f"its kernels run as {arch} code of a relative",
        "jit": f"its kernels are PTX ({arch}), compiled by the driver at first use",
        "impossible": f"its kernels have no code for {chip}: {', '.join(map(str, archs))}",
    }[kind]
    do = "" if kind in ("native", "relative") else _torch_remedy(capability)
    return Row("torch", version, kind, evidence, seen, do, sources)


def _torch_remedy(capability: Capability) -> str:
    """The oldest and the newest build in the table that run well on a chip."""
    good = [
        build
        for build in stacks.load().torch
        if best_code(capability, build.archs)[0] in ("native", "relative")
    ]
    if not good:
        return "no build in the table has machine code for it; build torch from source"
    ends = dict.fromkeys(
        f"torch {dotted(b.version)} for CUDA {dotted(b.cuda)}" for b in (good[0], good[-1])
    )
    return f"builds with code for it: {' to '.join(ends)}"


def _compiler_rows(name: str):
    def rows(
        spec: DeviceSpec, stack: Mapping[str, Version], tables: stacks.Stacks
    ) -> Iterator[Row]:
        version = stack[name]
        row = tables.compiler(name, version)
        if row is None:
            own = tuple(c.version for c in tables.compilers if c.name == name)
            raise UsageError(
                f"{name} {dotted(version)} is not in the table; it has {stacks.known(own)}."
            )
        if row.newest is not None:
            yield _by_range(spec, version, row)
            return
        toolkit = _toolkit(stack.get("cuda") or max(row.toolkits), tables)
        if toolkit.version in row.toolkits:
            yield _by_toolkit(name, dotted(version), spec, toolkit)
        else:
            seen = f"not made for CUDA {dotted(toolkit.version)}"
            do = f"it has {stacks.known(row.toolkits)}"
            yield Row(name, dotted(version), "impossible", "table", seen, do, row.sources)

    return rows


def _by_range(spec: DeviceSpec, version: Version, row: stacks.Compiler) -> Row:
    assert row.first is not None
    assert row.newest is not None
    chip, text = dotted(spec.capability), dotted(version)
    if spec.capability < row.first:
        return _below_support(row, text, spec.capability)
    if spec.capability > row.newest:
        newer = [c for c in stacks.load().compilers if c.name == row.name and c.newest]
        first = next((c for c in newer if c.newest and c.newest >= spec.capability), None)
        do = f"use {row.name} {dotted(first.version)} or newer" if first else ""
        seen = f"its assembler ends at {dotted(row.newest)}"
        return Row(row.name, text, "impossible", "table", seen, do, row.sources)
    seen = f"it compiles for {chip}" + (f"; {row.note}" if row.note else "")
    return Row(row.name, text, "native", "table", seen, "", row.sources)


def _below_support(row: stacks.Compiler, version: str, capability: Capability) -> Row:
    """Its assembler may know the chip; its makers do not promise that kernels work."""
    seen = f"it supports {dotted(row.first)} and newer; {dotted(capability)} may work or not"
    return Row(row.name, version, "unknown", "table", seen, "", row.sources)


_FROM_TABLES = {
    "driver": _driver_rows,
    "cuda": _cuda_rows,
    "torch": _torch_rows,
    "triton": _compiler_rows("triton"),
    "cupy": _compiler_rows("cupy"),
    "numba-cuda": _compiler_rows("numba-cuda"),
}


@dataclass(frozen=True)
class Installed:
    """What the probes found on this machine.

    Attributes:
        libraries: a report of each library.
        assemblers: Triton's assemblers with the architectures each one knows.
        driver: version, and the newest CUDA version that it serves; None without a driver.
        is_here: the chip in question is in this machine, so kernels really ran on it.
    """

    libraries: Mapping[str, Report]
    assemblers: Mapping[str, tuple[Arch, ...]]
    driver: str | None = None
    driver_cuda: Version | None = None
    is_here: bool = False


def installed(e: probes.Evidence, is_here: bool) -> Installed:
    """Ask the probes; imports every library, each in a process of its own."""
    return Installed(e.libraries, e.assemblers, e.driver_branch, e.driver_cuda, is_here)


def for_machine(spec: DeviceSpec, found: Installed) -> Readiness:
    """What the software that is installed carries for a chip."""
    rows = [row for layer in _FROM_PROBES for row in layer(spec.capability, found)]
    software = {name: version for name, version in _versions(found).items() if version is not None}
    kinds = frozenset(row.kind for row in rows)
    known = faults.known_faults(spec.key, spec.capability, software, kinds)
    return Readiness(spec.name, spec.key, spec.capability, tuple(rows), known)


def _versions(found: Installed) -> dict[str, Version | None]:
    facts = {name: report.facts for name, report in found.libraries.items()}
    return {
        "driver": parse(found.driver),
        "cuda": parse(facts["torch"].get("cuda")) or of_cuda(facts["nvrtc"].get("cuda")),
        "torch": parse(facts["torch"].get("version")),
        "triton": parse(facts["triton"].get("version")),
    }


def _installed_driver(capability: Capability, found: Installed) -> Iterator[Row]:
    if found.is_here and found.driver_cuda is not None:
        seen = f"serves CUDA up to {dotted(found.driver_cuda)}"
        yield Row("driver", found.driver or "unknown", "native", "probe", seen)


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
    kind, _ = best_code(capability, (*(a for a in archs if not a.suffix), Arch(newest, True)))
    known = any(a.capability == capability for a in archs)
    kind = "native" if known else "jit" if kind == "jit" else kind
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
        yield Row("torch", version, "impossible", "binary", "a build without CUDA", _torch_remedy(capability))
        return
    if facts.get("archs"):
        yield torch_row(version, capability, parse_archs(facts["archs"]), "binary")
    is_on = facts.get("matmul_precision") in ("high", "medium")
    seen = f"float32 matmul precision is '{facts.get('matmul_precision')}'"
    do = "" if is_on or capability < (8, 0) else "torch.set_float32_matmul_precision('high')"
    yield Row("tf32", version, "on" if is_on else "off", "probe", seen, do)
    for name in ("cudnn", "nccl"):
        if facts.get(name):
            seen = "loaded with torch; its code was not looked at"
            yield Row(name, str(facts[name]), "unknown", "probe", seen)


def _installed_triton(capability: Capability, found: Installed) -> Iterator[Row]:
    report = found.libraries["triton"]
    if report.facts.get("version") is None:
        return
    text, version = report.facts["version"], parse(report.facts["version"])
    rows = [c for c in stacks.load().compilers if c.name == "triton"]
    row = next((c for c in rows if version and version[:2] == c.version), rows[-1])
    archs = tuple(a for known in found.assemblers.values() for a in known)
    if row.first is not None and capability < row.first:
        yield _below_support(row, text, capability)
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
