"""What an operator of a trace asks for: its class, operations and bytes, from name and shapes.

It knows PyTorch's names and no device. An unknown name is a pointwise operator: memory bounds it,
which is true of nearly everything that is no product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pymicro.workloads.sizes import elements, evaluate
from pymicro.workloads.trace import Operator, Tensor

Class = Literal[
    "product", "attention", "normalisation", "softmax", "reduction", "gather", "scatter", "copy",
    "random", "optimiser", "pointwise", "none",
]  # fmt: skip
Values = Mapping[str, int]

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addbmm", "linear", "matmul", "_scaled_mm", "dot",
             "mv", "addmv")  # fmt: skip
# The first of these that a name contains decides; so the longer words come first.
_CLASSES: tuple[tuple[str, Class], ...] = (
    ("attention", "attention"),
    ("_foreach", "optimiser"),
    ("_fused_adam", "optimiser"),
    ("_amp_", "optimiser"),
    ("_local_scalar_dense", "none"),
    ("embedding_dense_backward", "scatter"),
    ("index_put", "scatter"),
    ("scatter", "scatter"),
    ("index_add", "scatter"),
    ("layer_norm", "normalisation"),
    ("rms_norm", "normalisation"),
    ("softmax", "softmax"),
    ("embedding", "gather"),
    ("index_select", "gather"),
    ("index", "gather"),
    ("gather", "gather"),
    ("dropout", "random"),
    ("bernoulli", "random"),
    ("sum", "reduction"),
    ("mean", "reduction"),
    ("argmax", "reduction"),
    ("amax", "reduction"),
    ("max.dim", "reduction"),
    ("topk", "reduction"),
    ("sort", "reduction"),
    ("all", "reduction"),
    ("any", "reduction"),
    ("nll_loss", "reduction"),
    ("norm", "reduction"),
    ("clone", "copy"),
    ("copy", "copy"),
    ("cat", "copy"),
    ("contiguous", "copy"),
    ("constant_pad", "copy"),
)
# Products of an attention: scores and values forward; backward the scores once more and four
# gradients (Dao et al., FlashAttention, algorithm 4).
_ATTENTION_PRODUCTS = {"forward": 2, "backward": 5}


@dataclass(frozen=True)
class Product:
    """C[m,n] = A[m,k] · B[k,n], `batch` of them; `layout` as in `pymicro gemm`, A's first."""

    batch: int
    m: int
    n: int
    k: int
    layout: str


@dataclass(frozen=True)
class Work:
    """One call of one operator.

    Attributes:
        name: torch's, without namespace and overload. dtype: torch's name of the format it
            computes in. host_bytes: bytes that cross the link to the host.
        widest: size of its largest tensor in bytes, the stream that memory sees.
        product: sizes, if it is one product of matrices.
        columns: last dimension of its largest operand; of attention, the length of its keys.
        blocks: of fused attention: heads of the batch times tiles of 64 queries.
        gathered: indices that a gather or its gradient goes through. distinct: rows of a gradient's
            table that as many random indices are expected to meet.
        tensors: tensors of a list, 0 if there is no list.
        has_dropout, has_mask: of fused attention.
        is_strided: a copy whose source does not lie in order. is_mixed: a pointwise operator whose
            operands are of two formats, which its kernel converts one by one. is_broadcast: one of
            its operands is read again and again.
    """

    name: str
    kind: Class
    dtype: str
    flop: int
    bytes: int
    host_bytes: int = 0
    widest: int = 0
    product: Product | None = None
    columns: int = 1
    blocks: int = 0
    gathered: int = 0
    distinct: int = 0
    tensors: int = 0
    has_dropout: bool = False
    has_mask: bool = False
    is_strided: bool = False
    is_mixed: bool = False
    is_broadcast: bool = False


def short_name(name: str) -> str:
    """`addmm` of `aten::addmm.out`."""
    return name.rsplit("::", 1)[-1].split(".")[0]


def class_of(name: str) -> Class:
    """The class of an operator by its name, with namespace and overload or without."""
    short = short_name(name)
    if short in _PRODUCTS:
        return "product"
    full = name.rsplit("::", 1)[-1]
    return next((kind for word, kind in _CLASSES if word in full), "pointwise")


