"""Backends whose kernels are files in `kernels/<language>/<benchmark>.py`: Triton, CuPy, Numba.

A kernel file offers VARIANTS (name -> prepare) and `why_not`; it imports nothing of pymicro, so a
`prepare` that cannot serve a shape says so with a ValueError. Here live only the differences
between the languages: how to wrap an array and what they need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pymicro.backends.base import Place, Prepared, require
from pymicro.benchmark import Case
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

    def notes(self) -> dict[str, Any]:
        return {}

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        module = f"pymicro.kernels.{self.name}.{benchmark}"
        if find_spec(module) is None:
            return ()
        return tuple(import_module(module).VARIANTS)

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        kernels = import_module(f"pymicro.kernels.{self.name}.{case.benchmark}")
        layout = case.params["layout"]
        require(kernels.why_not(case.variant, case.dtype, layout, place.capability))
        from pymicro.dtypes import DTYPES

        formats = {"a": case.dtype, "b": case.dtype, "c": DTYPES[case.dtype].output}
        wrapped = [self.wrap(arrays[name], formats[name], place) for name in formats]
        prepare = kernels.VARIANTS[case.variant]
        try:
            call = prepare(*wrapped, dtype=case.dtype, layout=layout)
        except ValueError as error:
            raise Unavailable(str(error)) from error
        return Prepared(call, self.notes())
