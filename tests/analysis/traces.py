"""Traces of invented jobs for tests: one like an encoder's training, one like generation.

They have the sequence of operators that such jobs dispatch, and nothing was recorded for them.
"""

from __future__ import annotations

from pymicro.workloads.trace import Operator, Phase, Tensor, Trace

NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def _tensor(dtype: str, *shape: object) -> Tensor:
    return Tensor(tuple(str(s) for s in shape), dtype)


class Writer:
    """Appends operators; sizes are products of a job's parameters."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.made = dtype, []

    def t(self, *shape: object, dtype: str | None = None) -> Tensor:
        return _tensor(dtype or self.dtype, *shape)

    def op(self, name: str, reads: list[Tensor], writes: list[Tensor], **more: object) -> None:
        self.made.append(Operator(f"aten::{name}", tuple(reads), tuple(writes), **more))

    def mm(
        self, m: object, n: object, k: object, transposed: str = "b", bias: bool = False
    ) -> None:
        first = [self.t(n)] if bias else []
        name = "addmm" if bias else "mm"
        reads = [*first, self.t(m, k), self.t(k, n)]
        self.op(name, reads, [self.t(m, n)], transposed=transposed, views=3)

    def bmm(self, batch: object, m: object, n: object, k: object, transposed: str = "") -> None:
        self.op(
            "bmm",
            [self.t(batch, m, k), self.t(batch, k, n)],
            [self.t(batch, m, n)],
            transposed=transposed,
            views=3,
        )

    def like(self, name: str, inputs: int, *shape: object, **more: object) -> None:
        self.op(name, [self.t(*shape)] * inputs, [self.t(*shape)], **more)


def training(layers: int = 6, width: int = 768, heads: int = 12, precision: str = "fp32") -> Trace:
    """Forward, backward and optimiser of an encoder with a classifier; fused attention."""
    amp = precision.startswith("amp")
    w = Writer(NAMES[precision.removeprefix("amp_")])
    rows, inner = "batch*length", 4 * width
    hidden = (rows, width)
    parameters = 12 * layers * width * width + 30522 * width

    def cast(*shape: object) -> None:
        if amp:
            w.op("_to_copy", [w.t(*shape, dtype="float32")], [w.t(*shape)])

    w.op("embedding", [w.t(rows, width), w.t(rows, dtype="int64")], [w.t(*hidden)], views=2)
    w.like("native_layer_norm", 1, *hidden)
    w.like("native_dropout", 1, *hidden)
    for _ in range(layers):
        for n, k, after in _linears(width, inner):
            cast(n, k)
            w.mm(rows, n, k, bias=True)
            if after == "attention":
                shape = ("batch", heads, "length", width // heads)
                w.op(
                    "_scaled_dot_product_efficient_attention",
                    [w.t(*shape)] * 3,
                    [w.t(*shape)],
                    views=8,
                )
            elif after:
                for name, inputs, columns in after:
                    w.like(name, inputs, rows, columns)
    w.mm("batch", width, width, bias=True)
    w.mm("batch", 2, width, bias=True)
    w.like("_log_softmax", 1, "batch", 2)
    forward = Phase("forward", "1", tuple(w.made))

    w.made = []
    for _ in range(layers):
        for n, k, after in reversed(_linears(width, inner)):
            if after == "attention":
                shape = ("batch", heads, "length", width // heads)
                w.op(
                    "_scaled_dot_product_efficient_attention_backward",
                    [w.t(*shape)] * 4,
                    [w.t(*shape)] * 3,
                    views=8,
                )
            elif after:
                for name, inputs, columns in reversed(after):
                    w.like(f"{name}_backward", inputs + 1, rows, columns)
            w.mm(rows, k, n, transposed="")
            w.mm(n, k, rows, transposed="a")
            w.op("sum.dim_IntList", [w.t(rows, n)], [w.t(n)])
            cast(n, k)
    w.op("embedding_dense_backward", [w.t(*hidden), w.t(rows, dtype="int64")], [w.t(30522, width)])
    backward = Phase("backward", "1", tuple(w.made))

    flat = _tensor("float32", parameters)
    lists = [
        Operator(f"aten::{name}", (flat,) * reads, (flat,), tensors=100)
        for name, reads in (
            ("_foreach_add.List", 2),
            ("_foreach_mul_.Scalar", 1),
            ("_foreach_lerp_.Scalar", 2),
            ("_foreach_mul_.Scalar", 1),
            ("_foreach_addcmul_.Scalar", 3),
            ("_foreach_sqrt", 1),
            ("_foreach_div_.Scalar", 1),
            ("_foreach_add_.Scalar", 1),
            ("_foreach_addcdiv_.Scalar", 3),
        )
    ]
    item = Operator("aten::_local_scalar_dense", (_tensor("float32"),), (), synchronises=True)
    optimiser = Phase("optimiser", "1", (*lists, item))
    return Trace(
        "invented",
        "train",
        precision,
        "sdpa",
        "cuda",
        {"torch": "0"},
        {"batch": 7},
        parameters,
        (forward, backward, optimiser),
    )


def _linears(width: int, inner: int) -> list:
    norm = [("native_dropout", 1, width), ("add.Tensor", 2, width), ("native_layer_norm", 1, width)]
    return [
        (width, width, ()),
        (width, width, ()),
        (width, width, "attention"),
        (width, width, norm[1:]),
        (inner, width, [("gelu", 1, inner)]),
        (width, inner, norm),
    ]


def generation(
    layers: int = 24, width: int = 1024, heads: int = 16, precision: str = "fp32"
) -> Trace:
    """An encoder once, then decode steps with a cache that grows."""
    w = Writer(NAMES[precision])
    inner, size = 4 * width, width // heads

    def norm(rows: object) -> None:
        for name, inputs in (
            ("pow", 1),
            ("mean.dim", 1),
            ("add.Tensor", 1),
            ("rsqrt", 1),
            ("mul.Tensor", 2),
            ("mul.Tensor", 2),
        ):
            w.like(name, inputs, rows, width)

    def attention(rows: object, batch: object, query: object, keys: object) -> None:
        w.bmm(batch, query, keys, size, "b")
        for name, inputs in (("add.Tensor", 2), ("_softmax", 1)):
            w.op(name, [w.t(batch, query, keys)] * inputs, [w.t(batch, query, keys)])
        w.bmm(batch, query, size, keys)
        w.op("clone", [w.t(rows, width)], [w.t(rows, width)])

    def feed(rows: object) -> None:
        norm(rows)
        w.mm(rows, inner, width)
        w.like("relu", 1, rows, inner)
        w.mm(rows, width, inner)
        w.like("add.Tensor", 2, rows, width)

    rows = "batch*length"
    for _ in range(layers):
        norm(rows)
        for _ in range(4):
            w.mm(rows, width, width)
        attention(rows, f"batch*{heads}", "length", "length")
        w.like("add.Tensor", 2, rows, width)
        feed(rows)
    encode = Phase("encode", "1", tuple(w.made))
    w.made = []
    rows = "batch*beams"
    for _ in range(layers):
        norm(rows)
        for _ in range(4):
            w.mm(rows, width, width)
        for _ in "kv":
            cache = w.t(f"batch*beams*{heads}", "keys", size)
            w.op("cat", [cache], [cache])
        attention(rows, f"batch*beams*{heads}", 1, "keys")
        w.like("add.Tensor", 2, rows, width)
        norm(rows)
        for _ in range(2):
            w.mm(rows, width, width)
        attention(rows, f"batch*beams*{heads}", 1, "length")
        w.like("add.Tensor", 2, rows, width)
        feed(rows)
    w.mm(rows, 32128, width)
    w.op("argmax", [w.t(rows, 32128)], [w.t(rows, dtype="int64")])
    w.op("_local_scalar_dense", [w.t(dtype="bool")], [], synchronises=True)
    decode = Phase("decode", "output-1", tuple(w.made), is_decode=True)
    return Trace(
        "invented",
        "generate",
        precision,
        "eager",
        "cuda",
        {"torch": "0"},
        {"batch": 7},
        737_000_000,
        (encode, decode),
    )


def sizes(batch: int, length: int, output: int = 0, beams: int = 1) -> dict[str, int]:
    return {
        "batch": batch,
        "beams": beams,
        "length": length,
        "output": output,
        "first": 1,
        "past": 0,
        "keys": 1,
        "next": 2,
        "limit": 1 + output,
    }
