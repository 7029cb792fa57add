"""Which of our GEMM kernels serves a case, and the call that launches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.backends.cuda import gemm_loaded, gemm_portable, gemm_sm90, gemm_tuned
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.benchmark import Case
from pymicro.errors import PymicroError, Unavailable, UsageError

FASTEST = "fastest"


def rows() -> tuple[GemmKernel, ...]:
    """All kernels of all generations, the newest path first."""
    return gemm_sm90.ROWS + gemm_portable.ROWS


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    """The ways of multiplying in a format that a user may want to compare.

    On Hopper fp8 sums are fast, or `promoted` to fp32 registers every 128 terms.
    """
    promoted = dtype == "fp8_e4m3" and place.capability == (9, 0)
    return (FASTEST, "promoted") if promoted else (FASTEST,)


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Compile, load and bind the kernel for a case; what `--tune` found here goes first.

    Raises:
        Unavailable: none fits the format, layout, alignment or the path asked for.
    """
    if case.variant in gemm_loaded.VARIANTS:
        chosen = choose(replace(case, variant=FASTEST), place)
        return gemm_loaded.prepare(chosen, case, place, arrays)
    row, said = _remembered(case, place)
    row = row or choose(case, place)
    call = bound(row, case, place, arrays)
    return Prepared(call, {"kernel": row.name, "ran_on": list(row.ran_on), **said})


def bound(
    row: GemmKernel, case: Case, place: Place, arrays: Mapping[str, Any]
) -> Callable[[], None]:
    """The launch of a row on the arrays of a case; it is compiled and loaded here.

    Raises:
        Unavailable, UsageError: the row cannot serve them.
    """
    pointers = tuple(arrays[name].ptr for name in "abc")
    sizes, layout, batch = _problem(case)
    return bind(row, load(row, place), pointers, sizes, layout, place, batch)


def candidates(case: Case, place: Place) -> tuple[GemmKernel, ...]:
    """All rows that can serve a case here, trusted or not; fp8 rows add up as the variant says."""
    assert place.capability is not None
    sizes, layout, batch = _problem(case)
    return tuple(
        row
        for row in rows()
        if row.dtype == case.dtype
        and row.runs_on(place.capability)
        and (row.variant == "promoted") == (case.variant == "promoted")
        and row.batched == (batch > 1)
        and layout in row.layouts
        and refusal(row, sizes, layout, batch) is None
    )


def _problem(case: Case) -> tuple[tuple[int, ...], str, int]:
    """m, n and k, the layout of B, and how many such products there are."""
    p = case.params
    return tuple(p[side] for side in "mnk"), p["layout"], p.get("batch", 1)


def _remembered(case: Case, place: Place) -> tuple[GemmKernel | None, dict[str, Any]]:
    """The row that `--tune` found for a case, and what the result is to say of it."""
    if case.params["path"] != "auto":
        return None, {}
    try:
        memory = gemm_tuned.Memory()
        if not memory.path.exists():
            return None, {}
        key = gemm_tuned.device_key(place.index)
        row = memory.winner(key, case, candidates(case, place))
    except (PymicroError, OSError) as error:
        return None, {"tuned": False, "tuning": str(error)}
    return row, {} if row is None else {"tuned": True}


def bind(
    row: GemmKernel,
    kernel: driver.Kernel,
    pointers: tuple[int, ...],
    sizes: tuple[int, ...],
    layout: str,
    place: Place,
    batch: int = 1,
) -> Callable[[], None]:
    """The launch of a row on A, B and C at these addresses, of m, n and k; of `batch` such.

    Raises:
        Unavailable, UsageError: the row cannot serve them.
    """
    (a, b, c), (m, n, k) = pointers, sizes
    if row in gemm_sm90.ROWS:
        return gemm_sm90.bind(row, kernel, a, b, c, m, n, k, place.stream, place.sm_count, batch)
    return gemm_portable.bind(
        row, kernel, a, b, c, m, n, k, layout, place.stream, batch, place.sm_count
    )


def refusal(row: GemmKernel, sizes: tuple[int, ...], layout: str, batch: int = 1) -> str | None:
    """Why a row cannot serve a shape; None if it can."""
    m, n, k = sizes
    if row in gemm_sm90.ROWS:
        return gemm_sm90.refusal(row, m, n, k, batch=batch)
    return gemm_portable.refusal(row, m, n, k, layout, batch)


def choose(case: Case, place: Place) -> GemmKernel:
    """The kernel for a case: the newest path that fits, or the best of the path asked for.

    Raises:
        Unavailable: none fits.
    """
    assert place.capability is not None
    p, path = case.params, case.params["path"]
    sm90 = _sm90(case, place) if path in ("auto", "sm90") else None
    if sm90 is not None and not (case.variant == FASTEST and _few_rows(case, place)):
        return sm90
    if case.variant != FASTEST:
        raise Unavailable(
            "the kernels written for Hopper need B as n×k and rows of whole 16 bytes."
        )
    try:
        return gemm_portable.choose(
            p["m"],
            p["n"],
            p["k"],
            case.dtype,
            p["layout"],
            place.capability,
            None if path == "auto" else path,
            p.get("batch", 1),
            place.sm_count,
        )
    except UsageError as error:
        raise Unavailable(str(error)) from error


def _few_rows(case: Case, place: Place) -> bool:
    """Whether a kernel made for few rows of A, and trusted, serves the case."""
    return any(
        gemm_portable.is_skinny(row) and row.is_trusted and case.params["m"] <= row.tile[0]
        for row in candidates(case, place)
    )


def _sm90(case: Case, place: Place) -> GemmKernel | None:
    """Hopper's own kernel, where it can serve the case."""
    p = case.params
    if place.capability != (9, 0) or p["layout"] != "nt":
        return None
    variant = "" if case.variant == FASTEST else case.variant
    try:
        return gemm_sm90.choose(
            p["m"], p["n"], p["k"], case.dtype, place.sm_count, variant, batch=p.get("batch", 1)
        )
    except Unavailable:
        return None


def load(row: GemmKernel, place: Place) -> driver.Kernel:
    """Machine code of a row for this device, loaded."""
    assert place.capability is not None
    major, minor = place.capability
    arch = f"sm_{major}{minor}{row.arch_suffix}"
    cubin = compiler.compile_cubin(row.source, arch, row.defines)
    return driver.Kernel.load(cubin, row.entry, row.shared_bytes)
