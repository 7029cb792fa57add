"""Numba's streams: on the CPU for real, the CUDA kernel in the simulator and as PTX. No GPU.

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
from pymicro.kernels.numba import bandwidth
from pymicro.kernels.stream import ROLES, SCALAR, SUMS

ROOT = Path(__file__).parents[3]
STORAGE = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}
# Two roundings of an element, and room for one whose terms nearly cancel.
TOLERANCE = {"fp64": 1e-14, "fp32": 5e-6, "fp16": 5e-3}
SIMULATED = [(operation, dtype) for operation in ROLES for dtype in ("fp64", "fp32")]


def worst_error(variant: str, operation: str, dtype: str, sizes, place=lambda x: x) -> float:
    errors = []
    for n in sizes:
        rng = np.random.default_rng(n)
        arrays = {name: rng.standard_normal(n).astype(STORAGE[dtype]) for name in "abc"}
        a, b, c = (arrays[name].astype(np.float64) for name in "abc")
        arrays["out"] = np.full(5, np.nan)
        target = ROLES[operation][2]
        placed = {name: place(array) for name, array in arrays.items()}
        call = bandwidth.VARIANTS[variant](operation, placed, dtype=dtype)
        placed[target][:] = np.nan
        call()
        got = placed[target]
        got = (got if isinstance(got, np.ndarray) else got.copy_to_host()).astype(np.float64)
        exact = {
            "write": np.full(n, SCALAR), "copy": a, "scale": SCALAR * c, "add": a + b,
            "triad": b + SCALAR * c, "read": a.sum(), "dot": (a * b).sum(),
        }[operation]  # fmt: skip
        size = np.abs({"read": a, "dot": a * b}.get(operation, exact)).sum()
        got = got.sum() if operation in SUMS else got
        errors.append(float(np.abs(got - exact).sum() / size))
    return max(errors)


@pytest.mark.parametrize("operation", ROLES)
@pytest.mark.parametrize("dtype", ["fp64", "fp32"])
def test_cpu_stream_is_right_and_writes_all_of_its_target(operation, dtype):
    # Fewer items than slots of `out`, and more than one chunk for each slot.
    assert worst_error("parallel", operation, dtype, (1, 3, 50001)) <= TOLERANCE[dtype]


def test_sums_do_not_drift_in_fp32():
    n = 1 << 25  # In fp32 alone, adding ones ends at 2²⁴ a chain.
    arrays = {name: np.ones(n, np.float32) for name in "abc"} | {"out": np.zeros(1)}
    bandwidth.VARIANTS["parallel"]("read", arrays, dtype="fp32")()
    assert arrays["out"].sum() == n


@pytest.fixture(scope="module")
def simulated():
    env = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(SIMULATED, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", SIMULATED, ids=lambda case: "-".join(case))
def test_cuda_stream_is_right_in_the_simulator(case, simulated):
    assert simulated[case] <= TOLERANCE[case[1]]


@pytest.mark.parametrize("operation", ROLES)
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16"])
def test_cuda_stream_loads_only_what_the_operation_reads(operation, dtype):
    pytest.importorskip("numba_cuda")
    from numba import cuda

    kernel = bandwidth.cuda_kernel(operation, dtype)
    text, _ = cuda.compile_ptx(kernel, bandwidth.cuda_signature(operation, dtype), cc=(8, 0))
    loads, stores = (len(re.findall(rf"\b{kind}\.global", text)) for kind in ("ld", "st"))
    inputs = sum(role is not None for role in ROLES[operation][:2])
    assert loads >= bandwidth.UNROLL * inputs
    assert (loads == 0) is (inputs == 0)
    assert stores >= (1 if operation in SUMS else bandwidth.UNROLL)
    assert ".local" not in text, "loaded items lie in memory"


@pytest.mark.parametrize(
    ("variant", "operation", "dtype", "capability", "runs"),
    [
        ("parallel", "copy", "fp32", None, True), ("parallel", "copy", "fp16", None, False),
        ("parallel", "copy", "fp32", (9, 0), False), ("unrolled", "copy", "fp16", (9, 0), True),
        ("unrolled", "copy", "fp32", None, False), ("unrolled", "copy", "bf16", (9, 0), False),
        ("unrolled", "gather", "fp32", (9, 0), False),
    ],
)  # fmt: skip
def test_reasons(variant, operation, dtype, capability, runs):
    reason = bandwidth.why_not(variant, operation, dtype, capability)
    assert (reason is None) is runs
    assert runs or reason.endswith(".")


if __name__ == "__main__":
    from numba import cuda

    # A part of a tile; whole tiles, a part, and more tiles than blocks.
    sizes = (7, 3 * bandwidth.THREADS * bandwidth.UNROLL + 5)
    print(json.dumps([worst_error("unrolled", *c, sizes, cuda.to_device) for c in SIMULATED]))
