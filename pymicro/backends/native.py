"""Our own C++ on the CPU, through the extension module `pymicro._native`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pymicro import calls
from pymicro.backends.base import Place, Prepared, require, why_no_layout
from pymicro.benchmark import Case
from pymicro.errors import Unavailable


class NativeBackend:
    name = "native"
    is_vendor = False
    vendor_variants = ()

    def why_not(self, place: Place) -> str | None:
        if place.kind != "cpu":
            return "native runs on the CPU."
        try:
            import pymicro._native  # noqa: F401
        except ImportError:
            return _why_no_module()
        return None

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        own = {
            "gemm": ("packed",),
            "bandwidth": ("ordinary", "nontemporal"),
            "latency": ("chase",),
            "launch": calls.variants_of(self.name, "cpu"),
            "peak": ("issue",),
        }
        return own.get(benchmark, ())

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        from pymicro import _native

        if case.benchmark == "bandwidth":
            return _stream(_native, case, arrays)
        if case.benchmark == "latency":
            return _chase(_native, case, arrays)
        if case.benchmark == "launch":
            return _call(_native, case, arrays)
        if case.benchmark == "peak":
            return _issue(_native, case, arrays)
        require(why_no_layout(case.params["layout"]))
        paths = _native.gemm_paths(case.dtype)
        require(None if paths else f"native has no {case.dtype} product on a CPU.")
        a, b, c = arrays["a"], arrays["b"], arrays["c"]
        dtype, layout, threads = case.dtype, case.params["layout"], case.params["threads"]
        path = paths[0]
        products = list(zip(a, b, c, strict=True)) if "batch" in case.params else [(a, b, c)]

        def call() -> None:
            for left, right, result in products:
                _native.gemm(left, right, result, dtype, layout, threads, path)

        return Prepared(call, {"path": path})


def _stream(native: Any, case: Case, arrays: Mapping[str, Any]) -> Prepared:
    """A stream on pinned threads, over copies of the inputs that the same threads touched first."""
    from pymicro.streams import SCALARS, is_reduction, passes

    op, threads, nontemporal = case.params["op"], case.params["threads"], case.variant != "ordinary"
    if case.params["access"] != "sequential":
        raise Unavailable("native streams in sequence only.")
    if case.dtype not in ("fp64", "fp32", "int32"):
        raise Unavailable("native streams fp64, fp32 and int32 only.")
    if nontemporal and is_reduction(op):
        raise Unavailable(f"{op} stores nothing worth keeping from the caches.")
    c, times = arrays["c"], passes(case.params)
    inputs = {n: native.stream_placed(arrays[n], threads) for n in "ab" if n in arrays}
    a, b = inputs.get("a", c), inputs.get("b", c)
    scalar, path = float(SCALARS[case.dtype]), native.stream_paths()[0]

    def call() -> None:
        native.stream(op, a, b, c, scalar, threads, times, nontemporal, path)

    return Prepared(call, {"path": path, "passes": times, "pinned": True})


def _chase(native: Any, case: Case, arrays: Mapping[str, Any]) -> Prepared:
    """A walk on a pinned core through a ring laid there."""
    from pymicro import chains

    steps, out = chains.steps(case.params), arrays["c"].view("int64")
    wants_huge = case.params["pages"] == "huge"
    chain = native.Chain(arrays["order"], case.params["stride"], wants_huge)

    def call() -> None:
        out[2] = chain.walk(steps)

    return Prepared(call, {"huge_page_bytes": chain.huge_bytes(), "pinned": True})


def _nothing() -> None:
    pass


def _call(native: Any, case: Case, arrays: Mapping[str, Any]) -> Prepared:
    """A function that does next to nothing, called from Python; see `csrc/launch.hpp`."""
    asked, count, variant = case.params["call"], case.params["calls"], case.variant
    a, c = arrays["a"], arrays["c"]
    if variant == "python":
        call = calls.repeated(_nothing, count)
    elif variant == "pybind11":
        function = getattr(native, asked.replace("args", "call"))
        call = calls.repeated(function, count, *calls.arguments(asked, c, a))
    else:
        given = calls.arguments(asked, c.ctypes.data, a.ctypes.data)
        call = calls.repeated(_c_function(native.__file__, asked), count, *given)
    return Prepared(call, calls.notes("native", variant, "cpu"))


def _c_function(library: str, asked: str) -> Any:
    inputs, numbers = calls.LAUNCHES[asked]
    function = getattr(ctypes.CDLL(library), f"pymicro_{asked}")
    pointers = [ctypes.c_void_p] * (inputs + 1) if inputs else []
    function.argtypes, function.restype = [*pointers, *[ctypes.c_int32] * numbers], None
    return function


def _issue(native: Any, case: Case, arrays: Mapping[str, Any]) -> Prepared:
    """A register-only loop on all threads."""
    from pymicro.issue import CPU_PROBES

    probe = CPU_PROBES[case.params["unit"], case.dtype]
    if probe.name not in native.peak_probes():
        raise Unavailable(f"this CPU has no {probe.unit} of {probe.dtype}.")
    a, b, c, threads = arrays["a"], arrays["b"], arrays["c"], case.params["threads"]
    if case.dtype == "int8" and probe.terms == 2:  # These instructions multiply 16-bit numbers.
        a, b = a.astype("int16"), b.astype("int16")

    def call() -> None:
        native.issue(probe.name, a, b, c, threads, probe.blocks)

    return Prepared(call, {"kernel": probe.name})


def _why_no_module() -> str:
    import pymicro

    if (Path(pymicro.__file__).parents[1] / "setup.py").exists():
        return (
            "this is pymicro's source tree without its compiled part, which hides an installed "
            "pymicro; run the command `pymicro`, or install the tree with pip install -e ."
        )
    return (
        "the C++ module was not built when pymicro was installed (no compiler then?); "
        "install a C++20 compiler and reinstall pymicro."
    )


BACKEND = NativeBackend()
