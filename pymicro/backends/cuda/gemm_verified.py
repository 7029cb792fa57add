"""On which devices each GEMM row was found right at all shapes of the device test,

    OPENBLAS_NUM_THREADS=1 pytest -n 8 -v tests/backends/test_gemm_device.py

A row whose source or macros change leaves this table until that ran again. What is not here is
told as *not yet run on hardware*.
"""

from __future__ import annotations

# Path and format of rows, and what follows these in the rows' names.
_H200 = """\
sm90 bf16: 128x256x64 192x256x64 128x192x64 128x128x64 64x128x64 128x128x64_batch
sm90 bf16: 64x128x64_batch 64x64x64_batch 16x8x256_skinny 32x8x256_skinny
sm90 fp16: 128x256x64 192x256x64 128x192x64 128x128x64 64x128x64 128x128x64_batch
sm90 fp16: 64x128x64_batch 64x64x64_batch 16x8x256_skinny 32x8x256_skinny
sm90 fp8_e4m3: 128x256x128_fast-accumulate 192x256x128_fast-accumulate
sm90 fp8_e4m3: 128x192x128_fast-accumulate
sm90 fp8_e4m3: 128x128x128_fast-accumulate 64x128x128_fast-accumulate 128x192x128_promoted
sm90 fp8_e4m3: 64x128x128_promoted
sm90 int8: 128x256x128 192x256x128 128x192x128 128x128x128 64x128x128
sm90 tf32: 128x256x32 192x256x32 128x192x32 128x128x32 64x128x32
simt fp64: 64x64x16 64x64x16_nn 64x64x16_batch 64x64x16_nn-batch
simt fp32: 64x64x16 64x64x16_nn 64x64x16_batch 64x64x16_nn-batch
simt fp16: 64x64x16 64x64x16_nn 64x64x16_batch 64x64x16_nn-batch
simt bf16: 64x64x16 64x64x16_nn 64x64x16_batch 64x64x16_nn-batch
simt fp8_e4m3: 64x64x16 64x64x16_nn 64x64x16_batch 64x64x16_nn-batch
simt int8: 64x64x16 64x64x16_nn 64x64x16_batch 64x64x16_nn-batch
sm61 fp32: 128x128x8 64x64x16 128x128x8_nn 64x64x16_nn 128x128x8_batch 64x64x16_batch
sm61 fp32: 128x128x8_nn-batch 64x64x16_nn-batch
sm61 fp64: 128x128x8 64x64x16 128x128x8_nn 64x64x16_nn 128x128x8_batch 64x64x16_batch
sm61 fp64: 128x128x8_nn-batch 64x64x16_nn-batch
sm61 int8: 128x128x32 64x64x64 128x128x32_nn 64x64x64_nn 128x128x32_batch 64x64x64_batch
sm61 int8: 128x128x32_nn-batch 64x64x64_nn-batch
sm75 fp16: 128x128x32 64x64x32 128x128x32_any 64x64x32_any 128x128x32_nn 64x64x32_nn
sm75 fp16: 128x128x32_nn-any 64x64x32_nn-any
sm75 int8: 128x128x64 64x64x64 128x128x64_any 64x64x64_any 128x128x64_nn 64x64x64_nn
sm75 int8: 128x128x64_nn-any 64x64x64_nn-any
sm80 fp32: 128x128x8 64x64x16 128x128x8_nn 64x64x16_nn 128x256x32 128x256x32_nn
sm90 fp32: 128x128x8 64x64x16 128x128x8_nn 64x64x16_nn 128x256x32 128x256x32_cut 128x256x32_nn
sm90 fp32: 128x256x32_nn-cut 1x4x256_skinny 8x8x256_skinny 32x8x256_skinny
sm80 fp16: 128x128x32 64x64x64 128x256x32 128x128x32_rows4 128x128x32_any 128x128x32_nn 64x64x64_nn
sm80 fp16: 128x256x32_nn 128x128x32_nn-rows4 128x128x32_nn-any 128x128x32_batch 64x64x64_batch
sm80 fp16: 128x128x32_nn-batch 64x64x64_nn-batch
sm80 bf16: 128x128x32 64x64x64 128x256x32 128x128x32_rows4 128x128x32_any 128x128x32_nn 64x64x64_nn
sm80 bf16: 128x256x32_nn 128x128x32_nn-rows4 128x128x32_nn-any 128x128x32_batch 64x64x64_batch
sm80 bf16: 128x128x32_nn-batch 64x64x64_nn-batch
sm80 tf32: 128x128x16 64x64x32 128x256x16 128x128x16_any 128x128x16_nn 64x64x32_nn 128x256x16_nn
sm80 tf32: 128x128x16_nn-any 128x128x16_batch 64x64x32_batch 128x128x16_any-batch
sm80 tf32: 128x128x16_nn-batch 64x64x32_nn-batch 128x128x16_nn-any-batch
sm80 int8: 128x128x64 64x64x128 128x256x64 128x128x64_rows4 128x128x64_any 128x128x64_nn
sm80 int8: 128x128x64_nn-any 128x128x64_batch 64x64x128_batch
sm89 fp8_e4m3: 128x128x64 64x64x128 128x256x64 128x128x64_rows4 128x128x64_any 128x128x64_nn
sm89 fp8_e4m3: 128x128x64_nn-any
sm90 fp64: 256x128x16 128x128x16_any 256x128x16_nn 128x128x16_nn-any
sm80 fp64: 128x128x16_3stages 128x128x16_3stages-any 128x128x16_nn-3stages
sm80 fp64: 128x128x16_nn-3stages-any
sm120 fp16: 128x128x64 64x64x64
sm120 bf16: 128x128x64 64x64x64
sm120 tf32: 128x128x32 64x64x32
sm120 int8: 128x128x128 64x64x128
sm120 fp8_e4m3: 128x128x128 64x64x128
sm100 fp16: 128x128x64 64x64x64
sm100 bf16: 128x128x64 64x64x64
sm100 tf32: 128x128x32 64x64x32
sm100 int8: 128x128x128 64x64x128
"""


def _names(table: str) -> frozenset[str]:
    halves = [line.split(": ") for line in table.splitlines()]
    return frozenset(
        f"{head.replace(' ', '_')}_{tail}" for head, tails in halves for tail in tails.split()
    )


_VERIFIED = {"h200_sxm_141gb": _names(_H200)}


def ran_on(name: str) -> tuple[str, ...]:
    """Catalogue keys of the devices on which the row of this name was found right."""
    return tuple(device for device, names in _VERIFIED.items() if name in names)


def verified() -> frozenset[str]:
    """All names in the table."""
    return frozenset().union(*_VERIFIED.values())
