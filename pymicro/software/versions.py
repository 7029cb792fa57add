"""Version numbers as tuples: `13.0.88` is (13, 0, 88), `2.11.0+cu130` is (2, 11, 0)."""

from __future__ import annotations

import re

Version = tuple[int, ...]
_NUMBER = re.compile(r"\d+(?:\.\d+)*")


def parse(text: str | None) -> Version | None:
    """The leading numbers of a version, None where it does not start with one."""
    found = _NUMBER.match((text or "").strip().removeprefix("v"))
    return None if found is None else tuple(map(int, found[0].split(".")))


def of_cuda(number: int | None) -> Version | None:
    """CUDA's own way of counting: 12040 is (12, 4)."""
    return None if not number else (number // 1000, number % 1000 // 10)


def dotted(version: Version | None) -> str:
    return "unknown" if version is None else ".".join(map(str, version))


def at_least(version: Version, wanted: Version) -> bool:
    """Whether `version` is `wanted` or newer; numbers that are not said count as 0."""
    length = max(len(version), len(wanted))
    return _padded(version, length) >= _padded(wanted, length)


def _padded(version: Version, length: int) -> Version:
    return version + (0,) * (length - len(version))
