"""What is to be run: every combination of backend, variant, format and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymicro import backends
from pymicro.backends.base import offered
from pymicro.benchmark import Benchmark, Case
from pymicro.dtypes import DTYPES
from pymicro.workbench import Workbench


def cases(
    benchmark: Benchmark,
    bench: Workbench,
    backend_names: Sequence[str],
    dtypes: Sequence[str],
    points: Sequence[Mapping[str, Any]],
) -> list[Case]:
    """Every combination, problem by problem, so that operands are drawn once for all backends.

    A backend that cannot run here gets one case per format with variant "", to be skipped.
    """
    found = []
    for dtype in dtypes:
        first = True
        for point in points:
            for name in backend_names:
                variants, _ = offered(backends.backend(name), benchmark.name, dtype, bench.place)
                chosen = [v for v in variants if benchmark.applies(v, point)]
                if not variants and first:
                    chosen = [""]
                found += [Case(benchmark.name, name, v, dtype, point) for v in chosen]
            first = False
    return found


def problems(planned: Sequence[Case]) -> int:
    """How many different problems a plan has; all backends of one share its operands."""
    return len({problem_key(case) for case in planned})


def problem_key(case: Case) -> tuple[Any, ...]:
    return (case.dtype, *case.params.items())


def case_key(case: Case) -> tuple[Any, ...]:
    return (case.backend, case.variant, *problem_key(case))


def why_not_dtype(name: str, kind: str, capability: tuple[int, int] | None) -> str | None:
    """Why a device lacks a format; None if it has it or can emulate it."""
    first = DTYPES[name].min_capability
    if kind == "cpu" and not DTYPES[name].on_cpu:
        return f"CPUs have no {name}."
    if capability is not None and first is not None and capability < first:
        need, have = (".".join(map(str, c)) for c in (first, capability))
        return f"{name} needs compute capability {need}; this device has {have}."
    return None


def is_vendor(case: Case) -> bool:
    """Whether the case calls the vendor's or framework's library, the yardstick of the others."""
    backend = backends.backend(case.backend)
    return backend.is_vendor or case.variant in backend.vendor_variants
