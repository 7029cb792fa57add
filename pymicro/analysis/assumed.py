"""What is assumed where nobody's figures tell, from assumptions.toml: never a bare number."""

from __future__ import annotations

import functools
from typing import Any

from pymicro.analysis.values import Value
from pymicro.devices.catalogue import DATA


@functools.cache
def _tables() -> dict[str, Any]:
    import tomllib

    return tomllib.loads((DATA / "assumptions.toml").read_text(encoding="utf-8"))


def figure(name: str, factor: float = 1.0) -> Value:
    """An assumed figure with its interval, times `factor`; its source says what it rests on."""
    row = _tables()["figures"][name]
    value, low, high = (factor * x for x in row["value"])
    return Value(value, low, high, f"assumed: {row['why']}", "assumed")


@functools.cache
def number(name: str) -> float:
    """An assumed number."""
    return float(_tables()["numbers"][name]["value"])
