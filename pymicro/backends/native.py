"""Our own C++ on the CPU, through the extension module `pymicro._native`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymicro.backends.base import Place, Prepared, require
from pymicro.benchmark import Case


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
            return (
                "the C++ module was not built when pymicro was installed (no compiler then?); "
                "install a C++20 compiler and reinstall pymicro."
            )
        return None

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        return ("packed",) if benchmark == "gemm" else ()

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        from pymicro import _native

        paths = _native.gemm_paths(case.dtype)
        require(None if paths else f"native has no {case.dtype} product on a CPU.")
        a, b, c = arrays["a"], arrays["b"], arrays["c"]
        dtype, layout, threads = case.dtype, case.params["layout"], case.params["threads"]
        path = paths[0]

        def call() -> None:
            _native.gemm(a, b, c, dtype, layout, threads, path)

        return Prepared(call, {"path": path})


BACKEND = NativeBackend()
