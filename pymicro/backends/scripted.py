"""Backends whose kernels are files in `kernels/<language>/<benchmark>.py`: Triton, CuPy, Numba.

A kernel file offers VARIANTS (name -> prepare) and `why_not`; it imports nothing of pymicro, so a
`prepare` that cannot serve a shape says so with a ValueError. Here live only the differences
between the languages: how to wrap an array and what they need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pymicro import calls, streams
from pymicro.backends.base import Call, Place, Prepared, require, why_no_layout
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable


class ScriptedBackend(ABC):
    """The common part; a language says what it lacks (`why_not`) and how it sees arrays."""

    name: str
    is_vendor = False
    # Variants that only call the vendor's library through this language.
    vendor_variants: tuple[str, ...] = ()

    @abstractmethod
    def why_not(self, place: Place) -> str | None: ...

    @abstractmethod
    def wrap(self, array: Any, dtype: str, place: Place) -> Any:
        """The language's own array over the same memory, in its own type for `dtype`."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(_SEAMS)

    def notes(self) -> dict[str, Any]:
        return {}

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        module = f"pymicro.kernels.{self.name}.{benchmark}"
        if find_spec(module) is None:
            return ()
        return tuple(import_module(module).VARIANTS)

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        kernels = import_module(f"pymicro.kernels.{self.name}.{case.benchmark}")

        def wrap(name: str, dtype: str) -> Any:
            return self.wrap(arrays[name], dtype, place)

        try:
            call = _SEAMS[case.benchmark](kernels, case, place, wrap)
        except ValueError as error:
            raise Unavailable(str(error)) from error
        is_launch = case.benchmark == "launch"
        told = calls.notes(self.name, case.variant, place.kind) if is_launch else {}
        if case.benchmark == "bandwidth" and (count := streams.passes(case.params)) > 1:
            told = {"passes": count}
        return Prepared(call, self.notes() | told)


def _gemm(kernels: Any, case: Case, place: Place, wrap: Callable[[str, str], Any]) -> Call:
    layout = case.params["layout"]
    require(why_no_layout(layout))
    require(kernels.why_not(case.variant, case.dtype, layout, place.capability))
    if "batch" in case.params and case.variant not in kernels.BATCHED:
        raise Unavailable(f"its {case.variant} multiplies one matrix at a time.")
    formats = {"a": case.dtype, "b": case.dtype, "c": DTYPES[case.dtype].output}
    a, b, c = (wrap(name, dtype) for name, dtype in formats.items())
    return kernels.VARIANTS[case.variant](a, b, c, dtype=case.dtype, layout=layout)


def _bandwidth(kernels: Any, case: Case, place: Place, wrap: Callable[[str, str], Any]) -> Call:
    """The suite calls inputs a, b and the output c; kernel files use BabelStream's names."""
    op = case.params["op"]
    plain = case.params.get("level", "memory") == "memory"
    if not plain or case.params["access"] != "sequential":
        raise Unavailable("these kernels go through arrays in order, in memory only.")
    require(kernels.why_not(case.variant, op, case.dtype, place.capability))
    first, second, target = import_module("pymicro.kernels.stream").ROLES[op]
    output = streams.SUMS[case.dtype] if streams.is_reduction(op) else case.dtype
    renamed = {target: wrap("c", output)}
    renamed |= {
        role: wrap(name, case.dtype) for role, name in ((first, "a"), (second, "b")) if role
    }
    count = streams.passes(case.params)
    if count > 1 and place.kind == "cuda":
        raise Unavailable("a launch on arrays this small measures the launch, not the memory.")
    once = kernels.VARIANTS[case.variant](op, renamed, dtype=case.dtype)
    if count == 1:
        return once

    def several() -> None:
        for _ in range(count):
            once()

    return several


def _launch(kernels: Any, case: Case, place: Place, wrap: Callable[[str, str], Any]) -> Call:
    """A kernel file says what is called and with what; how often is decided here."""
    asked = case.params["call"]
    given = calls.arguments(asked, wrap("c", "int32"), wrap("a", "int32"))
    function, own = kernels.VARIANTS[case.variant](asked, given)
    return calls.repeated(function, case.params["calls"], *own)


# How the kernel files of a benchmark are called.
_SEAMS: dict[str, Callable[..., Call]] = {
    "gemm": _gemm,
    "bandwidth": _bandwidth,
    "launch": _launch,
}
