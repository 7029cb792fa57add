"""Numba's products: on the CPU for real, the CUDA kernel in the simulator and as PTX. No GPU.

Run as a program, with NUMBA_ENABLE_CUDASIM=1, this file is the simulated half: Numba reads the
variable when it is imported.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
from pymicro.kernels.numba import gemm

ROOT = Path(__file__).parents[3]
DTYPES = ("fp32", "fp64", "fp16", "int8")
LAYOUTS = ("nt", "nn")
STORAGE = {"fp32": np.float32, "fp64": np.float64, "fp16": np.float16, "int8": np.int8}
# Rounding of one element, and room for sums that nearly cancel.
TOLERANCE = {"fp32": 1e-5, "fp64": 1e-13, "fp16": 1e-3, "int8": 0}
SIMULATED = [(d, layout, *shape) for d in DTYPES for layout in LAYOUTS for shape in [(33, 9, 11)]]


def relative_error(variant, dtype, layout, m, n, k, place=lambda array: array):
    rng = np.random.default_rng(m + n + k)

    def operand(*shape):
        if dtype == "int8":
            return rng.integers(-128, 128, shape, dtype=np.int8)
        return rng.standard_normal(shape).astype(STORAGE[dtype])

    a, b = operand(m, k), operand(*((n, k) if layout == "nt" else (k, n)))
    c = place(np.full((m, n), 99, np.int32 if dtype == "int8" else STORAGE[dtype]))
    call = gemm.VARIANTS[variant](place(a), place(b), c, dtype=dtype, layout=layout)
    c[:] = 99
    call()
    got = c if isinstance(c, np.ndarray) else c.copy_to_host()
    exact = a.astype(np.float64) @ (b.T if layout == "nt" else b).astype(np.float64)
    return float(np.linalg.norm(got - exact) / np.linalg.norm(exact))


# Each case compiles for seconds, and layouts and formats meet in separate functions.
CPU_CASES = [("fp32", "nt"), ("fp32", "nn"), ("fp64", "nt"), ("fp16", "nn"), ("int8", "nt")]


@pytest.mark.parametrize(("dtype", "layout"), CPU_CASES)
def test_cpu_product_is_right(dtype, layout):
    # Past a task in each direction, past a step along k, and smaller than anything.
    for shape in [(gemm.ROWS + 3, gemm.COLUMNS + 1, gemm.K_STEP + 3), (1, 1, 1), (5, 2, 601)]:
        assert relative_error("parallel", dtype, layout, *shape) <= TOLERANCE[dtype], shape


def test_int8_is_exact_at_its_extremes():
    k = 2 * gemm.K_STEP
    a, b = np.full((2, k), -128, np.int8), np.full((3, k), -128, np.int8)
    c = np.zeros((2, 3), np.int32)
    gemm.VARIANTS["parallel"](a, b, c, dtype="int8", layout="nt")()
    assert (c == 128 * 128 * k).all()
    assert gemm.K_STEP * 128 * 128 <= 2**24, "fp32 would round the sum of one step"


@pytest.fixture(scope="module")
def simulated():
    env = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(SIMULATED, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", SIMULATED, ids=lambda case: "-".join(map(str, case)))
def test_cuda_kernel_is_right_in_the_simulator(case, simulated):
    assert simulated[case] <= TOLERANCE[case[0]]


def ptx(dtype: str, layout: str) -> str:
    pytest.importorskip("numba_cuda")
    from numba import cuda

    kernel = gemm.cuda_kernel(dtype, layout, gemm._CUDA_TYPES[dtype][2])
    text, _ = cuda.compile_ptx(kernel, gemm.cuda_signature(dtype), cc=(8, 0))
    return text


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cuda_kernel_keeps_its_sums_in_registers(dtype, layout):
    text = ptx(dtype, layout)
    fused = {"fp64": r"fma\.rn\.f64", "int8": r"mad\.lo\.s32"}.get(dtype, r"fma\.rn\.f32")
    assert len(re.findall(fused, text)) >= gemm._CUDA_TYPES[dtype][2] ** 2
    assert "ld.shared" in text
    assert ".local" not in text, "an array of sums lies in memory"


def test_numpy_without_row_stack_still_compiles():
    pytest.importorskip("numba_cuda")
    program = (
        "import numpy, sys; sys.path.insert(0, sys.argv[1])\n"
        "if hasattr(numpy, 'row_stack'): del numpy.row_stack\n"
        "from pymicro.kernels.numba import gemm\n"
        "from numba import cuda\n"
        "cuda.compile_ptx(lambda a: None, (gemm.cuda_signature('fp32')[0],), cc=(8, 0))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("variant", "dtype", "capability", "runs"),
    [
        ("parallel", "fp32", None, True), ("parallel", "fp32", (9, 0), False),
        ("tiled", "fp32", (9, 0), True), ("tiled", "fp32", None, False),
        ("tiled", "bf16", (9, 0), False), ("parallel", "fp8_e4m3", None, False),
        ("tiled", "tf32", (9, 0), False),
    ],
)  # fmt: skip
def test_reasons(variant, dtype, capability, runs):
    reason = gemm.why_not(variant, dtype, "nt", capability)
    assert (reason is None) is runs
    assert runs or reason.endswith(".")


if __name__ == "__main__":
    from numba import cuda

    assert gemm.why_not("tiled", "fp32", "nt", None) is None
    print(json.dumps([relative_error("tiled", *case, place=cuda.to_device) for case in SIMULATED]))
