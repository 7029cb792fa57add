"""Pure issue: what an arithmetic unit does when nothing has to be fetched, unit by unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro import issue
from pymicro.benchmark import Axis, Benchmark, Operand, Params, Work
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable

if TYPE_CHECKING:
    from pymicro.benchmark import Reference


def _probe(dtype: str, p: Params) -> issue.Probe | issue.CpuProbe:
    """The row of a unit in a format.

    Raises:
        Unavailable: the unit has no such format.
    """
    kind = "cuda" if "sms" in p else "cpu"
    rows: Any = issue.PROBES if kind == "cuda" else issue.CPU_PROBES
    if (p["unit"], dtype) not in rows:
        where = "a GPU" if kind == "cuda" else "a CPU"
        raise Unavailable(f"{where} has no {p['unit']} of {dtype}.")
    return rows[p["unit"], dtype]


def _operands(dtype: str, p: Params) -> tuple[Operand, ...]:
    probe, item = _probe(dtype, p), DTYPES[dtype].itemsize_bytes
    if isinstance(probe, issue.CpuProbe):
        count = 16 * 64 // item if probe.unit == "amx" else probe.lanes * probe.terms
        out = Operand("c", (p["threads"], issue.out_words(probe)), "int32", fill="output")
        return Operand("a", (count,), dtype), Operand("b", (count,), dtype), out
    out = Operand("c", (2, p["sms"], probe.threads), "fp64", fill="output")
    if probe.unit in issue.VECTOR_UNITS:
        shape = (probe.threads, probe.chains, 2, issue.ELEMENTS_A_WORD.get(dtype, 1))
        return Operand("a", shape, dtype), out
    k = issue.row_elements(probe, item)
    if (feed := issue.FEEDS.get(probe.unit)) is not None:
        m, n = feed.rows(p["sms"])
        b = Operand("b", (feed.panels, n, k), dtype, fill="repeated")
        return Operand("a", (m, k), dtype), b, out
    m, n = issue.TILE[probe.unit]
    if probe.unit == "wgmma":
        return Operand("a", (m, k), dtype), Operand("b", (n, k), dtype), out
    a = Operand("a", (issue.MATRICES_A, m, k), dtype)
    return a, Operand("b", (probe.chains, n, k), dtype), out


def _work(dtype: str, p: Params) -> Work:
    try:
        probe = _probe(dtype, p)
    except Unavailable:
        return Work()
    if isinstance(probe, issue.CpuProbe):
        return Work(flop=p["threads"] * probe.flop_a_thread)
    return Work(flop=p["sms"] * probe.flop_a_block)


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> Reference:
    from pymicro.suite import peak_reference as expected

    probe = _probe(dtype, p)
    if isinstance(probe, issue.CpuProbe):
        return expected.cpu(probe, inputs["a"], inputs["b"])
    if probe.unit in issue.VECTOR_UNITS:
        return expected.vector(probe, inputs["a"])
    if probe.unit in issue.FEEDS:
        return expected.fed(probe, p["sms"], inputs["a"], inputs["b"])
    return expected.matrix(probe, inputs["a"], inputs["b"])


def _defaults(kind: str, peak_ops_per_s: float | None) -> dict[str, Any]:
    return {}


def _of_format(kind: str, dtype: str) -> dict[str, Any]:
    """All units that have the format."""
    return {"unit": issue.units_of(kind, dtype)}


def _kernels() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from pymicro.backends.cuda import peak

    titles = ("unit", "dtype", "capability", "FLOP a call and SM", "ran on")
    return titles, [
        (
            row.probe.unit,
            row.probe.dtype,
            row.span,
            f"{row.probe.flop_a_block}",
            " ".join(row.ran_on) or "not yet run on hardware",
        )
        for row in peak.ROWS
    ]


BENCHMARK = Benchmark(
    name="peak",
    summary="Peak of each arithmetic unit: loops of one instruction with nothing to fetch.",
    axes=(
        Axis(
            "unit",
            "choice",
            "whose instruction is issued (default: all that have the format)",
            choices=issue.GPU_UNITS + issue.CPU_UNITS,
        ),
        Axis("sms", "count", "SMs that work at once (default: all)", only="cuda"),
        Axis("threads", "count", "CPU threads (default: all usable cores)", only="cpu"),
    ),
    dtypes=issue.DTYPES,
    default_dtype="all",
    rate="flop_per_s",
    cache="hot",
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=_defaults,
    of_format=_of_format,
    examples=(
        "pymicro peak --dtype fp16,fp32",
        "pymicro peak --unit wgmma --dtype bf16 --fill zeros",
        "pymicro peak --unit ffma --dtype fp32 --sms 1",
        "pymicro peak --device cpu --dtype fp32 --threads 1",
        "pymicro peak --list",
    ),
    kernels=_kernels,
)
