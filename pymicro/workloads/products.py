"""The matrix products and attentions of the two standard jobs, from the models' configurations.

Sizes follow from what the models' makers publish: T5-large, https://huggingface.co/t5-large (1024
wide, 4096 inside, 16 heads of 64, 24 layers each side, 32128 words); DistilBERT,
https://huggingface.co/distilbert-base-uncased (768 wide, 3072 inside, 12 heads of 64, 6 layers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# T5 reads 512 tokens of an article and writes about 100 of a summary. Fine-tuning: 32 records.
_READ, _WRITTEN = 512, 100
_RECORDS, _LENGTH = 32, 128
# FLOP per byte at which a product is as long in the units as on the bus: 153 on an A100 SXM 40GB,
# 295 on an H100 SXM, in FP16 by their data sheets. For ranking only.
_RIDGE_FLOP_PER_BYTE = 200


@dataclass(frozen=True)
class Product:
    """C[m,n] = A[m,k] B; `layout` as in the benchmark gemm, `calls` in one run of its job.

    A weight's gradient, where both operands lie along m and n, stands as `nt` of its sizes.
    """

    m: int
    n: int
    k: int
    layout: str
    calls: int
    job: str

    @property
    def cost(self) -> float:
        """Bytes of FP16 moved by all calls, operations counted at the ridge."""
        moved = 2 * (self.m * self.k + self.n * self.k + self.m * self.n)
        return self.calls * (moved + 2 * self.m * self.n * self.k / _RIDGE_FLOP_PER_BYTE)


@dataclass(frozen=True)
class Attention:
    """softmax(Q·Kᵀ)·V per head; `has_bias`: a matrix is added, T5's positions or a mask."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    has_bias: bool
    job: str

    @property
    def flop(self) -> int:
        return 4 * self.batch * self.heads * self.queries * self.keys * self.width


def t5_large(batch: int) -> Iterator[Product]:
    """Summarising once with greedy decoding, at a batch of articles."""
    job, rows = f"T5-large generate, batch {batch}", batch * _READ
    inner = ((4096, 1024), (1024, 4096))
    # Encoder: Q, K, V, O of 24 layers; decoder: K and V of the article, once.
    yield Product(rows, 1024, 1024, "nt", 24 * 4 + 24 * 2, job)
    yield from (Product(rows, n, k, "nt", 24, job) for n, k in inner)
    # A token: Q, K, V, O of its own attention, Q and O of the article's.
    yield Product(batch, 1024, 1024, "nt", _WRITTEN * 24 * 6, job)
    yield from (Product(batch, n, k, "nt", _WRITTEN * 24, job) for n, k in inner)
    yield Product(batch, 32128, 1024, "nt", _WRITTEN, job)


def distilbert(records: int = _RECORDS, length: int = _LENGTH) -> Iterator[Product]:
    """One step of fine-tuning: forward, gradients of inputs, gradients of weights."""
    job, rows = f"DistilBERT fine-tune, batch {records}, length {length}", records * length
    for n, k, per_layer in ((768, 768, 4), (3072, 768, 1), (768, 3072, 1)):
        calls = 6 * per_layer
        yield Product(rows, n, k, "nt", calls, job)
        yield Product(rows, k, n, "nn", calls, job)
        yield Product(n, k, rows, "nt", calls, job)


def hottest(most: int = 20) -> list[Product]:
    """The products that take most of the two jobs, each job weighing the same; dearest first."""
    # A step of training is short beside a summary; epochs of them are not.
    jobs = [list(t5_large(1)), list(t5_large(8)), list(distilbert())]
    weight: Counter[tuple[int, int, int, str]] = Counter()
    first: dict[tuple[int, int, int, str], Product] = {}
    for products in jobs:
        total = sum(p.cost for p in products)
        for p in products:
            key = (p.m, p.n, p.k, p.layout)
            weight[key] += p.cost / total  # type: ignore[assignment]
            first.setdefault(key, p)
    return [first[key] for key, _ in weight.most_common(most)]


def attentions() -> tuple[Attention, ...]:
    """The attentions of both jobs: training, reading an article, and writing one token of it."""
    return (
        Attention(_RECORDS, 12, _LENGTH, _LENGTH, 64, False, "DistilBERT, batch 32, length 128"),
        Attention(_RECORDS, 12, _LENGTH, _LENGTH, 64, True, "DistilBERT with a padding mask"),
        Attention(8, 16, _READ, _READ, 64, True, "T5-large, reading, batch 8"),
        Attention(8, 16, 1, _WRITTEN, 64, True, "T5-large, writing, batch 8"),
        Attention(8, 16, 1, _READ, 64, False, "T5-large, looking at the article, batch 8"),
    )
