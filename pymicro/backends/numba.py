"""Numba: CUDA kernels on a GPU, and its own CPU compiler on a CPU."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from typing import Any

from pymicro.backends.base import Place, Prepared, import_library, missing
from pymicro.backends.scripted import ScriptedBackend
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

_CPU_VARIANTS = ("parallel", "njit")


class NumbaBackend(ScriptedBackend):
    name = "numba"

    def why_not(self, place: Place) -> str | None:
        return missing("numba", "numba") or (
            missing("numba_cuda", "numba") if place.kind == "cuda" else None
        )

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        on_cpu = place.kind == "cpu"
        everything = super().variants(benchmark, dtype, place)
        return tuple(v for v in everything if (v in _CPU_VARIANTS) == on_cpu)

    def wrap(self, array: Any, dtype: str, place: Place) -> Any:
        if place.kind == "cpu":
            return array
        cuda = import_library("numba.cuda")
        cuda.select_device(place.index)
        return cuda.as_cuda_array(array)

    def prepare(self, case: Case, place: Place, arrays: Any) -> Prepared:
        if place.kind == "cpu":
            if "threads" in case.params:
                import_library("numba").set_num_threads(case.params["threads"])
            return super().prepare(case, place, arrays)
        try:
            with warnings.catch_warnings():
                # Small grids are what was asked for; Numba warns that they are small.
                warnings.simplefilter("ignore")
                return super().prepare(case, place, arrays)
        except (AttributeError, ImportError) as error:
            # Numba loads most of itself when it first compiles, and breaks there when it is older
            # than the numpy beside it.
            raise Unavailable(
                f"numba-cuda {version('numba-cuda')} does not work with numpy "
                f"{version('numpy')}: {error}."
            ) from error

    def notes(self) -> dict[str, Any]:
        return {"numba": version("numba")}


BACKEND = NumbaBackend()
