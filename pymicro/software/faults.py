"""The dated list of known faults: which of them hold for a card and a set of software.

Data in, rows out; how a fault bears on a job is for `analysis` to say.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pymicro.errors import PymicroError
from pymicro.software.codes import KINDS, Capability, parse_archs
from pymicro.software.stacks import DATA
from pymicro.software.versions import Version, at_least, parse

_EVIDENCE = ("confirmed", "reported", "inferred", "unsettled")


@dataclass(frozen=True)
class Range:
    """Versions from `first` on (all, if None) up to but not including `until`."""

    first: Version | None = None
    until: Version | None = None

    def __contains__(self, version: Version) -> bool:
        if self.first is not None and not at_least(version, self.first):
            return False
        return self.until is None or not at_least(version, self.until)


@dataclass(frozen=True)
class Fault:
    """One documented fault.

    Attributes:
        dated: when it was seen, as `2025-06`; empty where the source does not say.
        only_if: what else must be so, in words.
        devices, capabilities, code_kinds: where it holds; what is empty does not restrict.
        software: name -> versions that have it. All named must be in range.
        affects: words for what suffers: formats, operations, `start`, `clock`.
        evidence: confirmed, reported, inferred or unsettled.
    """

    id: str
    seen: str
    cause: str
    do: str
    evidence: str
    sources: tuple[str, ...]
    affects: tuple[str, ...]
    dated: str = ""
    only_if: str = ""
    devices: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    code_kinds: tuple[str, ...] = ()
    software: Mapping[str, Range] = field(default_factory=dict)


def known_faults(
    device_key: str,
    capability: Capability,
    software: Mapping[str, Version],
    code_kinds: frozenset[str] = frozenset(),
    faults: tuple[Fault, ...] | None = None,
) -> tuple[Fault, ...]:
    """The faults that hold for this card with this software.

    A fault of software that is not named in `software` is left out: nothing is known of it.
    """

    def holds(fault: Fault) -> bool:
        named = all(n in software and software[n] in r for n, r in fault.software.items())
        by_card = not fault.devices or device_key in fault.devices
        by_chip = not fault.capabilities or capability in fault.capabilities
        by_code = not fault.code_kinds or bool(code_kinds & set(fault.code_kinds))
        return named and by_card and by_chip and by_code

    return tuple(f for f in (load() if faults is None else faults) if holds(f))


@functools.cache
def load(file: Path = DATA / "faults.toml") -> tuple[Fault, ...]:
    """Read the list.

    Raises:
        PymicroError: a row is incomplete or uses a word that is none of ours; names the row.
    """
    import tomllib

    rows = tomllib.loads(file.read_text(encoding="utf-8"))["fault"]
    faults = tuple(_read(file.name, row) for row in rows)
    ids = [f.id for f in faults]
    if twice := {i for i in ids if ids.count(i) > 1}:
        raise PymicroError(f"{file.name}: '{min(twice)}' is there twice.")
    return faults


def _read(name: str, row: dict[str, Any]) -> Fault:
    ranges = {
        library: Range(parse(r.get("from")), parse(r.get("until")))
        for library, r in row.get("software", {}).items()
    }
    lists = ("sources", "affects", "devices", "code_kinds")
    values = row | {key: tuple(row.get(key, ())) for key in lists}
    values["capabilities"] = tuple(a.capability for a in parse_archs(row.get("capabilities", ())))
    values["software"] = MappingProxyType(ranges)
    try:
        fault = Fault(**values)
    except TypeError as error:
        raise PymicroError(f"{name}, '{row.get('id')}': {error}.") from error
    known = fault.evidence in _EVIDENCE and set(fault.code_kinds) <= set(KINDS)
    if not known or not fault.sources:
        raise PymicroError(f"{name}, '{fault.id}': no source, or an unknown word.")
    return fault
