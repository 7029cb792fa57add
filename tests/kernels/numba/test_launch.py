"""Numba's nearly empty kernels in its simulator and as PTX; `njit` runs in the suite's tests.

Run as a program, with NUMBA_ENABLE_CUDASIM=1, this file is the simulated half.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
from pymicro import calls
from pymicro.kernels.numba import launch

ROOT = Path(__file__).parents[3]


def left(call: str) -> int:
    from numba import cuda

    out, source = (cuda.to_device(np.full(1, n, np.int32)) for n in (0, 1000))
    function, own = launch.VARIANTS["jit"](call, calls.arguments(call, out, source))
    out.copy_to_device(np.zeros(1, np.int32))
    function(*own)
    return int(out.copy_to_host()[0])


def test_every_argument_arrives_in_the_simulator():
    env = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, *(calls.expected(c, 1000) for c in ("args3", "args16"))]


@pytest.mark.parametrize("call", calls.LAUNCHES)
def test_kernels_compile_for_a_gpu(call):
    pytest.importorskip("numba_cuda")
    from numba import cuda

    given = calls.arguments(call, np.zeros(1, np.int32), np.zeros(1, np.int32))
    text, _ = cuda.compile_ptx(launch.FUNCTIONS[call], launch.signature(given), cc=(8, 0))
    assert text.count("ld.global") == calls.LAUNCHES[call][0]
    assert text.count("st.global") == (1 if given else 0)


if __name__ == "__main__":
    print(json.dumps([left(call) for call in calls.LAUNCHES]))
