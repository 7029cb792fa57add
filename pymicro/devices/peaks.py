"""The peak of a device in a number format, and the plain facts of a device for results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymicro.devices.cpu import CpuSpec
from pymicro.devices.spec import DeviceSpec
from pymicro.dtypes import DTYPES, DType

Spec = DeviceSpec | CpuSpec


def peak_path(spec: Spec, dtype: DType) -> str | None:
    """The arithmetic path whose peak a product in `dtype` is held against.

    The matrix unit's where the device has one, else the vector unit's; None where neither is
    known.
    """
    for path in (dtype.peak_path, dtype.vector_path):
        if path is not None and spec.ops_per_clk(path):
            return path
    return None


def peak_ops_per_s(spec: Spec | None, dtype: DType) -> float | None:
    """Operations a second at the nominal clock, dense; None where it is not known."""
    path = peak_path(spec, dtype) if spec is not None else None
    return spec.peak_ops_per_s(path) if spec is not None and path is not None else None


def _caches(spec: Spec) -> dict[str, int]:
    """Sizes that one core or SM has, or shares, from the nearest cache on; unknown ones absent."""
    names = {"L1": "l1_and_shared_bytes_per_sm", "L2": "l2_bytes"}
    if isinstance(spec, CpuSpec):
        names = {"L1": "l1d_bytes", "L2": "l2_bytes", "L3": "l3_bytes"}
    return {name: size for name, field in names.items() if (size := getattr(spec, field))}


def facts(spec: Spec | None) -> Mapping[str, Any]:
    """What analysis needs to know of a device's paper figures, kept in each of its results."""
    if spec is None:
        return {}
    paths = {name: path for name, row in DTYPES.items() if (path := peak_path(spec, row))}
    vector = {n: r.vector_path for n, r in DTYPES.items() if r.vector_path}
    vector = {name: path for name, path in vector.items() if spec.ops_per_clk(path)}
    return {
        "key": spec.key,
        "sm_count": getattr(spec, "sm_count", None),
        "memory_bytes_per_s": spec.memory_bytes_per_s,
        "memory_type": getattr(spec, "memory_type", "") or None,
        "caches": _caches(spec),
        "peak_ops_per_s": {name: spec.peak_ops_per_s(path) for name, path in paths.items()},
        "ops_per_clk": {name: spec.ops_per_clk(path) for name, path in paths.items()},
        "vector_peak_ops_per_s": {n: spec.peak_ops_per_s(path) for n, path in vector.items()},
        "vector_ops_per_clk": {name: spec.ops_per_clk(path) for name, path in vector.items()},
        "peaks_computed": getattr(spec, "computed", False),
    }
