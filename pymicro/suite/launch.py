"""The price of asking: seconds a call through each software layer, with next to nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro import calls
from pymicro.benchmark import Axis, Benchmark, Clock, Operand, Params, Work
from pymicro.errors import WrongResult

if TYPE_CHECKING:
    import numpy as np

    from pymicro.verify import Check


class _Arrived:
    """A launch's arguments arrived if the kernel could add them up."""

    def __init__(self, call: str, first: int) -> None:
        self._expected = calls.expected(call, first)

    def check(self, out: np.ndarray) -> Check:
        """Compare the sum that the kernel left.

        Raises:
            WrongResult: it is another.
        """
        from pymicro.verify import Check

        found = int(out.view("uint32")[0])
        if found != self._expected:
            raise WrongResult(f"wrong result: the arguments sum to {self._expected}, not {found}.")
        return Check("sum of the arguments", 0.0, 0.0)


class _Ran:
    """A call without arguments leaves nothing to compare; it ran without an error."""

    def check(self, out: np.ndarray) -> Check:
        from pymicro.verify import Check

        return Check("ran without an error", 0.0, 0.0)


def _operands(dtype: str, p: Params) -> tuple[Operand, ...]:
    return Operand("a", (8,), "int32"), Operand("c", (1,), "int32", fill="output")


def _work(dtype: str, p: Params) -> Work:
    return Work(steps=p["calls"])


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> _Arrived | _Ran:
    if not calls.is_launch(p["call"]) or not calls.LAUNCHES[p["call"]][0]:
        return _Ran()
    return _Arrived(p["call"], int(inputs["a"].view("uint32")[0]))


def _clock(p: Params) -> Clock:
    return Clock("device" if p.get("side") == "device" else "host", p["calls"])


def _kernels() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every row: who asks, through what, for what, and where that has run."""
    return ("backend", "variant", "what it does", "has run on"), [
        (row.backend, row.variant, row.does, " ".join(row.ran_on) or "not yet run on hardware")
        for row in calls.ROWS
    ]


BENCHMARK = Benchmark(
    name="launch",
    summary="What a call costs the host: seconds through each software layer, with nothing to do.",
    axes=(
        Axis(
            "call",
            "choice",
            "a launch with no, 3 or 16 arguments; "
            + "; ".join(f"{name}: {does}" for name, does in calls.OTHERS.items()),
            default="all",
            choices=calls.CALLS,
        ),
        Axis(
            "side",
            "choice",
            "host: what asking costs it; device: from one launch to the next, all queued before",
            default="all",
            choices=("host", "device"),
            only="cuda",
        ),
        Axis("calls", "count", "calls in a row, and nodes of the graph", default="100"),
    ),
    dtypes=("int32",),
    default_dtype="int32",
    rate="s_per_step",
    cache="hot",
    draws_power=False,
    budget_s=0.4,
    on_request={
        "compiled": "its compiler takes ten seconds to import; --backend torch measures it."
    },
    looks=2,
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=lambda kind, peak: {},
    examples=(
        "pymicro launch",
        "pymicro launch --call args3 --backend cuda,torch      torch.compile too",
        "pymicro launch --device cpu --call args0,args3,args16",
        "pymicro launch --list",
    ),
    kernels=_kernels,
    clock=_clock,
    applies=calls.applies,
)
