"""Our own CUDA C++ from `csrc/cuda`, compiled by NVRTC for the chip found."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pymicro.backends.base import GPUS_ONLY, Place, Prepared, missing
from pymicro.benchmark import Case


class CudaBackend:
    """A benchmark's kernels are a module here: `gemm` offers `variants` and `prepare`."""

    name = "cuda"
    is_vendor = False
    vendor_variants = ("driver",)

    def why_not(self, place: Place) -> str | None:
        if place.kind == "cpu":
            return GPUS_ONLY
        return missing("cuda.core", "cuda13")

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        module = f"pymicro.backends.cuda.{benchmark}"
        if find_spec(module) is None:
            return ()
        return import_module(module).variants(dtype, place)

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        module = import_module(f"pymicro.backends.cuda.{case.benchmark}")
        return module.prepare(case, place, arrays)


BACKEND = CudaBackend()
