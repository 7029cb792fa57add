"""CuPy's products: the CUDA C++ of `raw`, compiled by NVRTC without CuPy or a GPU."""

from __future__ import annotations

import re
import subprocess

import pytest
from nvidia_tools import tool

from pymicro.kernels.cupy import gemm, gemm_cuda

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# Layout and alignment change nothing that depends on the chip, so each meets one chip alone.
ROUTES = [(arch, 1, 1) for arch in ARCHS] + [("sm_90", *c) for c in ((0, 1), (1, 0), (0, 0))]


def sass(source: str, arch: str, tmp_path, **macros) -> str:
    pytest.importorskip("cuda.core")
    from pymicro.compiler import compile_text, supported_archs

    nvdisasm = tool("nvdisasm")
    if arch not in supported_archs():
        pytest.skip(f"this NVRTC does not compile for {arch}")
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compile_text(defines + source, arch))
    listing = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True)
    return listing.stdout


@pytest.mark.parametrize(("arch", "is_nk", "aligned"), ROUTES)
@pytest.mark.parametrize(("real", "vector"), [("float", 4), ("double", 2)])
def test_simt_keeps_its_sums_in_registers(arch, is_nk, aligned, real, vector, tmp_path):
    macros = {"REAL": real, "VEC": vector, "B_IS_NK": is_nk, "ALIGNED": aligned}
    code = sass(gemm_cuda.SIMT_SOURCE, arch, tmp_path, **macros)
    fused = re.findall(r"\b[FD]FMA\b", code)
    assert len(fused) >= 8 * 8 * 8, "the loop is not unrolled"
    assert re.search(r"\bLDS\S*\.128", code)
    assert bool(re.search(r"\bLDG\S*\.128", code)) is bool(aligned)
    assert not re.search(r"\b(STL|LDL)\b", code), "registers spill"


@pytest.mark.parametrize(("arch", "is_nk", "aligned"), [r for r in ROUTES if r[0] != "sm_75"])
def test_tensor_feeds_the_tensor_cores(arch, is_nk, aligned, tmp_path):
    bf16 = int(arch in ("sm_86", "sm_100"))
    macros = {"BF16": bf16, "STAGES": 3, "B_IS_NK": is_nk, "ALIGNED": aligned}
    code = sass(gemm_cuda.TENSOR_SOURCE, arch, tmp_path, **macros)
    products = re.findall(r"\bHMMA\.16816\.F32\S*", code)
    assert len(products) == 2 * 4 * 8
    assert all(("BF16" in opcode) is bool(bf16) for opcode in products)
    assert bool(re.search(r"\bLDGSTS\S*\.128", code)) is bool(aligned)
    assert bool(re.search(r"\bLDSM\S*\.MT88", code)) is (not is_nk), "B is turned on loading"
    assert not re.search(r"\b(STL|LDL)\b", code), "registers spill"


@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("available_kib", [99, 163, 227])  # sm_86, 89, 120; sm_80; sm_90, 100
def test_stages_fit_in_shared_memory(layout, available_kib):
    stages, used_bytes = gemm.tensor_stages(layout, available_kib * 1024)
    assert 2 < stages <= 5
    assert used_bytes <= available_kib * 1024
    stage_bytes = used_bytes // stages
    assert stages == 5 or used_bytes + stage_bytes > available_kib * 1024


@pytest.mark.parametrize(
    ("variant", "dtype", "capability", "runs"),
    [
        ("raw", "fp32", (6, 1), True), ("raw", "fp16", (7, 5), False),
        ("raw", "bf16", (8, 0), True), ("raw", "int8", (9, 0), False),
        ("matmul", "fp16", (7, 5), True), ("matmul", "tf32", (7, 5), False),
        ("matmul", "bf16", (9, 0), False),
        ("cublas", "int8", (7, 5), True), ("cublas", "fp8_e4m3", (9, 0), False),
        ("matmul", "fp32", None, False),
    ],
)  # fmt: skip
def test_reasons(variant, dtype, capability, runs):
    reason = gemm.why_not(variant, dtype, "nt", capability)
    assert (reason is None) is runs
    assert runs or reason.endswith(".")


def test_every_variant_says_what_it_lacks():
    assert set(gemm.VARIANTS) == set(gemm._DTYPES) == set(gemm._MISSING)
