"""What `readiness --measure` runs: cases and questions for probes, as values. Nothing runs here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from pymicro.analysis import cases
from pymicro.analysis.hottest import Attention, Product, attentions, hottest
from pymicro.benchmark import Case
from pymicro.workloads.jobs import EXPERIMENTS

PARTS = ("library", "generations", "flags", "attention", "compile")
# Formats in which the jobs' products are asked for, those that torch uses unasked first.
FORMATS = ("fp32", "tf32", "fp16", "bf16", "fp8_e4m3", "int8")
GENERATION_FORMATS = ("fp16", "bf16", "tf32", "int8", "fp32", "fp64")
# Paths by the first chip that they are written for.
PATHS = ("sm61", "sm70", "sm75", "sm80", "sm89", "sm90")
_CUBE = 4096
_MOVED_BYTES = 2**30
# Others than the vendor's own library, and which of their variants; the slow ones only cost time.
RIVALS = {
    "cuda": ("fastest", "promoted"),
    "triton": ("tiled", "descriptor"),
    "cupy": ("raw",),
}
# Shapes for the switches: large, a product of fine-tuning, and one whose long sum is often split.
_FLAG_SHAPES = ((4096, 4096, 4096), (4096, 3072, 768), (768, 768, 4096))


@dataclass(frozen=True)
class Step:
    """One run of cases of a benchmark; `study` is what its results are kept under.

    Attributes:
        rest_s: idle time before each burst; products of jobs are too small to warm a card.
        budget_s: for sampling all cases, where they take turns and have no bursts.
    """

    benchmark: str
    study: str
    cases: tuple[Case, ...]
    rest_s: float = 0.3
    budget_s: float = 4.0


@cache
def hot_products(most: int) -> tuple[Product, ...]:
    """The single products that weigh most in the published experiments, dearest first."""
    jobs = [[cases.case(m, **given) for given in each] for m, each in EXPERIMENTS.items()]
    return tuple(hottest(jobs, most, lambda product: product.batch == 1))


def library(
    formats: Sequence[str], offered: Mapping[tuple[str, str], Sequence[str]], most: int
) -> Iterator[Step]:
    """The jobs' hottest products in each format, by the vendor's library and by all others.

    `offered` has the variants of each backend and format on this device.
    """
    for dtype in formats:
        found: list[Case] = []
        for product in hot_products(most):
            params = gemm_params(product.m, product.n, product.k, product.layout)
            found.append(Case("gemm", "torch", "matmul", dtype, params))
            for backend, names in RIVALS.items():
                here = offered.get((backend, dtype), ())
                found += [Case("gemm", backend, v, dtype, params) for v in names if v in here]
        yield Step("gemm", "library", tuple(found), rest_s=0.05)


def profiled(formats: Sequence[str], most: int) -> list[tuple[str, int, int, int, str]]:
    """The same products for the profiler."""
    return [(d, p.m, p.n, p.k, p.layout) for d in formats for p in hot_products(most)]


def generations(formats: Sequence[str], sms: int) -> Iterator[Step]:
    """The same product by the kernel of each generation; then as machine code and as PTX."""
    by_path = [
        Case("gemm", "cuda", "fastest", dtype, gemm_params(_CUBE, _CUBE, _CUBE, "nt", path))
        for dtype in formats
        for path in PATHS
    ]
    yield Step("gemm", "generations", tuple(by_path))
    moved = {"size": _MOVED_BYTES, "level": "memory", "access": "sequential", "stride": 8}
    moves = [
        Case("bandwidth", "cuda", path, "fp32", {"op": op, **moved, "sms": sms})
        for op in ("copy", "read")
        for path in ("sm75", "sm90")
    ]
    yield Step("bandwidth", "generations", tuple(moves))
    loaded = [
        Case("gemm", "cuda", code, dtype, gemm_params(_CUBE, _CUBE, _CUBE, "nt", path))
        for dtype, path in (("fp16", "sm75"), ("fp16", "sm80"), ("fp16", "sm90"), ("fp32", "sm80"))
        if dtype in formats
        for code in ("cubin", "ptx")
    ]
    yield Step("gemm", "first use", tuple(loaded))


def gemm_params(m: int, n: int, k: int, layout: str, path: str = "auto") -> dict[str, Any]:
    return {"m": m, "n": n, "k": k, "layout": layout, "path": path}


def attention_shapes() -> list[dict[str, Any]]:
    """The attentions of the published experiments, each once; fine-tuning also with the mask that
    records of unequal length need."""
    jobs = [cases.case(m, **given) for m, each in EXPERIMENTS.items() for given in each[:1]]
    found: dict[Attention, None] = {}
    for case in jobs:
        for one in attentions([case]):
            found[one] = None
            if case.trace.task == "train":
                found[replace(one, has_bias=True)] = None
    return [asdict(one) for one in found]


def flag_shapes() -> list[tuple[int, int, int]]:
    return list(_FLAG_SHAPES)
