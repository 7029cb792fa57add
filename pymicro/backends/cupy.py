"""CuPy: our own kernels through its RawModule, and its own matmul."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pymicro.backends.base import GPUS_ONLY, Place, import_library, missing
from pymicro.backends.scripted import ScriptedBackend


class CupyBackend(ScriptedBackend):
    name = "cupy"
    vendor_variants = ("matmul", "cublas")

    def why_not(self, place: Place) -> str | None:
        if place.kind == "cpu":
            return GPUS_ONLY
        return missing("cupy", "cupy13")

    def wrap(self, array: Any, dtype: str, place: Place) -> Any:
        cupy = import_library("cupy")
        cupy.cuda.Device(place.index).use()
        return cupy.asarray(array)

    def notes(self) -> dict[str, Any]:
        for wheel in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
            try:
                return {"cupy": version(wheel)}
            except PackageNotFoundError:
                continue
        return {}


BACKEND = CupyBackend()
