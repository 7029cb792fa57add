"""Triton's streams: numbers through its interpreter, machine code through its compiler. No GPU.

Run as a program, with TRITON_INTERPRET=1, this file is the interpreted half: the variable has to be
set before Triton is imported, so it needs a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pymicro.kernels.stream import ROLES, SCALAR, SUMS

ROOT = Path(__file__).parents[3]
DTYPES = ("fp64", "fp32", "fp16", "bf16")
# Two roundings of an element, and room for one whose terms nearly cancel.
TOLERANCE = {"fp64": 1e-14, "fp32": 5e-6, "fp16": 5e-3, "bf16": 4e-2}
CASES = [
    (variant, operation, dtype)
    for variant in ("blocks", "persistent")
    for operation in ROLES
    for dtype in DTYPES
]
# One item; whole blocks and a part; more blocks than the three interpreted programs.
SIZES = (1, 8193, 70001)


def worst_error(variant: str, operation: str, dtype: str) -> float:
    import torch

    from pymicro.kernels.triton import bandwidth

    item = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[dtype]
    errors = []
    for n in SIZES:
        arrays = {name: torch.randn(n).to(getattr(torch, item)) for name in "abc"}
        arrays["out"] = torch.full((7,), float("nan"), dtype=torch.float64)
        a, b, c = (arrays[name].double() for name in "abc")
        bandwidth.VARIANTS[variant](operation, arrays, dtype=dtype)()
        got = arrays[ROLES[operation][2]].double()
        exact = {
            "write": torch.full((n,), SCALAR, dtype=torch.float64), "copy": a, "scale": SCALAR * c,
            "add": a + b, "triad": b + SCALAR * c, "read": a.sum(), "dot": (a * b).sum(),
        }[operation]  # fmt: skip
        size = {"read": a, "dot": a * b}.get(operation, exact).abs().sum()
        got = got.sum() if operation in SUMS else got
        errors.append(float((got - exact).abs().sum() / size))
    return max(errors)


@pytest.fixture(scope="module")
def errors():
    pytest.importorskip("triton")
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_stream_is_right_and_writes_all_of_its_target(case, errors):
    assert errors[case] <= TOLERANCE[case[2]]  # NaN, left in a slot of `out`, passes no test.


@pytest.fixture(scope="module")
def bandwidth():
    pytest.importorskip("triton")
    from pymicro.kernels.triton import bandwidth

    return bandwidth


def machine_code(
    bandwidth,
    operation: str,
    dtype: str,
    capability: int,
    count: str = "i32",
    variant: str = "persistent",
) -> str:
    import triton
    from triton.backends.compiler import GPUTarget

    kernel = bandwidth.sum_kernel if operation in SUMS else bandwidth.map_kernel
    item_bytes = {"fp64": 8, "fp32": 4}.get(dtype, 2)
    constants = {
        "OP": operation, "WIDE": bandwidth._WIDE[dtype],
        "BLOCK": bandwidth.block_items(item_bytes, variant),
    }  # fmt: skip
    pointers = {"x": f"*{dtype}", "y": f"*{dtype}", "target": f"*{dtype}", "out": "*fp64"}
    others = {"n": count} | dict.fromkeys(constants, "constexpr")
    types = {name: (pointers | others).get(name, "i32") for name in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(types) if name in pointers}
    compiled = triton.compile(
        triton.compiler.ASTSource(kernel, types, constants, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": bandwidth.WARPS, "enable_fp_fusion": True},
    )
    return compiled.asm["sass"]


@pytest.mark.parametrize("operation", ROLES)
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16"])
@pytest.mark.parametrize("variant", ["blocks", "persistent"])
def test_whole_blocks_are_moved_16_bytes_at_a_time(bandwidth, variant, operation, dtype):
    variant = "persistent" if operation in SUMS else variant
    code = machine_code(bandwidth, operation, dtype, 90, variant=variant)
    first, second, _ = ROLES[operation]
    item_bytes = {"fp64": 8, "fp32": 4, "bf16": 2}[dtype]
    per_thread = bandwidth.block_items(item_bytes, variant) // 256
    per_access = {"fp64": 2, "fp32": 4, "bf16": 8}[dtype]
    wanted = (bool(first) + bool(second)) * per_thread // per_access
    assert len(re.findall(r"\bLDG\S*\.128", code)) == wanted
    assert bool(re.search(r"\bSTG\S*\.128", code)) is (operation not in SUMS)
    assert not re.search(r"\b(STL|LDL)\b", code), "registers spill"


@pytest.mark.parametrize(("capability", "count"), [(75, "i32"), (80, "i64"), (120, "i64")])
def test_other_chips_and_64_bit_counts_compile(bandwidth, capability, count):
    assert ".128" in machine_code(bandwidth, "triad", "fp32", capability, count)


@pytest.mark.parametrize(
    ("operation", "dtype", "capability", "runs"),
    [
        ("copy", "fp32", None, True), ("copy", "bf16", (8, 0), True),
        ("copy", "fp8_e4m3", (9, 0), False), ("copy", "fp32", (6, 1), False),
        ("gather", "fp32", (9, 0), False),
    ],
)  # fmt: skip
def test_reasons(bandwidth, operation, dtype, capability, runs):
    for variant in bandwidth.VARIANTS:
        reason = bandwidth.why_not(variant, operation, dtype, capability)
        assert (reason is None) is runs
        assert runs or reason.endswith(".")


if __name__ == "__main__":
    print(json.dumps([worst_error(*case) for case in CASES]))
