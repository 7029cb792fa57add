"""A finding: something seen that the user should know, why it matters and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        code: a stable word for programs, like `store-torn-line`.
        seen: what was seen, with its numbers.
        why: why it matters.
        do: what to try.
    """

    code: str
    severity: Severity
    seen: str
    why: str = ""
    do: str = ""

    def __post_init__(self) -> None:
        if self.severity not in get_args(Severity):
            raise ValueError(f"severity {self.severity!r} is none of {get_args(Severity)}")
        if not (self.code and self.seen):
            raise ValueError("a finding needs a code and what was seen")

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """The inverse of `to_json`; keys of other versions are left out."""
        return cls(**{k: v for k, v in document.items() if k in cls.__dataclass_fields__})
