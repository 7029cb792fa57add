"""What published sources claim, as data: each claim with its kind, verdicts on cards apart."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymicro.devices.catalogue import DATA
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import UsageError


@dataclass(frozen=True)
class Opinion:
    """A source's word on one use of a card; `reads_as` are the classes that it may mean."""

    says: str
    reads_as: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """One claim; verdicts name `cards` by key and have an opinion on each use."""

    id: str
    says: str
    kind: str
    cards: tuple[str, ...] = ()
    training: Opinion | None = None
    inference: Opinion | None = None

    @property
    def source(self) -> str:
        return self.id.split("-")[0]


@dataclass(frozen=True)
class TableError:
    """A common error of tables of cards; `show` names the figures that lay it open."""

    id: str
    what: str
    cards: tuple[str, ...]
    show: tuple[str, ...]


@dataclass(frozen=True)
class Claims:
    sources: Mapping[str, Mapping[str, str]]
    claims: tuple[Claim, ...]
    errors: tuple[TableError, ...]

    def about(self, key: str) -> Claim | None:
        """The verdict on a card, None where no source gives one."""
        return next((c for c in self.claims if key in c.cards), None)


@functools.cache
def claims(file: Path = DATA / "claims.toml") -> Claims:
    """All claims in the order of the file.

    Raises:
        UsageError: an entry has a missing or unknown key, or no such source.
    """
    import tomllib

    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        read = Claims(
            tables["source"],
            tuple(_claim(row) for row in tables["claim"]),
            tuple(_error(row) for row in tables["error"]),
        )
    except (KeyError, TypeError) as error:
        raise UsageError(f"{file.name}: a missing or unknown key: {error}.") from error
    for claim in read.claims:
        if claim.source not in read.sources:
            raise UsageError(f"{file.name}: claim {claim.id} has no source '{claim.source}'.")
    return read


def _claim(row: Mapping[str, Any]) -> Claim:
    uses = {
        use: Opinion(row[use]["says"], tuple(row[use]["reads_as"]))
        for use in ("training", "inference")
        if use in row
    }
    return Claim(**{**row, **uses, "cards": tuple(row.get("cards", ()))})


def _error(row: Mapping[str, Any]) -> TableError:
    return TableError(**{**row, "cards": tuple(row["cards"]), "show": tuple(row["show"])})


def _sparse(spec: DeviceSpec) -> float | None:
    """Hardware with 2:4 sparsity skips half of the products: twice the dense figure on paper."""
    dense = spec.peak_ops_per_s("fp16_tensor_fp32_acc")
    return 2 * dense if dense and spec.structured_sparsity else None


# The figures that an error may be shown with, each from a row of the catalogue.
FIGURES = {
    "fp16_dense": ("dense", "FLOP/s", lambda s: s.peak_ops_per_s("fp16_tensor_fp32_acc")),
    "fp16_sparse": ("with 2:4 sparsity", "FLOP/s", _sparse),
    "fp16_vector": ("off the tensor cores", "FLOP/s", lambda s: s.peak_ops_per_s("fp16")),
    "fp16_summed_in_fp16": (
        "summed in FP16", "FLOP/s", lambda s: s.peak_ops_per_s("fp16_tensor_fp16_acc")
    ),
    "fp32": ("FP32", "FLOP/s", lambda s: s.peak_ops_per_s("fp32")),
    "memory": ("memory", "GiB", lambda s: s.memory_bytes and s.memory_bytes / 2**30),
    "bandwidth": ("bandwidth", "B/s", lambda s: s.memory_bytes_per_s),
}  # fmt: skip
