"""The matrix product C = A·B: what it takes, what it costs, and when it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro.benchmark import Axis, Benchmark, Operand, Params, Work
from pymicro.dtypes import DTYPES

if TYPE_CHECKING:
    from pymicro.verify import BatchReference, GemmReference


def _operands(dtype: str, p: Params) -> tuple[Operand, ...]:
    m, n, k = p["m"], p["n"], p["k"]
    a_shape = (k, m) if p["layout"] == "tn" else (m, k)
    b_shape = (n, k) if p["layout"] == "nt" else (k, n)
    several = (p["batch"],) if "batch" in p else ()
    return (
        Operand("a", (*several, *a_shape), dtype),
        Operand("b", (*several, *b_shape), dtype),
        Operand("c", (*several, m, n), DTYPES[dtype].output, fill="output"),
    )


def _work(dtype: str, p: Params) -> Work:
    m, n, k, batch = p["m"], p["n"], p["k"], p.get("batch", 1)
    row = DTYPES[dtype]
    moved = (m * k + n * k) * row.itemsize_bytes + m * n * DTYPES[row.output].itemsize_bytes
    return Work(flop=2 * m * n * k * batch, bytes=moved * batch)


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> GemmReference | BatchReference:
    from pymicro.verify import BatchReference, GemmReference

    if "batch" in p:
        return BatchReference(DTYPES[dtype], p["layout"], inputs["a"], inputs["b"])
    return GemmReference(DTYPES[dtype], p["layout"], inputs["a"], inputs["b"])


# A call that takes this long at the peak shows the rate; longer ones only cost the user's time.
_LONGEST_CALL_S = {"cpu": 0.05, "cuda": 0.02}


def _defaults(kind: str, peak_ops_per_s: float | None) -> dict[str, int]:
    """The largest cube whose product stays short: 8192 on a data-centre GPU, 1024 on a laptop."""
    sizes = (1024, 2048) if kind == "cpu" else (1024, 2048, 4096, 8192)
    within = [
        s for s in sizes if peak_ops_per_s and 2 * s**3 / peak_ops_per_s < _LONGEST_CALL_S[kind]
    ]
    return {"size": max(within, default=sizes[0])}


def _kernels() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from pymicro.backends.cuda import gemm

    titles = ("path", "dtype", "kernel", "capability", "B", "row bytes", "ran on")
    return titles, [
        (
            row.path,
            row.dtype,
            row.name,
            _span(row.first, row.last),
            " ".join(row.layouts),
            f"{row.alignment}",
            " ".join(row.ran_on) or "not yet run on hardware",
        )
        for row in gemm.rows()
    ]


def _span(first: tuple[int, int], last: tuple[int, int] | None) -> str:
    low = ".".join(map(str, first))
    if last is None:
        return f"{low} and newer"
    return low if last == first else f"{low} to {'.'.join(map(str, last))}"


BENCHMARK = Benchmark(
    name="gemm",
    summary="Matrix product C[m,n] = A[m,k] · B: how fast, against what the silicon can do.",
    axes=(
        Axis("size", "count", "side of a cube: m = n = k; 4096, 1k,4k,8k or 1k:8k:x2"),
        Axis("m", "count", "rows of A and C", default="size"),
        Axis("n", "count", "columns of C", default="size"),
        Axis("k", "count", "columns of A, the summed dimension", default="size"),
        Axis(
            "layout",
            "choice",
            "B stored n×k (nt, as the weights of a linear layer) or k×n (nn); tn: so, and A k×m "
            "(a weight's gradient)",
            default="nt",
            choices=("nt", "nn", "tn"),
        ),
        Axis(
            "batch",
            "count",
            "independent products of this shape, one behind the other in memory",
            default="1",
            usual=1,
        ),
        Axis("threads", "count", "CPU threads (default: all usable cores)", only="cpu"),
        Axis(
            "path",
            "choice",
            "generation whose kernel the cuda backend uses (auto: the newest that fits)",
            default="auto",
            choices=("auto", "simt", *(f"sm{n}" for n in (61, 70, 75, 80, 89, 90, 100, 120))),
            only="cuda",
        ),
    ),
    dtypes=("fp64", "fp32", "tf32", "fp16", "bf16", "fp8_e4m3", "int8"),
    default_dtype="fp16",
    rate="flop_per_s",
    cache="hot",
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=_defaults,
    examples=(
        "pymicro gemm --dtype fp16",
        "pymicro gemm --dtype fp16,bf16 --size 1k,4k,8k",
        "pymicro gemm --m 4096 --n 768 --k 3072 --backend cuda,torch",
        "pymicro gemm --batch 384 --m 128 --n 128 --k 64 --backend cuda,torch",
        "pymicro gemm --dtype fp32,tf32 --format json > gemm.json",
        "pymicro gemm --size 4k --backend cuda,torch --tune",
        "pymicro gemm --list",
    ),
    kernels=_kernels,
    tunable=True,
)
