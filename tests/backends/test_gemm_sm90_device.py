"""Hopper's GEMM rows on a Hopper GPU, against float64 on the CPU; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from pymicro import compiler, driver
from pymicro.backends.cuda import gemm_sm90
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.backends.cuda.gemm_sm90 import ROWS
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable

# Rounding of the operands is exact here (they are rounded before the reference is computed), so
# what is left is the rounding of C, and for tf32 that of the operands inside the copy engine.
LIMITS = {"fp16": 4e-4, "bf16": 3e-3, "fp8_e4m3": 3e-3, "tf32": 6e-4, "int8": 0.0}
ALIGNED = {"fp16": (8, 8), "bf16": (8, 8), "fp8_e4m3": (8, 16), "tf32": (4, 4), "int8": (4, 16)}
# Sides around the tiles' edges, tiny ones, and deep ones whose tiles are cut along k.
SHAPES = [
    (1, 8, 16), (1, 1024, 512), (63, 64, 64), (64, 128, 128), (65, 136, 80), (127, 256, 192),
    (128, 264, 64), (129, 192, 320), (191, 512, 48), (193, 520, 144), (256, 256, 256),
    (257, 248, 272), (384, 768, 96), (385, 776, 336), (511, 384, 1024), (640, 2056, 208),
    (1000, 1048, 560), (32, 512, 4096), (130, 1032, 8192), (300, 200, 6160),
]  # fmt: skip


@pytest.fixture(scope="module")
def gpu() -> driver.Gpu:
    try:
        found = driver.open_gpu(0)
    except Unavailable as reason:
        pytest.skip(str(reason))
    if found.capability != (9, 0):
        pytest.skip(f"compute capability {found.capability}, not 9.0")
    return found


def bf16_values(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def e4m3_values(bits: np.ndarray) -> np.ndarray:
    """The 8-bit format of the OCP specification: exponent bias 7, no infinities."""
    exponent, mantissa = (bits >> 3 & 15).astype(np.int32), (bits & 7).astype(np.float64)
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    size = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), normal)
    return np.where(bits & 128, -size, size)


def operand(rng: np.random.Generator, rows: int, columns: int, dtype: str):
    """Bits for the device and the numbers that they mean."""
    if dtype == "int8":
        bits = rng.integers(-128, 128, (rows, columns), dtype=np.int8)
        return bits, bits.astype(np.float64)
    normal = rng.standard_normal((rows, columns), dtype=np.float32)
    if dtype == "tf32":
        return normal, normal.astype(np.float64)
    if dtype == "fp16":
        return normal.astype(np.float16), normal.astype(np.float16).astype(np.float64)
    if dtype == "bf16":
        bits = (normal.view(np.uint32) >> 16).astype(np.uint16)
        return bits, bf16_values(bits)
    every = e4m3_values(np.arange(127, dtype=np.uint8))
    size = np.abs(normal).astype(np.float64)
    bits = np.searchsorted(every, size).clip(0, 126).astype(np.uint8)
    bits |= np.where(normal < 0, 128, 0).astype(np.uint8)
    return bits, e4m3_values(bits)


def product(kernel: GemmKernel, gpu: driver.Gpu, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernel's C as numbers, its memory filled with NaN (or 0xff) before."""
    output = DTYPES[kernel.dtype].output
    buffers = [driver.Buffer(x.shape, str(x.dtype)) for x in (a, b)]
    c = driver.Buffer((a.shape[0], b.shape[0]), DTYPES[output].storage)
    for buffer, values in zip(buffers, (a, b), strict=True):
        buffer.upload(np.ascontiguousarray(values))
    c.fill_bytes(0xFF)
    driver.check(driver.cuda().cuCtxSynchronize())
    cubin = compiler.compile_cubin(kernel.source, "sm_90a", kernel.defines)
    loaded = driver.Kernel.load(cubin, kernel.entry, kernel.shared_bytes)
    call = gemm_sm90.bind(
        kernel, loaded, buffers[0].ptr, buffers[1].ptr, c.ptr, a.shape[0], b.shape[0], a.shape[1],
        stream=driver.new_stream(), sm_count=gpu.attribute("MULTIPROCESSOR_COUNT"),
    )  # fmt: skip
    call()
    call()  # Flags of cut tiles must be down again after the first.
    bits = c.download()
    for buffer in (*buffers, c):
        buffer.free()
    return bf16_values(bits) if output == "bf16" else bits.astype(np.float64)


@pytest.mark.parametrize("kernel", ROWS, ids=lambda r: r.name)
def test_against_float64(kernel: GemmKernel, gpu: driver.Gpu) -> None:
    rng = np.random.default_rng()
    wide, deep = ALIGNED[kernel.dtype]
    for m, n, k in SHAPES:
        n, k = -(-n // wide) * wide, -(-k // deep) * deep
        a, a_values = operand(rng, m, k, kernel.dtype)
        b, b_values = operand(rng, n, k, kernel.dtype)
        expected = a_values @ b_values.T
        error = np.linalg.norm(product(kernel, gpu, a, b) - expected) / np.linalg.norm(expected)
        assert error <= LIMITS[kernel.dtype], (m, n, k, error)


def test_more_than_two_to_the_31_elements(gpu: driver.Gpu) -> None:
    rng = np.random.default_rng()
    kernel = gemm_sm90.choose(65_600, 32_776, 64, "fp16", 132)
    a, a_values = operand(rng, 65_600, 64, "fp16")
    b, b_values = operand(rng, 32_776, 64, "fp16")
    last = product(kernel, gpu, a, b)[-100:]
    expected = a_values[-100:] @ b_values.T
    assert np.linalg.norm(last - expected) <= LIMITS["fp16"] * np.linalg.norm(expected)
