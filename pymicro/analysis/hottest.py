"""Which products and attentions weigh most in jobs, from the operators that their traces hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymicro.analysis.cases import Case
from pymicro.analysis.durations import Clock
from pymicro.analysis.primitives import SHORT_PATHS, Primitives
from pymicro.analysis.work import Product, Work, class_of, short_name
from pymicro.workloads.jobs import sizes_of
from pymicro.workloads.sizes import evaluate
from pymicro.workloads.trace import Operator, Phase, Tensor, pasts_of, runs_of

# Operations for each element moved at which a product is as long in the units as on the bus: the
# median of the catalogue's cards in 16 bits. It ranks where no device is given, so that the order
# is the same everywhere.
RIDGE_FLOP_PER_ELEMENT = 400
# Operators between the two products of an attention that is not fused: scale, bias, mask, softmax.
_BETWEEN = 4


def products(case: Case, p: Primitives | None = None) -> list[tuple[str, Product, float]]:
    """Path, product and its share (0 to 1) of all products of a job, the longest first.

    Shares are of the predicted time; without a device, of operations or elements moved, whichever
    bounds it at the ridge.
    """
    clock = Clock(p, case.config.tf32) if p else None
    weights: Counter[tuple[str, Product]] = Counter()
    for work, times in case.program.calls.items():
        if work.product:
            one = clock.of(work).seconds if clock else weight(work.product)
            weights[_path(work, case, p), work.product] += times * one  # type: ignore[assignment]
    return [(*key, share) for key, share in _shares(weights)]


def _path(work: Work, case: Case, p: Primitives | None) -> str:
    if p:
        return p.path(work.dtype, case.config.tf32)
    return SHORT_PATHS.get(work.dtype, "fp32")


def weight(product: Product) -> float:
    """Elements that it moves, or as many as take as long as its operations."""
    b, m, n, k = product.batch, product.m, product.n, product.k
    return b * max(m * k + n * k + m * n, 2 * m * n * k / RIDGE_FLOP_PER_ELEMENT)


def hottest(
    jobs: Sequence[Sequence[Case]], most: int, wanted: Callable[[Product], bool] = lambda p: True
) -> list[Product]:
    """The products that weigh most in several jobs, dearest first.

    Args:
        jobs: each with its variants; every job weighs the same, and so do a job's variants.
        wanted: of which products alone shares are made.
    """
    weights: Counter[Product] = Counter()
    for variants in jobs:
        for case in variants:
            own = [(product, s) for _, product, s in products(case) if wanted(product)]
            whole = sum(share for _, share in own) * len(variants)
            for product, share in own:
                weights[product] += share / whole  # type: ignore[assignment]
    return [product for product, _ in _shares(weights)[:most]]


def _shares(weights: Mapping[Any, float]) -> list[tuple[Any, float]]:
    whole = sum(weights.values()) or 1.0
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    return [(key, value / whole) for key, value in ranked]


@dataclass(frozen=True)
class Attention:
    """softmax(Q·Kᵀ)·V per head; `has_bias`: a matrix is added, of positions or a mask."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    has_bias: bool

    @property
    def elements(self) -> int:
        """Of the scores, which every way to attention has to go through."""
        return self.batch * self.heads * self.queries * self.keys


def attentions(jobs: Sequence[Case]) -> list[Attention]:
    """Every attention of the jobs' forward passes to several keys, those with most to do first.

    Of decode steps, the longest.
    """
    found: Counter[Attention] = Counter()
    for case in jobs:
        for phase in case.trace.phases:
            pasts = pasts_of(phase, case.program.values)
            values = sizes_of(case.model, case.job, pasts[-1] if pasts else None)
            for one in _attentions(phase, values):
                found[one] += runs_of(phase, values) * one.elements if one.keys > 1 else 0
    return [one for one, elements in found.most_common() if elements]


def _attentions(phase: Phase, values: Mapping[str, int]) -> Iterator[Attention]:
    """Fused ones, and those that are a product, a softmax and another product."""
    for place, operator in enumerate(phase.operators):
        if "backward" in operator.name:
            continue
        if class_of(operator.name) == "attention":
            yield from [_of(operator.reads, len(operator.reads) > 3, values)] * operator.calls
        elif "softmax" in operator.name and len(operator.writes[0].shape) == 4:
            before = phase.operators[max(0, place - _BETWEEN) : place]
            scores = [n for n, o in enumerate(before) if short_name(o.name) == "bmm"]
            if scores:
                yield _unfused(before[scores[-1] :], operator, values)


def _of(heads: Sequence[Tensor], has_bias: bool, values: Mapping[str, int]) -> Attention:
    """Of queries and keys of (batch, heads, length, width)."""
    batch, count, queries, width = (evaluate(size, values) for size in heads[0].shape)
    return Attention(batch, count, queries, evaluate(heads[1].shape[2], values), width, has_bias)


def _unfused(scored: Sequence[Operator], softmax: Operator, values: Mapping[str, int]) -> Attention:
    """The softmax goes over scores of (batch, heads, queries, keys)."""
    batch, count, queries, keys = (evaluate(s, values) for s in softmax.writes[0].shape)
    width = evaluate(scored[0].reads[-2].shape[-1], values)
    has_bias = any(short_name(o.name) in ("add", "add_", "masked_fill") for o in scored[1:])
    return Attention(batch, count, queries, keys, width, has_bias)
