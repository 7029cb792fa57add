"""Memory latency by pointer chase: one thread follows a random ring, each load needing the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro import chains
from pymicro.benchmark import Axis, Benchmark, Operand, Params, Work
from pymicro.errors import UsageError, WrongResult

if TYPE_CHECKING:
    import numpy as np

    from pymicro.verify import Check


class _Walk:
    """A first walk from order[0] ends where counting says, if every place was linked and read."""

    def __init__(self, order: np.ndarray, steps: int, place_bytes: int) -> None:
        self._expected = int(order[steps % order.size]) * place_bytes

    def check(self, out: np.ndarray) -> Check:
        """Compare where the walk ended: the third of three 64-bit words.

        Raises:
            WrongResult: it ended elsewhere.
        """
        from pymicro.verify import Check

        ended = int(out.view("int64")[2])
        if ended != self._expected:
            raise WrongResult(
                f"wrong result: the walk ended {ended} bytes into the ring, not {self._expected}."
            )
        return Check("end of the walk", 0.0, 0.0)


def _operands(dtype: str, p: Params) -> tuple[Operand, ...]:
    count = chains.places(p)
    if count < 2:
        raise UsageError(f"--size {p['size']} holds fewer than two places of {p['stride']} bytes.")
    if p["stride"] % 8:
        raise UsageError(f"--stride {p['stride']} is not a multiple of a pointer's 8 bytes.")
    order = Operand("order", (count,), "int32", fill="cycle")
    return order, Operand("c", (6,), "int32", fill="output")


def _work(dtype: str, p: Params) -> Work:
    return Work(steps=chains.steps(p))


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> _Walk:
    return _Walk(inputs["order"], chains.steps(p), chains.place_bytes(p))


# The native chase starts at a huge page's boundary, and the last page may be begun only.
_HUGE_PAGE_BYTES = 2**21


def _beside(p: Params, kind: str) -> dict[str, int]:
    """The ring in the memory where it lies, and on the host what drawing its order takes."""
    count = chains.places(p)
    drawn = {"cpu": count * 4}  # The order is shuffled from a second array of int32.
    if chains.is_on_chip(p):
        return drawn
    ring = count * p["stride"]
    if kind == "cuda" and p.get("where") != "host":
        return {**drawn, "cuda": ring}
    if p.get("pages") == "huge":
        ring = (-(-ring // _HUGE_PAGE_BYTES) + 1) * _HUGE_PAGE_BYTES
    return {"cpu": drawn["cpu"] + ring}


def _defaults(kind: str, peak_ops_per_s: float | None) -> dict[str, Any]:
    """A sweep by half octaves, from the smallest L1 to far beyond the last cache; a place a cache
    line."""
    largest = 30 if kind == "cuda" else 28
    sizes = {half << n for n in range(13, largest) for half in (2, 3)} - {3 << largest - 1}
    return {"size": tuple(sorted(sizes)), "stride": 128 if kind == "cuda" else 64}


BENCHMARK = Benchmark(
    name="latency",
    summary="Memory latency: how long a load takes that needs the one before, level by level.",
    axes=(
        Axis("size", "bytes", "of the ring; each cache shows as a plateau: 16KiB:1GiB:x2"),
        Axis("stride", "bytes", "from one place to the next (default: a cache line)"),
        Axis(
            "where",
            "choice",
            "device memory through its caches, an SM's shared memory, a neighbour's (dsmem), or "
            "pinned memory of the host",
            default="memory",
            choices=("memory", "shared", "dsmem", "host"),
            only="cuda",
        ),
        Axis(
            "step",
            "choice",
            "a load, one by a generic address (as compilers make of a pointer that was loaded), or "
            "an atomic addition of nothing",
            default="load",
            choices=("load", "generic", "atomic"),
            only="cuda",
        ),
        Axis(
            "pages",
            "choice",
            "huge pages or ordinary ones under the ring",
            default="huge",
            choices=("huge", "small"),
            only="cpu",
        ),
    ),
    dtypes=("int32",),
    default_dtype="int32",
    rate="s_per_step",
    cache="hot",
    draws_power=False,
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=_defaults,
    beside=_beside,
    budget_s=0.28,
    examples=(
        "pymicro latency",
        "pymicro latency --where shared,dsmem --size 16KiB",
        "pymicro latency --stride 2MiB --size 64MiB:8GiB:x2",
        "pymicro latency --device cpu --pages huge,small --size 256MiB",
    ),
)
