"""A row for a layer on a chip, and the rules that tables and probes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pymicro.analysis.readiness.values import Measured
from pymicro.devices.spec import DeviceSpec
from pymicro.software import faults, stacks
from pymicro.software.codes import Arch, Capability, best_code
from pymicro.software.versions import dotted

RowKind = Literal[
    "native", "relative", "jit", "dropped", "impossible", "broken", "older", "unavailable",
    "unknown", "on", "off",
]  # fmt: skip
Evidence = Literal["binary", "profiler", "probe", "table", "none"]
# From best to worst; the others are no ranks: they say nothing of the code for a chip.
_BASE = ("driver", "cuda", "nvrtc", "torch")
_WORDS = {"broken": "broken here", "older": "kernels of an earlier generation"}
_RANKS: tuple[RowKind, ...] = ("native", "relative", "jit", "dropped", "impossible")
_RUNS = ("native", "relative", "jit")


@dataclass(frozen=True)
class Row:
    """One layer on one chip.

    Attributes:
        kind: how its code runs there; `dropped`: older versions served the chip; `broken`: it
            fails here, whatever it carries; `older`: native code of kernels written for an earlier
            generation; `unavailable`: nothing here serves it; `on`, `off`: a flag's state.
        evidence: `binary`: the library's own list of what it carries; `profiler`: what ran;
            `probe`: an empty kernel that compiled or ran; `table`: versions and sources; `none`:
            it was not looked at, and the row says how to.
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
        measured: what the store has of it.
    """

    device: str
    key: str
    capability: Capability
    rows: tuple[Row, ...]
    faults: tuple[faults.Fault, ...] = ()
    measured: Measured = field(default_factory=Measured)

    @property
    def verdict(self) -> RowKind:
        """The worst kind of the layers that all else rests on, or of all if none is known.

        One library that is broken or lacks code takes down what uses it, not the card.
        """
        told = [r for r in self.rows if r.evidence != "profiler"]  # Else all carried code that ran.
        for rows in ([r for r in told if r.layer in _BASE], told):
            ranks = [_RANKS.index(row.kind) for row in rows if row.kind in _RANKS]
            if ranks:
                return _RANKS[max(ranks)]
        return "unknown"

    @property
    def score(self) -> tuple[int, int]:
        """How many layers run code of this chip's own, of how many that carry code."""
        kinds = [row.kind for row in self.rows if row.kind in (*_RANKS, "broken", "older")]
        return kinds.count("native"), len(kinds)

    @property
    def headline(self) -> str:
        """The verdict with what follows from it, and by name every layer that is worse off."""
        worse: dict[str, list[str]] = {}
        verdict = self.verdict
        told = str(verdict)
        if verdict == "dropped":
            told += next((f"; {r.do}" for r in self.rows if r.kind == verdict and r.do), "")
        elif verdict in _RUNS and any(not fault.only_if for fault in self.faults):
            told += ", with these known faults"
        for row in self.rows:
            ranks = {row.kind, verdict} <= set(_RANKS)
            lower = ranks and _RANKS.index(row.kind) > _RANKS.index(verdict)
            # Of the ways to attention, only the one that is taken unasked.
            older = row.kind == "older" and row.layer.startswith(("gemm", "attention default"))
            if row.kind == "broken" or older or lower:
                worse.setdefault(_WORDS.get(row.kind, row.kind), []).append(row.layer)
        ends = (f"{word}: {', '.join(layers)}" for word, layers in worse.items())
        return "; ".join((told, *ends))


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
    do = "" if kind in ("native", "relative") else torch_remedy(capability)
    return Row("torch", version, kind, evidence, seen, do, sources)


def torch_remedy(capability: Capability) -> str:
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


def with_ptx(archs: tuple[Arch, ...]) -> tuple[Arch, ...]:
    """What a compiler can make: machine code and PTX for each plain architecture it knows."""
    plain = tuple(a for a in archs if not a.suffix)
    return (*archs, *(Arch(a.capability, is_ptx=True) for a in plain))


def by_toolkit(layer: str, version: str, spec: DeviceSpec, toolkit: stacks.Toolkit) -> Row:
    """What the compilers of a toolkit make for a chip: its own code, a relative's, PTX or none."""
    kind, arch = best_code(spec.capability, with_ptx(toolkit.archs))
    chip, cuda = dotted(spec.capability), f"CUDA {dotted(toolkit.version)}"
    if kind == "native":
        seen, do = f"{cuda} compiles for {chip}", ""
    elif kind == "impossible":
        seen = f"{cuda} starts at compute capability {dotted(toolkit.first)}"
        last = spec.cuda_toolkit_last
        seen += f": {chip} was dropped" if last else ""
        do = f"use another CUDA; the card has {chip}"
        if last:
            do = f"use {last}" if layer == "cuda" else f"use CUDA {last}"
        return Row(layer, version, "dropped" if last else kind, "table", seen, do, toolkit.sources)
    else:
        seen = f"{cuda} does not know {chip}; the best is {arch}"
        do = f"use CUDA {spec.cuda_toolkit_first} or newer" if spec.cuda_toolkit_first else ""
    return Row(layer, version, kind, "table", seen, do, toolkit.sources)


def below_support(row: stacks.Compiler, version: str, capability: Capability) -> Row:
    """Its assembler may know the chip; its makers do not promise that kernels work."""
    seen = f"it supports {dotted(row.first)} and newer; {dotted(capability)} may work or not"
    return Row(row.name, version, "unknown", "table", seen, "", row.sources)
