"""Readiness of a card for versions that are named: tables only, so it needs no machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from pymicro.analysis.readiness.rows import Readiness, Row, below_support, by_toolkit, torch_row
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import UsageError, unknown
from pymicro.software import faults, stacks
from pymicro.software.versions import Version, dotted, parse

LAYERS = ("driver", "cuda", "torch", "triton", "cupy", "numba-cuda")
_ALIASES = {"pytorch": "torch", "numba": "numba-cuda", "toolkit": "cuda"}


_VERSION = re.compile(r"v?\d+[\w.+-]*")


def parse_stack(words: str) -> dict[str, Version]:
    """Read `torch=2.7,cuda=12.8`.

    Raises:
        UsageError: not of this form, an unknown layer, or no version.
    """
    stack: dict[str, Version] = {}
    for word in words.split(","):
        name, _, value = (part.strip().lower() for part in word.partition("="))
        name = _ALIASES.get(name, name)
        version = parse(value) if _VERSION.fullmatch(value) else None
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
    yield by_toolkit("cuda", dotted(toolkit.version), spec, toolkit)
    first = parse(spec.cublas_first_cuda_toolkit)
    if first and first > toolkit.version:
        seen = f"its first version with code for this chip is that of CUDA {dotted(first)}"
        do = f"use CUDA {dotted(first)} or newer"
        yield Row("cublas", dotted(toolkit.version), "unknown", "table", seen, do, spec.sources)


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


Table = Callable[[DeviceSpec, Mapping[str, Version], stacks.Stacks], Iterator[Row]]


def _compiler_rows(name: str) -> Table:
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
            yield by_toolkit(name, dotted(version), spec, toolkit)
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
        return below_support(row, text, spec.capability)
    if spec.capability > row.newest:
        newer = [c for c in stacks.load().compilers if c.name == row.name and c.newest]
        first = next((c for c in newer if c.newest and c.newest >= spec.capability), None)
        do = f"use {row.name} {dotted(first.version)} or newer" if first else ""
        seen = f"its assembler ends at {dotted(row.newest)}"
        return Row(row.name, text, "impossible", "table", seen, do, row.sources)
    seen = f"it compiles for {chip}" + (f"; {row.note}" if row.note else "")
    return Row(row.name, text, "native", "table", seen, "", row.sources)


_FROM_TABLES: dict[str, Table] = {
    "driver": _driver_rows,
    "cuda": _cuda_rows,
    "torch": _torch_rows,
    "triton": _compiler_rows("triton"),
    "cupy": _compiler_rows("cupy"),
    "numba-cuda": _compiler_rows("numba-cuda"),
}
