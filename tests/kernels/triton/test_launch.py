"""Triton's nearly empty kernels: sums through its interpreter, machine code through its compiler.

Run as a program, with TRITON_INTERPRET=1, this file is the interpreted half.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pymicro import calls

ROOT = Path(__file__).parents[3]
CASES = [(variant, call) for variant in ("jit", "bound") for call in calls.LAUNCHES]


def sums() -> list[int]:
    """What each case leaves for an input of 1000, in unsigned 32 bits."""
    import torch

    from pymicro.kernels.triton import launch

    found = []
    for variant, call in CASES:
        out, source = torch.zeros(1, dtype=torch.int32), torch.full((1,), 1000, dtype=torch.int32)
        given = calls.arguments(call, out, source)
        function, own = launch.VARIANTS[variant](call, given)
        out.zero_()
        function(*own)
        found.append(int(out[0]))
    return found


@pytest.fixture(scope="module")
def interpreted():
    pytest.importorskip("triton")
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_every_argument_arrives(case, interpreted):
    assert interpreted[case] == (calls.expected(case[1], 1000) if case[1] != "args0" else 0)


@pytest.mark.parametrize("call", calls.LAUNCHES)
@pytest.mark.parametrize("capability", [75, 90])
def test_kernels_compile_to_few_instructions(call, capability):
    pytest.importorskip("triton")
    import triton
    from triton.backends.compiler import GPUTarget

    from pymicro.kernels.triton import launch

    kernel = launch.KERNELS[call]
    types = {n: "i32" if n.startswith("n") else "*i32" for n in kernel.arg_names}
    compiled = triton.compile(
        triton.compiler.ASTSource(kernel, types, {}),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": 1},
    )
    code = compiled.asm["sass"]
    assert code.count("LDG") == calls.LAUNCHES[call][0]
    assert "BAR" not in code


if __name__ == "__main__":
    print(json.dumps(sums()))
