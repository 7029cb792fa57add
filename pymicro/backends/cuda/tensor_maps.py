"""Descriptors of the tensor copy engine (TMA, Hopper on) for row-major matrices."""

from __future__ import annotations

from pymicro import driver
from pymicro.dtypes import DTYPES

# TFLOAT32 makes the copy engine round fp32 to tf32; wgmma alone would cut the low bits off.
_TYPES = {
    "fp16": "FLOAT16", "bf16": "BFLOAT16", "fp8_e4m3": "UINT8", "int8": "UINT8",
    "tf32": "TFLOAT32", "fp32": "FLOAT32", "fp64": "FLOAT64", "int32": "INT32",
}  # fmt: skip


def tensor_map(
    dtype: str,
    ptr: int,
    rows: int,
    columns: int,
    box: tuple[int, int],
    promotion_bytes: int = 128,
) -> driver.TensorMap:
    """A map of a matrix in boxes of `box` rows and columns, 128-byte swizzle, zeros outside.

    An empty matrix (no k) is described as one of a single row and column that nobody reads.
    `promotion_bytes` (128, 256) is what the second-level cache fetches at least.
    """
    cuda = driver.cuda()
    kind = getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[dtype]}")
    promotion = f"CU_TENSOR_MAP_L2_PROMOTION_L2_{promotion_bytes}B"
    pitch_bytes = max(columns * DTYPES[dtype].itemsize_bytes, 16)
    u32, u64 = cuda.cuuint32_t, cuda.cuuint64_t
    return driver.TensorMap(
        driver.check(
            cuda.cuTensorMapEncodeTiled(
                kind,
                2,
                ptr,
                [u64(max(columns, 1)), u64(max(rows, 1))],
                [u64(pitch_bytes)],
                [u32(box[1]), u32(box[0])],
                [u32(1), u32(1)],
                cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
                getattr(cuda.CUtensorMapL2promotion, promotion),
                cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
    )
