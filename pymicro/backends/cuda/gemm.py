"""Which of our GEMM kernels serves a case, and the call that launches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.backends.cuda import gemm_portable
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

Bind = Callable[..., Callable[[], None]]
FASTEST = "fastest"


def rows() -> tuple[GemmKernel, ...]:
    """All kernels of all generations."""
    return gemm_portable.ROWS


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    """`fastest`, and the names of further ways of summing where a format has several."""
    named = {row.variant for row in rows() if row.dtype == dtype and _fits(row, place)}
    return (FASTEST, *sorted(named - {""}))


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Compile, load and bind the kernel for a case.

    Raises:
        Unavailable: none fits the format, layout, alignment or the path asked for.
    """
    p = case.params
    row = gemm_portable.choose(
        p["m"], p["n"], p["k"], case.dtype, p["layout"], place.capability, _path(p)
    )
    a, b, c = (arrays[name].ptr for name in "abc")
    kernel = load(row, place)
    call = gemm_portable.bind(
        row, kernel, a, b, c, p["m"], p["n"], p["k"], p["layout"], place.stream
    )
    return Prepared(call, {"kernel": row.name, "ran_on": list(row.ran_on)})


def load(row: GemmKernel, place: Place) -> driver.Kernel:
    """Machine code of a row for this device, loaded."""
    assert place.capability is not None
    major, minor = place.capability
    arch = f"sm_{major}{minor}{row.arch_suffix}"
    cubin = compiler.compile_cubin(row.source, arch, row.defines)
    return driver.Kernel.load(cubin, row.entry, row.shared_bytes)


def _path(params: Mapping[str, Any]) -> str | None:
    path = params.get("path", "auto")
    return None if path == "auto" else path


def _fits(row: GemmKernel, place: Place) -> bool:
    return place.capability is not None and row.runs_on(place.capability)


def refuse(reason: str) -> Unavailable:
    return Unavailable(reason)
