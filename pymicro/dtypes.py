"""Number formats as rows. Adding a format is adding a row here; nothing else knows their names.

A row says how a format is stored, what it is summed in, which row of the catalogue is its peak,
and how exact a product in it must be. It needs no numpy: encoding lives in `operands`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pymicro.errors import unknown


@dataclass(frozen=True)
class DType:
    """One number format.

    Attributes:
        name: the word on the command line and in results.
        itemsize_bytes: bytes of one stored element.
        storage: numpy dtype that holds the raw bits (bf16 lives in uint16, fp8 in uint8).
        accumulate: format of the running sum of a product.
        output: format in which a product is stored.
        significand_bits: precision including the hidden bit; 0 for integers (exact).
        peak_path: key under `ops_per_clk_per_sm` of the catalogue, dense, this accumulation.
        vector_path: the same without matrix units, None where the format has none.
        torch_name: what PyTorch calls the stored format.
        sum_bits: a right sum of k products errs by 2**-sum_bits·sqrt(k / sum_step), relative to
            the root of the summed squares; see `verify`. 0 is exact.
        sum_step: products that are added before the sum is rounded.
        cuts_inputs: products take both inputs rounded, or on some paths cut, to the precision.
        largest: largest finite number.
        smallest_normal: smallest positive number of full precision; below it errors do not shrink.
        on_cpu: whether CPUs multiply in it at all.
        min_capability: first compute capability with hardware for it; None where every CUDA
            device can at least emulate it at speed.
    """

    name: str
    itemsize_bytes: int
    storage: str
    accumulate: str
    output: str
    significand_bits: int
    peak_path: str
    vector_path: str | None
    torch_name: str
    sum_bits: int
    sum_step: int = 1
    cuts_inputs: bool = False
    largest: float = math.inf
    smallest_normal: float = 2.0**-126
    on_cpu: bool = True
    min_capability: tuple[int, int] | None = None

    @property
    def is_integer(self) -> bool:
        return self.significand_bits == 0

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding one number to this format; 0 for integers."""
        return 0.0 if self.is_integer else 2.0**-self.significand_bits


# Capabilities: CUDA programming guide, table of features per compute capability. fp16 products
# run everywhere from 5.3 (GP102 at 1/64 rate), so fp16 has no lower bound of interest here.
# An fp32 sum has 24 bits and errs by a few units; fp8 matrix units keep about 14 bits of a running
# sum and align 32 products at a time.
_ROWS = (
    DType("fp64", 8, "float64", "fp64", "fp64", 53, "fp64_tensor", "fp64", "float64", 51,
          smallest_normal=2.0**-1022),
    DType("fp32", 4, "float32", "fp32", "fp32", 24, "fp32", "fp32", "float32", 22),
    DType("tf32", 4, "float32", "fp32", "fp32", 11, "tf32_tensor", None, "float32", 22,
          cuts_inputs=True, on_cpu=False, min_capability=(8, 0)),
    DType("fp16", 2, "float16", "fp32", "fp16", 11, "fp16_tensor_fp32_acc", "fp16", "float16", 22,
          largest=65504.0, smallest_normal=2.0**-14),
    DType("bf16", 2, "uint16", "fp32", "bf16", 8, "bf16_tensor_fp32_acc", "bf16", "bfloat16", 22,
          min_capability=(8, 0)),
    DType("fp8_e4m3", 1, "uint8", "fp32", "bf16", 4, "fp8_tensor_fp32_acc", None, "float8_e4m3fn",
          13, sum_step=32, largest=448.0, smallest_normal=2.0**-6, on_cpu=False,
          min_capability=(8, 9)),
    DType("int8", 1, "int8", "int32", "int32", 0, "int8_tensor", "int8_dp4a", "int8", 0,
          min_capability=(6, 1)),
    DType("int32", 4, "int32", "int32", "int32", 0, "int32", "int32", "int32", 0),
)  # fmt: skip
DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
_ALIASES = {
    "float64": "fp64", "double": "fp64", "f64": "fp64",
    "float32": "fp32", "float": "fp32", "single": "fp32", "f32": "fp32",
    "float16": "fp16", "half": "fp16", "f16": "fp16",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3", "e4m3": "fp8_e4m3", "float8_e4m3fn": "fp8_e4m3",
    "i8": "int8", "s8": "int8", "i32": "int32",
}  # fmt: skip


def dtype(word: str) -> DType:
    """Find a format by name or common alias (`float16`, `half`, `fp8`).

    Raises:
        UsageError: no such format; the message names the nearest ones.
    """
    key = word.strip().lower()
    key = _ALIASES.get(key, key)
    if key not in DTYPES:
        raise unknown("dtype", word, DTYPES)
    return DTYPES[key]


def rate_unit(dtype: str) -> str:
    """`FLOP/s`, or `OP/s` where operations are on integers, of a format in DTYPES or another."""
    return "OP/s" if dtype.startswith("int") else "FLOP/s"
