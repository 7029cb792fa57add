"""What to measure so that a job's time can be told: its very products, streams and launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pymicro.analysis.cases import Case
from pymicro.analysis.hottest import products
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.work import Product

# Layouts that `pymicro gemm` has.
_LAYOUTS = ("nt", "nn", "tn")
# Checking a batched product costs the host a reference each.
_MOST_BATCH = 512
# Products beyond this share of all products' time change nothing.
_ENOUGH = 0.98


@dataclass(frozen=True)
class Wanted:
    """One point to measure: values of a benchmark's axes, who runs it, in which format.

    `share` is the part of the job's products that it stands for.
    """

    benchmark: str
    backend: str
    dtype: str
    given: Mapping[str, Any] = field(default_factory=dict)
    share: float = 0.0


def wanted(case: Case, p: Primitives | None, kind: str = "cuda") -> Iterator[Wanted]:
    """Every point, products first, those that take longest in front."""
    covered = 0.0
    for path, shape, share in products(case, p):
        if covered > _ENOUGH:
            break
        covered += share
        if shape.layout in _LAYOUTS and shape.batch <= _MOST_BATCH:
            yield Wanted("gemm", "torch", path, _axes(shape), share)
    yield from _rates(case, p, kind)
    sizes = (2**20, 2**23, 2**25, 2**27, 2**29) if kind == "cuda" else (2**26, 2**28)
    for size in sizes:
        yield Wanted("bandwidth", "torch", "fp32", {"op": "copy", "size": size})
    if kind == "cuda":
        yield Wanted("launch", "torch", "int32", {"call": "args3", "side": "device"})
        yield Wanted("launch", "torch", "int32", {"call": "args3", "side": "host"})
        for size in (2**12, 2**26):
            given = {"path": "h2d", "host": "pinned", "size": size}
            yield Wanted("transfer", "cuda", "int32", given)


def _axes(shape: Product) -> dict[str, Any]:
    several = {"batch": shape.batch} if shape.batch > 1 else {}
    return {"m": shape.m, "n": shape.n, "k": shape.k, "layout": shape.layout, **several}


def _rates(case: Case, p: Primitives | None, kind: str) -> Iterator[Wanted]:
    """A large product in each format of the job, for the shapes that are left to the model."""
    for path in dict.fromkeys(path for path, _, _ in products(case, p)):
        side = 4096 if kind == "cuda" else 2048
        yield Wanted("gemm", "torch", path, {"m": side, "n": side, "k": side, "layout": "nt"})


def covered(case: Case, p: Primitives) -> float:
    """Share of the products' time that is measured at its very shape."""
    return sum(s for path, shape, s in products(case, p) if (path, shape) in p.product_s)
