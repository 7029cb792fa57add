"""Triton kernels; tensors come from torch, through which Triton launches."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pymicro.backends.base import GPUS_ONLY, Place, import_library, missing
from pymicro.backends.scripted import ScriptedBackend
from pymicro.backends.torch import BACKEND as TORCH
from pymicro.backends.torch import as_tensor


class TritonBackend(ScriptedBackend):
    name = "triton"

    def why_not(self, place: Place) -> str | None:
        if place.kind == "cpu":
            return GPUS_ONLY
        return missing("triton", "triton") or TORCH.why_not(place)

    def wrap(self, array: Any, dtype: str, place: Place) -> Any:
        return as_tensor(import_library("torch"), array, dtype, place)

    def notes(self) -> dict[str, Any]:
        return {"triton": version("triton")}


BACKEND = TritonBackend()
