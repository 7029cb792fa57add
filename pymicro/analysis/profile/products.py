"""Matrix products in a trace: their work from the operands' shapes, and the peak they run under."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from pymicro.devices.finder import find
from pymicro.devices.peaks import peak_ops_per_s
from pymicro.devices.spec import DeviceSpec
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError

# Where the two factors stand among an operator's inputs.
_FACTORS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::_addmm_activation": (1, 2),
    "aten::_scaled_mm": (0, 1),
    "aten::_int_mm": (0, 1),
}
_FORMATS = {
    "double": "fp64",
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8_e4m3",
    "c10::Float8_e5m2": "fp8_e5m2",
    "signed char": "int8",
}


@dataclass(frozen=True)
class Product:
    """One product: 2·m·n·k operations a matrix of the batch, in a format or, unknown, in ''."""

    shapes: str
    flop: int
    dtype: str


def product(operator: str, dims: Any, types: Any) -> Product | None:
    """The product that an operator computes; None for other operators and unrecorded shapes."""
    factors = _FACTORS.get(operator)
    if factors is None or not isinstance(dims, list) or len(dims) <= factors[1]:
        return None
    left, right = dims[factors[0]], dims[factors[1]]
    if not (_is_shape(left) and _is_shape(right)) or left[-1] != right[-2]:
        return None
    named = types[factors[0]] if isinstance(types, list) and len(types) > factors[0] else ""
    return Product(shapes(dims), 2 * prod(left) * right[-1], _FORMATS.get(str(named), ""))


def _is_shape(dims: Any) -> bool:
    return isinstance(dims, list) and len(dims) >= 2 and all(isinstance(d, int) for d in dims)


def shapes(dims: Any) -> str:
    """`[[8, 4], [4, 2], []]` is `8×4, 4×2`."""
    if not isinstance(dims, list):
        return str(dims)
    return ", ".join("×".join(map(str, d)) for d in dims if isinstance(d, list) and d)


def format_of(product: Product, on_tensor_cores: bool | None) -> str:
    """The number format in which the product ran: FP32 operands on matrix units are TF32."""
    return "tf32" if product.dtype == "fp32" and on_tensor_cores else product.dtype


def spec_of(device: str) -> DeviceSpec | None:
    """The catalogue's row of a device, if its name is in there without a choice."""
    try:
        match = find(device)
    except UsageError:
        return None
    return None if match.alternatives else match.spec


def peak(spec: DeviceSpec | None, format_: str) -> float | None:
    """The data sheet's operations a second in a format; None where either is not known."""
    if spec is None or format_ not in DTYPES:
        return None
    return peak_ops_per_s(spec, DTYPES[format_])
