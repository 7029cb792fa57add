"""Operators of real jobs at their shapes, each with what makes one set of operands and the call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

WIDTH = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}
TYPE = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Row:
    """One operator at one shape; `make` allocates one set of operands and returns the call."""

    op: str
    dtype: str
    params: dict[str, Any]
    flop: int
    bytes: int
    make: Callable[[torch.device], Callable[[], Any]]
    result: dict[str, Any] = field(default_factory=dict)


def normal(device: torch.device, dtype: str, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=device, dtype=TYPE[dtype])


def product(op: str, dtype: str, batch: int, m: int, n: int, k: int, layout: str) -> Row:
    """`nt` reads B as n×k, `tn` reads A as k×m; `batch` 0 is a plain product."""

    def make(device: torch.device) -> Callable[[], Any]:
        lead = (batch,) if batch else ()
        a = normal(device, dtype, *lead, *((k, m) if layout[0] == "t" else (m, k)))
        b = normal(device, dtype, *lead, *((n, k) if layout[1] == "t" else (k, n)))
        a = a.transpose(-1, -2) if layout[0] == "t" else a
        b = b.transpose(-1, -2) if layout[1] == "t" else b
        if op == "aten::addmm":
            bias = normal(device, dtype, n)
            return lambda: torch.addmm(bias, a, b)
        return (lambda: torch.bmm(a, b)) if batch else (lambda: torch.mm(a, b))

    count = max(batch, 1)
    moved = count * (m * k + n * k + m * n) * WIDTH[dtype]
    params = {"batch": batch, "m": m, "n": n, "k": k, "layout": layout}
    return Row(op, dtype, params, 2 * count * m * n * k, moved, make)


DTYPES = ("fp32", "tf32", "fp16", "bf16")


def encoder_training() -> Iterator[Row]:
    """Every product of a training step of an encoder of width 768."""
    for tokens, dtype in itertools.product((4096, 1024, 16384, 8192, 32768), DTYPES):
        for n, k in ((768, 768), (3072, 768), (768, 3072)):
            yield product("aten::addmm", dtype, 0, tokens, n, k, "nt")
            yield product("aten::mm", dtype, 0, tokens, k, n, "nn")
            yield product("aten::mm", dtype, 0, n, k, tokens, "tn")


def generation() -> Iterator[Row]:
    """Products of an encoder-decoder of width 1024: prompt and one decode step."""
    for rows, dtype in itertools.product((1, 32, 8, 4, 128), DTYPES):
        for n, k in ((1024, 1024), (4096, 1024), (1024, 4096), (32128, 1024)):
            yield product("aten::mm", dtype, 0, rows, n, k, "nt")
    for tokens, dtype in itertools.product((512, 128, 1024, 4096, 16384), DTYPES):
        for n, k in ((1024, 1024), (4096, 1024), (1024, 4096)):
            yield product("aten::mm", dtype, 0, tokens, n, k, "nt")


def attention_products() -> Iterator[Row]:
    for rows, keys, dtype in itertools.product((1, 32, 8, 4, 128), (64, 512, 128, 16), DTYPES):
        yield product("aten::bmm", dtype, 16 * rows, 1, keys, 64, "nt")
        yield product("aten::bmm", dtype, 16 * rows, 1, 64, keys, "nn")
    for batch, length, dtype in itertools.product((8, 1, 32), (128, 512), DTYPES):
        yield product("aten::bmm", dtype, 16 * batch, length, length, 64, "nt")
        yield product("aten::bmm", dtype, 16 * batch, length, 64, length, "nn")
    for batch, length, dtype in itertools.product((32, 8, 64), (128, 512), DTYPES):
        yield product("aten::bmm", dtype, 12 * batch, length, length, 64, "nt")
        yield product("aten::bmm", dtype, 12 * batch, length, 64, length, "nn")
        yield product("aten::bmm", dtype, 12 * batch, length, 64, length, "tn")


def fused_attention() -> Iterator[Row]:
    """Forward, and forward with backward, with a mask and without, at rates of dropout."""
    for batch, length, dtype in itertools.product(
        (32, 8, 64), (128, 512), ("fp32", "fp16", "bf16")
    ):
        for masked, p, both in itertools.product((False, True), (0.1, 0.0), (False, True)):
            yield _sdpa(dtype, batch, 12, length, masked, p, both)


def _sdpa(
    dtype: str, batch: int, heads: int, length: int, masked: bool, p: float, both: bool
) -> Row:
    def make(device: torch.device) -> Callable[[], Any]:
        q, k, v = (
            normal(device, dtype, batch, heads, length, 64).requires_grad_(both) for _ in "qkv"
        )
        mask = (
            torch.zeros((batch, 1, length, length), device=device, dtype=TYPE[dtype])
            if masked
            else None
        )
        if not both:
            return lambda: F.scaled_dot_product_attention(q, k, v, mask, p)
        grad = torch.ones_like(q)
        return lambda: torch.autograd.grad(
            F.scaled_dot_product_attention(q, k, v, mask, p), (q, k, v), grad
        )

    flop = (14 if both else 4) * batch * heads * length * length * 64
    moved = (12 if both else 4) * batch * heads * length * 64 * WIDTH[dtype]
    params = {
        "batch": batch,
        "heads": heads,
        "length": length,
        "size": 64,
        "masked": masked,
        "p": p,
        "backward": both,
    }
    return Row("sdpa", dtype, params, flop, moved, make)


def streams() -> Iterator[Row]:
    """Operators that memory bounds, over arrays of rows × columns."""
    for columns, rows, dtype in itertools.product(
        (768, 512), (1, 64, 512, 1024, 4096, 16384, 65536, 262144), ("fp32", "fp16", "bf16")
    ):
        for name, (moved, build) in OPERATORS.items():
            if dtype == "bf16" and name not in ("add", "layer_norm", "softmax"):
                continue
            yield _stream(name, dtype, rows, columns, moved, build)


def _stream(name: str, dtype: str, rows: int, columns: int, moved: float, build: Any) -> Row:
    params = {"rows": rows, "columns": columns}
    return Row(
        name,
        dtype,
        params,
        0,
        int(rows * columns * moved * WIDTH[dtype]),
        lambda device: build(device, dtype, rows, columns),
    )


def _unary(f: Any) -> Any:
    def build(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
        x = normal(device, dtype, rows, columns)
        return lambda: f(x)

    return build


def _binary(f: Any) -> Any:
    def build(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
        x, y = (normal(device, dtype, rows, columns) for _ in "xy")
        return lambda: f(x, y)

    return build


def _layer_norm(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    x, w, b = (
        normal(device, dtype, rows, columns),
        normal(device, dtype, columns),
        normal(device, dtype, columns),
    )
    return lambda: torch.native_layer_norm(x, (columns,), w, b, 1e-5)


def _layer_norm_back(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    x, w, b = (
        normal(device, dtype, rows, columns),
        normal(device, dtype, columns),
        normal(device, dtype, columns),
    )
    _, mean, rstd = torch.native_layer_norm(x, (columns,), w, b, 1e-5)
    g = normal(device, dtype, rows, columns)
    return lambda: torch.ops.aten.native_layer_norm_backward(
        g, x, [columns], mean, rstd, w, b, [True, True, True]
    )


def _softmax_back(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    y = torch.softmax(normal(device, dtype, rows, columns), -1)
    g = normal(device, dtype, rows, columns)
    return lambda: torch.ops.aten._softmax_backward_data(g, y, -1, TYPE[dtype])


def _dropout_back(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    g = normal(device, dtype, rows, columns)
    mask = g > 0
    return lambda: torch.ops.aten.native_dropout_backward(g, mask, 1.1)


def _cast(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    x = normal(device, dtype, rows, columns)
    other = torch.float16 if dtype == "fp32" else torch.float32
    return lambda: x.to(other)


def _embedding(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    table = normal(device, dtype, 30522, columns)
    index = torch.randint(0, 30522, (rows,), device=device)
    return lambda: torch.embedding(table, index)


def _embedding_back(device: torch.device, dtype: str, rows: int, columns: int) -> Any:
    g = normal(device, dtype, rows, columns)
    index = torch.randint(0, 30522, (rows,), device=device)
    return lambda: torch.ops.aten.embedding_dense_backward(g, index, 30522, -1, False)


# Array passes of rows × columns of the operand's format, and how a call is built.
OPERATORS: dict[str, tuple[float, Any]] = {
    "add": (3, _binary(torch.add)),
    "mul_scalar": (2, _unary(lambda x: torch.mul(x, 2.0))),
    "gelu": (2, _unary(F.gelu)),
    "gelu_backward": (3, _binary(torch.ops.aten.gelu_backward)),
    "relu": (2, _unary(torch.relu)),
    "dropout": (2.25, _unary(lambda x: torch.native_dropout(x, 0.1, True))),
    "dropout_backward": (2.25, _dropout_back),
    "softmax": (2, _unary(lambda x: torch.softmax(x, -1))),
    "softmax_backward": (3, _softmax_back),
    "layer_norm": (2, _layer_norm),
    "layer_norm_backward": (3, _layer_norm_back),
    "sum_rows": (1, _unary(lambda x: torch.sum(x, 0))),
    "mean_columns": (1, _unary(lambda x: torch.mean(x, -1, keepdim=True))),
    "pow": (2, _unary(lambda x: torch.pow(x, 2))),
    "clone": (2, _unary(torch.clone)),
    "cast": (2, _cast),
    "embedding": (2, _embedding),
    "embedding_backward": (2, _embedding_back),
}


def optimisers() -> Iterator[Row]:
    """AdamW over an encoder's parameters, as the default list kernels and fused."""
    for fused, count in itertools.product((False, True), (66_955_010,)):

        def make(device: torch.device, fused: bool = fused, count: int = count) -> Any:
            sizes = [768 * 30522] + [768 * 768] * 24 + [768 * 3072] * 12 + [768] * 64
            weights = [torch.zeros(s, device=device).requires_grad_() for s in sizes]
            for w in weights:
                w.grad = torch.ones_like(w)
            step = torch.optim.AdamW(weights, lr=1e-5, fused=fused)
            return step.step

        yield Row(
            "adamw",
            "fp32",
            {
                "fused": fused,
                "elements": 768 * 30522 + 768 * 768 * 24 + 768 * 3072 * 12 + 768 * 64,
                "tensors": 101,
            },
            0,
            28 * count,
            make,
        )


GROUPS = (encoder_training, generation, attention_products, fused_attention, streams, optimisers)
