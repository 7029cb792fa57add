"""Operators of one decode step of an encoder-decoder, at its shapes: 16 heads of 64, width 1024.

A query is one token, so nothing of these resembles training: attention goes through all keys for
a single row, beam search copies whole caches, and a search sorts scores of a vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from operator_rows import WIDTH, Row, normal, product

HEADS, SIZE, MODEL, VOCABULARY = 16, 64, 1024, 32128
ROWS = (1, 4, 16, 64, 192)


def few_rows() -> Iterator[Row]:
    """Products of a decode step between the rows that `generation` has."""
    for rows, dtype in itertools.product((2, 16, 64, 256), ("fp32", "tf32", "fp16", "bf16")):
        for n, k in ((1024, 1024), (4096, 1024), (1024, 4096), (VOCABULARY, 1024)):
            yield product("aten::mm", dtype, 0, rows, n, k, "nt")


def single_queries() -> Iterator[Row]:
    """Attention of one query a row over many keys, its mask the same for all rows."""
    for dtype, rows, keys in itertools.product(
        ("fp32", "fp16", "bf16"), ROWS, (64, 192, 320, 512, 1024)
    ):
        if rows * keys > 64 * 1024:
            continue
        yield _query(dtype, rows, keys)


def _query(dtype: str, rows: int, keys: int) -> Row:
    def make(device: torch.device) -> Callable[[], Any]:
        q = normal(device, dtype, rows, HEADS, 1, SIZE)
        k, v = (normal(device, dtype, rows, HEADS, keys, SIZE) for _ in "kv")
        mask = torch.zeros((1, HEADS, 1, keys), device=device, dtype=q.dtype)
        return lambda: F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)

    moved = rows * HEADS * SIZE * (2 * keys + 2) * WIDTH[dtype]
    flop = 4 * rows * HEADS * keys * SIZE
    params = {"rows": rows, "heads": HEADS, "keys": keys, "size": SIZE}
    return Row("single_query", dtype, params, flop, moved, make)


def selections() -> Iterator[Row]:
    """A beam search puts its caches in a new order."""
    for dtype, rows, keys in itertools.product(
        ("fp32", "bf16"), (4, 16, 64, 192), (1, 16, 64, 320)
    ):
        yield _cache("index_select", dtype, rows, keys, 2 * keys, _select)
    for rows in (16, 64):
        yield _cache("index_select", "fp16", rows, 320, 640, _select)


def growing() -> Iterator[Row]:
    """A cache grows by a token."""
    for dtype, rows, keys in itertools.product(("fp32", "bf16"), (1, 16, 64, 192), (4, 16, 64)):
        yield _cache("cat", dtype, rows, keys, 2 * keys + 2, _grow)


def _cache(op: str, dtype: str, rows: int, keys: int, passes: int, build: Any) -> Row:
    return Row(
        op, dtype, {"rows": rows, "heads": HEADS, "keys": keys, "size": SIZE}, 0,
        rows * HEADS * SIZE * passes * WIDTH[dtype],
        lambda device: build(device, dtype, rows, keys),
    )  # fmt: skip


def _select(device: torch.device, dtype: str, rows: int, keys: int) -> Callable[[], Any]:
    cache = normal(device, dtype, rows, HEADS, keys, SIZE)
    order = torch.randint(0, rows, (rows,), device=device, dtype=torch.int32)
    return lambda: torch.index_select(cache, 0, order)


def _grow(device: torch.device, dtype: str, rows: int, keys: int) -> Callable[[], Any]:
    cache = normal(device, dtype, rows, HEADS, keys, SIZE)
    token = normal(device, dtype, rows, HEADS, 1, SIZE)
    return lambda: torch.cat((cache, token), -2)


def searching() -> Iterator[Row]:
    """What picks the next tokens, over scores of a vocabulary; `rows` hypotheses, 4 a sequence."""
    for name, rows in itertools.product(SEARCH, (1, 4, 16, 64, 192)):
        moved, build = SEARCH[name]
        if name == "topk" and rows < 4:
            continue
        yield Row(
            name, "fp32", {"rows": rows, "columns": VOCABULARY}, 0,
            int(rows * VOCABULARY * 4 * moved),
            lambda device, build=build, rows=rows: build(device, rows),
        )  # fmt: skip


def _scores(device: torch.device, rows: int) -> torch.Tensor:
    return normal(device, "fp32", rows, VOCABULARY)


def _log_softmax(device: torch.device, rows: int) -> Callable[[], Any]:
    scores = _scores(device, rows)
    return lambda: torch.log_softmax(scores, -1)


def _topk(device: torch.device, rows: int) -> Callable[[], Any]:
    scores = _scores(device, rows).view(rows // 4, 4 * VOCABULARY)
    return lambda: torch.topk(scores, 8, dim=1)


def _argmax(device: torch.device, rows: int) -> Callable[[], Any]:
    scores = _scores(device, rows)
    return lambda: torch.argmax(scores, -1)


def _where(device: torch.device, rows: int) -> Callable[[], Any]:
    scores = _scores(device, rows)
    banned, low = scores[0] > 3, torch.tensor(-1e9, device=device)
    return lambda: torch.where(banned, low, scores)


def _isin(device: torch.device, rows: int) -> Callable[[], Any]:
    tokens = torch.arange(VOCABULARY, device=device)
    end = torch.tensor([1], device=device)
    return lambda: torch.isin(tokens, end)


SEARCH: dict[str, tuple[float, Any]] = {
    "log_softmax": (2, _log_softmax),
    "topk": (1, _topk),
    "argmax": (1, _argmax),
    "where": (2, _where),
    "isin": (2, _isin),
}


def scores_of_a_row() -> Iterator[Row]:
    """The softmax of attention in parts, one query a head."""
    for rows, keys in itertools.product((1, 16, 64, 192), (8, 32, 128)):

        def make(device: torch.device, rows: int = rows, keys: int = keys) -> Callable[[], Any]:
            scores = normal(device, "fp32", rows, HEADS, 1, keys)
            return lambda: torch.ops.aten._safe_softmax(scores, -1)

        moved = 2 * rows * HEADS * keys * 4
        yield Row("safe_softmax", "fp32", {"rows": rows, "keys": keys}, 0, moved, make)


def layer_norms() -> Iterator[Row]:
    """What a root-mean-square norm in parts runs, at the rows of a decode step."""
    for dtype, rows, name in itertools.product(("fp32", "bf16"), (1, 16, 64, 256), NORM):
        moved, build = NORM[name]
        yield Row(
            name, dtype, {"rows": rows, "columns": MODEL}, 0,
            int(rows * MODEL * moved * WIDTH[dtype]),
            lambda device, build=build, dtype=dtype, rows=rows: build(device, dtype, rows),
        )  # fmt: skip


def _pow(device: torch.device, dtype: str, rows: int) -> Callable[[], Any]:
    x = normal(device, "fp32", rows, 1, MODEL)
    return lambda: x.pow(2)


def _mean(device: torch.device, dtype: str, rows: int) -> Callable[[], Any]:
    x = normal(device, "fp32", rows, 1, MODEL)
    return lambda: x.mean(-1, keepdim=True)


def _rsqrt(device: torch.device, dtype: str, rows: int) -> Callable[[], Any]:
    x = normal(device, "fp32", rows, 1, 1).abs()
    return lambda: torch.rsqrt(x)


def _scale(device: torch.device, dtype: str, rows: int) -> Callable[[], Any]:
    x, r = normal(device, dtype, rows, 1, MODEL), normal(device, "fp32", rows, 1, 1)
    return lambda: x * r


def _weigh(device: torch.device, dtype: str, rows: int) -> Callable[[], Any]:
    x, w = normal(device, dtype, rows, 1, MODEL), normal(device, dtype, MODEL)
    return lambda: w * x


def _narrow(device: torch.device, dtype: str, rows: int) -> Callable[[], Any]:
    x = normal(device, dtype, rows, 1, MODEL)
    other = torch.bfloat16 if dtype == "fp32" else torch.float32
    return lambda: x.to(other)


NORM: dict[str, tuple[float, Any]] = {
    "pow": (2, _pow),
    "mean_columns": (1, _mean),
    "rsqrt": (0.01, _rsqrt),
    "mul_row": (2, _scale),
    "mul_weight": (2, _weigh),
    "cast": (2, _narrow),
}


def awkward() -> Iterator[Row]:
    """Operands of two formats, and copies whose source does not lie in order."""
    for dtype, rows in itertools.product(("fp16", "bf16"), (1, 64, 1024, 16384)):
        params = {"rows": rows, "columns": MODEL}

        def mixed(device: torch.device, dtype: str = dtype, rows: int = rows) -> Callable[[], Any]:
            x, y = normal(device, "fp32", rows, MODEL), normal(device, dtype, rows, MODEL)
            return lambda: x + y

        yield Row("add_mixed", dtype, params, 0, rows * MODEL * 10, mixed)
    for dtype, rows, length in itertools.product(("fp32", "fp16"), (2, 32), (64, 128, 512)):
        params = {"rows": rows, "heads": HEADS, "keys": length, "size": SIZE}

        def turned(
            device: torch.device, dtype: str = dtype, rows: int = rows, length: int = length
        ) -> Callable[[], Any]:
            x = normal(device, dtype, rows, length, HEADS, SIZE).transpose(1, 2)
            return lambda: torch.clone(x, memory_format=torch.contiguous_format)

        moved = 2 * rows * HEADS * length * SIZE * WIDTH[dtype]
        yield Row("clone_strided", dtype, params, 0, moved, turned)


GROUPS = (
    awkward,
 single_queries, selections, searching, few_rows, growing, scores_of_a_row, layer_norms,
)  # fmt: skip
