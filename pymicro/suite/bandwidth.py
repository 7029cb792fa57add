"""Memory bandwidth: BabelStream's operations on arrays of any size, and the levels inside an SM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro.benchmark import Axis, Benchmark, Operand, Params, Work
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError
from pymicro.streams import ON_CHIP, PARTIALS, SUMS, arrays_moved, inputs_of, is_reduction, passes

if TYPE_CHECKING:
    from pymicro.benchmark import Reference


def _elements(dtype: str, p: Params) -> tuple[int, int]:
    """Elements of an input and of the output.

    Raises:
        UsageError: an array is smaller than one element.
    """
    count = p["size"] // DTYPES[dtype].itemsize_bytes
    stride = p["stride"] if p["access"] == "strided" else 1
    if count // stride == 0:
        raise UsageError(f"--size {p['size']} holds no element of {dtype} at this stride.")
    return count, count // stride


def _operands(dtype: str, p: Params) -> tuple[Operand, ...]:
    if p.get("level") in ON_CHIP:
        words = (p["size"] // 4,)
        return Operand("a", words, "int32"), Operand("c", (PARTIALS,), "int32", fill="output")
    count, out = _elements(dtype, p)
    inputs = [Operand(x, (count,), dtype, fill="repeated") for x in "ab"[: inputs_of(p["op"])]]
    if is_reduction(p["op"]):
        return (*inputs, Operand("c", (PARTIALS,), SUMS[dtype], fill="output"))
    return (*inputs, Operand("c", (out,), dtype, fill="output"))


def _work(dtype: str, p: Params) -> Work:
    """Bytes once per direction; lines that a CPU fetches before it writes them do not count."""
    if p.get("level") in ON_CHIP:
        return Work(bytes=p["sms"] * p["size"] * passes(p))
    _, out = _elements(dtype, p)
    if p["access"] != "sequential":
        return Work(bytes=2 * out * DTYPES[dtype].itemsize_bytes)
    return Work(bytes=arrays_moved(p["op"]) * p["size"] * passes(p))


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> Reference:
    from pymicro.suite import stream_reference as expected

    if p.get("level") in ON_CHIP:
        return expected.OnChip(p["op"], inputs["a"], passes(p), p["sms"])
    a: Any = inputs.get("a")
    b: Any = inputs.get("b")
    count, _ = _elements(dtype, p)
    if p["access"] != "sequential":
        stride = p["stride"] if p["access"] == "strided" else None
        return expected.Gathered(a, count, stride)
    if is_reduction(p["op"]):
        return expected.Summed(DTYPES[dtype], p["op"], count, a, b)
    return expected.Streamed(DTYPES[dtype], p["op"], a, b)


def _applies(variant: str, p: Params) -> bool:
    """Pairs of SMs share what they ask L2 for only where arrays stay in L2."""
    stays = p.get("level", "memory") == "memory" and passes(p) > 1
    return variant != "shared" or (p["op"] == "read" and stays)


def _written(p: Params) -> float:
    """A sum leaves no line to be written back, a copy one for each that it read, and so on."""
    return 0.0 if is_reduction(p["op"]) else 1 / arrays_moved(p["op"])


def _defaults(kind: str, peak_ops_per_s: float | None) -> dict[str, Any]:
    """Arrays that no cache holds, so long that starting and ending do not count: some 4 us, or two
    percent of a read of 1 GiB by an H200."""
    return {"size": 2**32 if kind == "cuda" else 2**28}


def _within(p: Params, free_bytes: int) -> dict[str, Any]:
    """Three arrays at most, with room beside them."""
    return {**p, "size": min(p["size"], 2 ** ((free_bytes // 4).bit_length() - 1))}


BENCHMARK = Benchmark(
    name="bandwidth",
    summary="Memory bandwidth: how fast arrays are read, written, copied and combined.",
    axes=(
        Axis(
            "op",
            "choice",
            "read: sum of a; write: c=s; copy: c=a; scale: c=s·a; add: c=a+b; triad: c=a+s·b; "
            "dot: sum of a·b",
            default="read,write,copy,triad",
            choices=("read", "write", "copy", "scale", "add", "triad", "dot"),
        ),
        Axis("size", "bytes", "of each array (of each SM's part with --level): 1GiB, 1MiB:4GiB:x2"),
        Axis(
            "level",
            "choice",
            "memory: arrays in device memory, where caches hold what fits; or inside each SM: l1, "
            "shared, dsmem (a neighbour's shared memory)",
            default="memory",
            choices=("memory", *ON_CHIP),
            only="cuda",
        ),
        Axis(
            "access",
            "choice",
            "order of the elements that a copy reads",
            default="sequential",
            choices=("sequential", "strided", "random"),
        ),
        Axis("stride", "count", "elements from one to the next with --access strided", default="8"),
        Axis("sms", "count", "SMs that work at once (default: all)", only="cuda"),
        Axis("threads", "count", "CPU threads (default: all usable cores)", only="cpu"),
    ),
    dtypes=("fp64", "fp32", "fp16", "bf16", "int32", "int8"),
    default_dtype="fp32",
    rate="bytes_per_s",
    cache="cold",
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=_defaults,
    within=_within,
    applies=_applies,
    draws_power=False,  # Streams stay below a power limit.
    budget_s=1.6,
    written=_written,
    examples=(
        "pymicro bandwidth",
        "pymicro bandwidth --op triad --dtype fp64 --size 1MiB:4GiB:x2",
        "pymicro bandwidth --level shared --op read --size 64KiB",
        "pymicro bandwidth --op copy --access random --dtype fp64",
    ),
)
