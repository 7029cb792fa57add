"""NVIDIA's monitor program (nvidia-smi) as text: for where the NVML binding cannot be used.

Its index ignores CUDA_VISIBLE_DEVICES, so rows are told apart by UUID.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pymicro.probes.child import find_tool, run_tool

FIELDS = ("uuid", "name", "driver_version", "power.limit", "clocks.sm", "fan.speed")
# What the program prints in place of a value, with or without brackets.
_NOTHING = re.compile(
    r"\[?\s*(n/?a|not (supported|available|found)|unknown( error)?|err!?|none|requested "
    r"functionality has been deprecated|gpu (is lost|requires reset)|insufficient permissions)?"
    r"\s*\]?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z%/]*)")
_MISMATCH = re.compile(r"driver/library version mismatch", re.IGNORECASE)


def text(cell: str) -> str | None:
    """A cell's text, None where the program says that there is none."""
    return None if _NOTHING.fullmatch(cell.strip()) else cell.strip()


def number(cell: str) -> float | None:
    """A cell's number without its unit: `12.5 W`, `97 %`, `[N/A]`.

    None for every way of saying nothing, and for what is no number with a point: a decimal comma
    is another locale's output, and guessing would be off by powers of ten.
    """
    found = _NUMBER.fullmatch(text(cell) or "")
    return None if found is None else float(found[1])


@dataclass(frozen=True)
class Monitor:
    """What the program said. `trouble` is empty or one of `absent`, `mismatch`, `no driver`,
    `hangs`, `fails`; `rows` hold one cell a field, as text or None."""

    trouble: str = ""
    said: str = ""
    rows: tuple[Mapping[str, str | None], ...] = ()


def ask_monitor(env: Mapping[str, str], timeout_s: float = 10.0) -> Monitor:
    """Run the program once."""
    tool = find_tool("nvidia-smi", env)
    if tool is None:
        return Monitor("absent")
    command = [tool, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    said = run_tool(command, env, timeout_s)
    words = (said.out + said.err).strip()
    if said.code is None:
        return Monitor("hangs" if "answer" in said.why else "fails", said.why)
    if said.code == 18 or _MISMATCH.search(words):
        return Monitor("mismatch", words)
    if said.code == 9:
        return Monitor("no driver", words)
    if said.code != 0:
        return Monitor("fails", words or f"exit code {said.code}")
    return Monitor(rows=tuple(_rows(said.out)))


def _rows(out: str) -> list[dict[str, str | None]]:
    rows = csv.reader(io.StringIO(out), skipinitialspace=True)
    return [dict(zip(FIELDS, map(text, row), strict=False)) for row in rows if row]
