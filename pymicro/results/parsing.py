"""Bytes of a result file to results, keeping what is whole and naming what is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pymicro.errors import UsageError
from pymicro.results.findings import Finding
from pymicro.results.record import SCHEMA, Result

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\0"
# Documents of neighbouring tools, by keys that each has at its top.
_FOREIGN = (
    ("pytest-benchmark", {"machine_info", "benchmarks"}),
    ("Google Benchmark", {"context", "benchmarks"}),
    ("NVBench", {"meta", "devices", "benchmarks"}),
    ("nvbandwidth", {"nvbandwidth"}),
    ("pyperf", {"benchmarks", "version"}),
    ("hyperfine", {"results"}),
)


@dataclass(frozen=True)
class Reading:
    """What a file gave: its whole records in order, and findings on the rest."""

    results: tuple[Result, ...] = ()
    findings: tuple[Finding, ...] = ()


def parse(data: bytes, name: str) -> Reading:
    """Read JSON lines, or one document as `--format json` prints it. `name` is for messages.

    Raises:
        UsageError: JSON of another tool, or a schema that is newer than this version's.
    """
    lines = _Lines(name)
    for number, line in enumerate(data.split(b"\n"), 1):
        lines.add(number, line)
    if not lines.results and lines.damaged:
        document = _loads(data.removeprefix(_BOM).strip(_BLANK))
        if document is not None:
            return Reading(tuple(_from_document(document, name)))
    is_torn = bool(lines.damaged) and not data.endswith(b"\n")
    return Reading(tuple(lines.results), tuple(lines.findings(data.count(b"\n") + 1, is_torn)))


def refusal(head: bytes, name: str) -> str | None:
    """Why nothing may be appended to a file that begins like this; None if it may.

    Damage is no reason: it stays where it is, and reading steps over it.
    """
    head = head.removeprefix(_BOM).lstrip(_BLANK)
    value = _loads(head.split(b"\n")[0].strip(_BLANK))
    if isinstance(value, dict) and isinstance(value.get("schema"), int) and "benchmark" in value:
        return _too_new(value["schema"], name)
    if not head or (value is None and head.startswith(b'{"schema"')):
        return None
    return f"{name} holds something other than pymicro's results; choose another --store."


@dataclass
class _Lines:
    """Collects what the lines of one file give."""

    name: str
    results: list[Result] = field(default_factory=list)
    damaged: dict[int, str] = field(default_factory=dict)
    with_nul: list[int] = field(default_factory=list)

    def add(self, number: int, line: bytes) -> None:
        text = line.strip(_BLANK).removeprefix(_BOM).strip(_BLANK)
        if b"\0" in line:
            self.with_nul.append(number)
        if not text:
            return
        value = _loads(text)
        try:
            if value is None:
                raise ValueError("not JSON")
            self.results.extend(_from_value(value, f"line {number} of {self.name}"))
        except ValueError as error:
            self.damaged[number] = str(error)

    def findings(self, last: int, is_torn: bool) -> Iterator[Finding]:
        kept = f"{len(self.results)} whole results were kept."
        torn = {last} if is_torn and last in self.damaged else set()
        if torn:
            yield Finding(
                "store-torn-line",
                "warning",
                f"line {last} of {self.name} ends in the middle of a record.",
                f"a run was cut off while writing it; {kept}",
            )
        bad = [n for n in self.damaged if n not in torn]
        if bad:
            yield Finding(
                "store-damaged-line",
                "error",
                f"{_numbers(bad)} of {self.name} cannot be read ({self.damaged[bad[0]]}).",
                kept[0].upper() + kept[1:],
                "if the file was edited or copied, restore it from the original.",
            )
        if self.with_nul:
            yield Finding(
                "store-nul-bytes",
                "warning",
                f"{_numbers(self.with_nul)} of {self.name} holds NUL bytes.",
                f"a disk was full or a machine lost power while writing; {kept}",
            )
        if not self.results and not self.damaged:
            yield Finding("store-empty", "warning", f"{self.name} holds no results.")


def _from_value(value: Any, where: str) -> list[Result]:
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int):
        raise ValueError("JSON, but not a result")
    too_new = _too_new(value["schema"], where)
    if too_new:
        raise UsageError(too_new)
    if value["schema"] != SCHEMA:
        raise ValueError(f"schema {value['schema']} never existed")
    if "results" in value:
        return _from_document(value, where)
    return [Result.from_json(value)]


def _from_document(document: Any, name: str) -> list[Result]:
    keys = set(document) if isinstance(document, dict) else set()
    if "schema" not in keys:
        kinds = [kind for kind, marks in _FOREIGN if marks <= keys]
        origin = f"a file of {kinds[0]}" if kinds else "JSON of another kind"
        raise UsageError(f"{name} is {origin}, not pymicro's results.")
    if "results" not in keys:
        try:
            return _from_value(document, name)
        except ValueError as error:
            raise UsageError(f"{name} is JSON, but holds no results of measuring.") from error
    too_new = _too_new(document["schema"], name)
    if too_new:
        raise UsageError(too_new)
    try:
        # A document's results may leave the schema to the document.
        return [Result.from_json(entry) for entry in document["results"]]
    except (TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"{name} holds a result that cannot be read: {error}.") from error


def _too_new(schema: Any, where: str) -> str | None:
    if isinstance(schema, int) and schema <= SCHEMA:
        return None
    return f"{where} has schema {schema}; this pymicro reads up to {SCHEMA}: update pymicro-gpu."


def _loads(text: bytes) -> Any:
    """The JSON value, None if it is none (or `null`, which is no result either)."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _numbers(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
    return f"lines {', '.join(map(str, lines[:5]))}{more}"
