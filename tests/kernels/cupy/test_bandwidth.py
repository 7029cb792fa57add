"""CuPy's streams: the CUDA C++ of `raw`, compiled by NVRTC without CuPy or a GPU.

That it computes the right thing is held by `test_emulated.py`.
"""

from __future__ import annotations

import re
import subprocess

import pytest
from nvidia_tools import tool

from pymicro.kernels.cupy import bandwidth, bandwidth_cuda
from pymicro.kernels.stream import ROLES, SUMS


def kernels(arch: str, tmp_path, **macros) -> dict[str, str]:
    """SASS of each kernel of the source, by name."""
    pytest.importorskip("cuda.core")
    from pymicro.compiler import compile_text, supported_archs

    nvdisasm = tool("nvdisasm")
    if arch not in supported_archs():
        pytest.skip(f"this NVRTC does not compile for {arch}")
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compile_text(defines + bandwidth_cuda.SOURCE, arch))
    listing = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True)
    parts = re.split(r"^\.text\.(\w+):", listing.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


CASES = [(operation, "sm_90") for operation in ROLES] + [("triad", "sm_75"), ("triad", "sm_120")]


@pytest.mark.parametrize(("operation", "arch"), CASES)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_a_thread_has_all_its_wide_loads_in_flight_before_it_stores(
    operation, arch, dtype, tmp_path
):
    summed = operation in SUMS
    macros = bandwidth.raw_macros(operation, dtype, "double")
    code = kernels(arch, tmp_path, **macros)["sum_stream" if summed else "map_stream"]
    moves = re.findall(r"\b(LDG|STG)\.\S*128", code)
    unroll = bandwidth.UNROLL["sum" if summed else "map"]
    loads = sum(role is not None for role in ROLES[operation][:2]) * unroll
    in_a_row = max(map(len, "".join(move[0] for move in moves).split("S")))
    assert in_a_row >= loads
    assert moves.count("LDG") == 2 * loads, "one copy for whole tiles, one for the last"
    assert moves.count("STG") == (0 if summed else 2 * unroll)
    assert not re.search(r"\b(STL|LDL)\b", code), "registers spill"


@pytest.mark.parametrize(
    ("variant", "operation", "dtype", "capability", "runs"),
    [
        ("raw", "triad", "bf16", (9, 0), True), ("elementwise", "triad", "bf16", (9, 0), False),
        ("elementwise", "triad", "fp16", (9, 0), True),
        ("elementwise", "dot", "fp32", (9, 0), False), ("reduction", "dot", "fp32", (6, 1), True),
        ("reduction", "copy", "fp32", (9, 0), False), ("raw", "copy", "int8", (9, 0), False),
        ("raw", "copy", "fp32", None, False),
        ("raw", "gather", "fp32", (9, 0), False),
    ],
)  # fmt: skip
def test_reasons(variant, operation, dtype, capability, runs):
    reason = bandwidth.why_not(variant, operation, dtype, capability)
    assert (reason is None) is runs
    assert runs or reason.endswith(".")


def test_generated_kernels_declare_just_what_they_read():
    arrays = dict.fromkeys("abc", object()) | {"out": object()}
    for operation, (first, second, _) in ROLES.items():
        inputs, parameters, expression = bandwidth._typed(operation, arrays, "fp16")
        assert len(inputs) == (first is not None) + (second is not None)
        assert parameters == ", ".join(["T x", "T y"][: len(inputs)])
        assert ("(y)" in expression) is (second is not None)
        assert "{" not in expression
