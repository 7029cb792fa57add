"""The tables of stacks.toml: toolkits, torch builds and compilers, and the chips they serve.

Every row has its source; a version that is not in the table is unknown, never guessed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymicro.errors import PymicroError
from pymicro.software.codes import Arch, Capability, parse_archs
from pymicro.software.versions import Version, at_least, dotted, parse

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit.

    Attributes:
        driver: the driver that came with it, None where no source says.
        ptx: the PTX version that its compilers write.
        archs: machine code it can make, without the suffixes `a` and `f`.
    """

    version: Version
    driver: Version | None
    ptx: Version
    archs: tuple[Arch, ...]
    sources: tuple[str, ...]
    note: str = ""

    @property
    def first(self) -> Capability:
        return min(a.capability for a in self.archs)

    @property
    def newest(self) -> Capability:
        return max(a.capability for a in self.archs)


@dataclass(frozen=True)
class TorchBuild:
    """The wheels of one torch release for one CUDA version."""

    version: Version
    cuda: Version
    archs: tuple[Arch, ...]
    sources: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Compiler:
    """A library that compiles for the chip at hand: by its own assembler from `first` to
    `newest`, or by the NVRTC of one of `toolkits`."""

    name: str
    version: Version
    first: Capability | None
    newest: Capability | None
    toolkits: tuple[Version, ...]
    sources: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Stacks:
    """All tables, oldest version first."""

    toolkits: tuple[Toolkit, ...]
    torch: tuple[TorchBuild, ...]
    compilers: tuple[Compiler, ...]
    drivers: tuple[tuple[int, Version], ...]

    def toolkit(self, version: Version) -> Toolkit | None:
        return next((t for t in self.toolkits if t.version == version[:2]), None)

    def torch_builds(self, version: Version) -> tuple[TorchBuild, ...]:
        """The builds of a release, patch releases included."""
        return tuple(b for b in self.torch if b.version == version[:2])

    def compiler(self, name: str, version: Version) -> Compiler | None:
        """The row whose version says as much as is known: 14 serves 14.2."""
        rows = [c for c in self.compilers if c.name == name]
        return next((c for c in rows if version[: len(c.version)] == c.version), None)

    def cuda_of_ptx(self, ptx: Version) -> Version | None:
        """The first CUDA version whose driver reads this PTX version; None if newer than all."""
        return next((t.version for t in self.toolkits if at_least(t.ptx, ptx)), None)

    def driver_for(self, cuda: Version) -> Version | None:
        """The first driver that runs code built with this CUDA version, PTX apart."""
        return next((first for major, first in self.drivers if major == cuda[0]), None)


def reads_ptx(driver_cuda: Version, ptx: Version, stacks: Stacks | None = None) -> bool | None:
    """Whether a driver that reports `driver_cuda` compiles PTX of this version.

    None where the PTX version is newer than the table. Machine code does not have this limit.
    """
    needed = (stacks or load()).cuda_of_ptx(ptx)
    return None if needed is None else at_least(driver_cuda, needed)


@functools.cache
def load(file: Path = DATA / "stacks.toml") -> Stacks:
    """Read the tables.

    Raises:
        PymicroError: the file is damaged; names the row.
    """
    import tomllib

    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        return Stacks(
            tuple(sorted(_rows(tables["toolkit"], _toolkits), key=lambda t: t.version)),
            tuple(sorted(_rows(tables["torch"], _torch), key=lambda b: (b.version, b.cuda))),
            tuple(sorted(_rows(tables["compiler"], _compilers), key=lambda c: c.version)),
            tuple((row["cuda_major"], _version(row["first"])) for row in tables["driver"]),
        )
    except KeyError as error:
        raise PymicroError(f"{file.name}: a row has no {error}.") from error


def _rows(rows: list[dict[str, Any]], read: Any) -> Iterator[Any]:
    for row in rows:
        yield from read(row)


def _version(text: str) -> Version:
    version = parse(text)
    if version is None:
        raise PymicroError(f"stacks.toml: '{text}' is no version.")
    return version


def _each(value: Any, count: int) -> list[str]:
    """One value for all versions of a row, or one each."""
    return [value] * count if isinstance(value, str) else list(value)


def _common(row: dict[str, Any]) -> dict[str, Any]:
    return {"sources": tuple(row["sources"]), "note": row.get("note", "")}


def _toolkits(row: dict[str, Any]) -> Iterator[Toolkit]:
    count, archs = len(row["versions"]), parse_archs(row["archs"])
    drivers, ptx = _each(row["driver"], count), _each(row["ptx"], count)
    for version, driver, ptx_version in zip(row["versions"], drivers, ptx, strict=True):
        yield Toolkit(
            _version(version), parse(driver), _version(ptx_version), archs, **_common(row)
        )


def _torch(row: dict[str, Any]) -> Iterator[TorchBuild]:
    archs = parse_archs(row["archs"])
    for version in row["versions"]:
        for cuda in _each(row["cuda"], 1):
            yield TorchBuild(_version(version), _version(cuda), archs, **_common(row))


def _capability(text: str | None) -> Capability | None:
    return None if text is None else parse_archs([text])[0].capability


def _compilers(row: dict[str, Any]) -> Iterator[Compiler]:
    for version in row["versions"]:
        yield Compiler(
            row["name"],
            _version(version),
            _capability(row.get("first")),
            _capability(row.get("newest")),
            tuple(map(_version, row.get("toolkits", ()))),
            **_common(row),
        )


def known(versions: Iterator[Version] | tuple[Version, ...]) -> str:
    """Versions in words, for messages."""
    return ", ".join(map(dotted, sorted(set(versions))))