def work_of(operator: Operator, values: Values) -> Work:
    """What one call asks for at the job's parameters.

    Raises:
        KeyError: `values` lacks a parameter that the trace depends on.
    """
    kind = class_of(operator.name)
    tensors = (*operator.reads, *operator.writes)
    sizes = [t.bytes(values) for t in tensors]
    across = sum(b for t, b in zip(tensors, sizes, strict=True) if t.place == "host")
    largest = tensors[sizes.index(max(sizes))] if tensors else None
    columns = evaluate(largest.shape[-1], values) if largest and largest.shape else 1
    if kind == "attention":
        columns = _keys(operator, values)
    indices = [t for t in operator.reads if t.dtype in ("int64", "int32")]
    gathered = elements(indices[-1].shape, values) if indices else 0
    product = _product(operator, values) if kind == "product" else None
    return Work(
        name=short_name(operator.name),
        kind=kind,
        dtype=_dtype(operator),
        flop=_flop(operator, kind, product, values),
        bytes=sum(sizes) - across,
        host_bytes=across,
        widest=max(sizes, default=0),
        product=product,
        columns=columns,
        blocks=_blocks(operator, values) if kind == "attention" else 0,
        gathered=gathered,
        distinct=_distinct(operator, gathered, values) if kind == "scatter" else 0,
        tensors=operator.tensors,
        has_dropout=bool(operator.details.get("dropout_p")),
        has_mask=kind == "attention" and _has_mask(operator),
        is_strided=bool(operator.details.get("strided")),
        is_mixed=kind == "pointwise" and _is_mixed(operator),
        is_broadcast=kind == "pointwise" and _is_broadcast(operator, values),
    )


def _distinct(operator: Operator, gathered: int, values: Values) -> int:
    """Rows met by random indices into the table that is written."""
    if not operator.writes or not operator.writes[0].shape:
        return gathered
    rows = evaluate(operator.writes[0].shape[0], values)
    return round(rows * -math.expm1(-gathered / rows)) if rows else 0


def _is_mixed(operator: Operator) -> bool:
    """Two formats among its operands; a scalar is read once, whatever its format."""
    return len({t.dtype for t in operator.reads if t.shape and "float" in t.dtype}) > 1


def _is_broadcast(operator: Operator, values: Values) -> bool:
    """Operands of several sizes; a scalar's place is a register."""
    return len({elements(t.shape, values) for t in operator.reads if t.shape}) > 1


def _dtype(operator: Operator) -> str:
    floats = [t.dtype for t in (*operator.writes, *operator.reads) if "float" in t.dtype]
    return floats[0] if floats else "int64"


def _flop(operator: Operator, kind: Class, product: Product | None, values: Values) -> int:
    if product is not None:
        return 2 * product.batch * product.m * product.n * product.k
    if kind == "attention":
        return _attention_flop(operator, values)
    # A vector operation an element: far below what bounds it, counted so that sums are honest.
    return max((elements(t.shape, values) for t in operator.writes), default=0)


def _product(operator: Operator, values: Values) -> Product | None:
    """Sizes from the result and the operands; a bias comes before them."""
    if len(operator.reads) < 2 or not operator.writes:
        return None
    out = [evaluate(s, values) for s in operator.writes[0].shape]
    a = operator.reads[0 if short_name(operator.name) in ("linear", "matmul") else -2]
    if not out or not a.shape:
        return None
    n = out[-1]
    m = out[-2] if len(out) > 1 else 1
    batch = 1
    for size in out[:-2]:
        batch *= size
    k = elements(a.shape, values) // max(batch * m, 1)
    letters = "".join("t" if side in operator.transposed else "n" for side in "ab")
    return Product(batch, m, n, k, letters)


def _attention_flop(operator: Operator, values: Values) -> int:
    query = _queries(operator)
    if query is None:
        return 0
    count = _ATTENTION_PRODUCTS["backward" if "backward" in operator.name else "forward"]
    flop = 2 * count * elements(query.shape, values) * _keys(operator, values)
    return flop // 2 if operator.details.get("is_causal") else flop


def _queries(operator: Operator) -> Tensor | None:
    """Queries of (batch, heads, length, size); a gradient comes before them going backward."""
    place = 1 if "backward" in operator.name else 0
    wide = [t for t in operator.reads if len(t.shape) == 4]
    return wide[place] if len(wide) > place + 1 else None


def _keys(operator: Operator, values: Values) -> int:
    """Length of the keys, which follow the queries."""
    place = 2 if "backward" in operator.name else 1
    wide = [t for t in operator.reads if len(t.shape) == 4]
    return evaluate(wide[place].shape[2], values) if len(wide) > place else 1


def _blocks(operator: Operator, values: Values) -> int:
    """Blocks that fused attention works in, each going through all keys of 64 queries."""
    query = _queries(operator)
    if query is None:
        return 0
    batch, heads, length = (evaluate(s, values) for s in query.shape[:3])
    return batch * heads * -(-length // 64)


def _has_mask(operator: Operator) -> bool:
    """A fourth input with two lengths; backward has the gradient, the result and it besides."""
    heads = [t.shape for t in operator.reads if len(t.shape) == 4]
    return any(shape[-2:] == (shape[-2], shape[-1]) and _is_length(shape[-1]) for shape in heads)


def _is_length(size: str) -> bool:
    return any(word in size.split("*") for word in ("length", "keys", "next", "padded"))
