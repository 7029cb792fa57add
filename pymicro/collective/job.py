"""What is to be timed, as it travels from the command to the processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pymicro.dtypes import DTYPES


@dataclass(frozen=True)
class Job:
    """Attributes:
    kind: `cuda` (NCCL, a GPU a rank) or `cpu` (gloo, a process a rank).
    budget_s: seconds of sampling, all points together.
    """

    kind: str
    operations: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: str
    budget_s: float

    @property
    def backend(self) -> str:
        """The library under torch.distributed."""
        return "nccl" if self.kind == "cuda" else "gloo"

    def points(self, ranks: int) -> Iterator[tuple[str, int]]:
        """Operations with their sizes in bytes, made to divide by elements and ranks."""
        unit = ranks * DTYPES[self.dtype].itemsize_bytes
        for operation in self.operations:
            yield from dict.fromkeys(
                (operation, max(size // unit, 1) * unit) for size in self.sizes
            )

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        told = json.loads(text)
        return cls(**told | {name: tuple(told[name]) for name in ("operations", "sizes")})
