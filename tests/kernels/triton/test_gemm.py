"""Triton's products: numbers through its interpreter, machine code through its compiler. No GPU.

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
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]
DTYPES = ("fp16", "fp32", "tf32", "fp64", "fp8_e4m3", "int8")
# Rounding of one element, and room for sums that nearly cancel.
TOLERANCE = {
    "fp16": 1e-3, "fp32": 1e-5, "tf32": 1e-5, "fp64": 1e-13, "fp8_e4m3": 1e-2, "int8": 0,
}  # fmt: skip
# Neither side a multiple of a tile; rows of the descriptor's a multiple of 16 bytes.
SHAPES = {"tiled": [(100, 77, 130), (1, 1, 1), (65, 3, 17)], "descriptor": [(144, 80, 96)]}
CASES = [
    (variant, dtype, layout, *shape)
    for variant, shapes in SHAPES.items()
    for dtype in DTYPES
    for layout in ("nt", "nn")
    for shape in shapes
]


def relative_error(variant, dtype, layout, m, n, k):
    import torch

    from pymicro.kernels.triton import gemm

    storage, output = {
        "fp16": (torch.float16, torch.float16), "fp64": (torch.float64, torch.float64),
        "fp8_e4m3": (torch.float8_e4m3fn, torch.bfloat16), "int8": (torch.int8, torch.int32),
    }.get(dtype, (torch.float32, torch.float32))  # fmt: skip

    def operand(*shape):
        if dtype == "int8":
            return torch.randint(-128, 128, shape, dtype=storage)
        return torch.randn(*shape).to(storage)

    a, b = operand(m, k), operand(*((n, k) if layout == "nt" else (k, n)))
    c = torch.full((m, n), 99, dtype=output)
    gemm.VARIANTS[variant](a, b, c, dtype=dtype, layout=layout)()
    exact = a.double() @ (b.double().T if layout == "nt" else b.double())
    return float((c.double() - exact).norm() / exact.norm())


@pytest.fixture(scope="module")
def errors():
    pytest.importorskip("triton")
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, __file__], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_product_is_right(case, errors):
    assert errors[case] <= TOLERANCE[case[1]]


@pytest.fixture(scope="module")
def gemm():
    pytest.importorskip("triton")
    from pymicro.kernels.triton import gemm

    return gemm


def machine_code(gemm, kernel, dtype, layout, capability, tile, **constants):
    """SASS of one kernel; the signature is what a launch on multiples of 16 would specialise."""
    import triton
    from triton.backends.compiler import GPUTarget

    item, out, item_bytes = {
        "bf16": ("bf16", "bf16", 2), "tf32": ("fp32", "fp32", 4), "fp32": ("fp32", "fp32", 4),
        "fp8_e4m3": ("fp8e4nv", "bf16", 1), "int8": ("i8", "i32", 1), "fp64": ("fp64", "fp64", 8),
    }.get(dtype, ("fp16", "fp16", 2))  # fmt: skip
    block_k = tile.k_bytes // item_bytes
    is_nk, precision, acc = gemm._constants(dtype, layout)
    constants |= {
        "B_IS_NK": is_nk, "PRECISION": precision, "ACC": acc, "GROUP": gemm.GROUP_M,
        "BLOCK_M": tile.m, "BLOCK_N": tile.n, "BLOCK_K": block_k,
    }  # fmt: skip
    names = kernel.arg_names
    types = dict.fromkeys(names, "constexpr") | dict.fromkeys(set(names) - set(constants), "i32")
    if kernel is gemm.tiled_kernel or tile.specialize:
        types |= dict(zip(names, (f"*{item}", f"*{item}", f"*{out}"), strict=False))
    else:
        b_block = (tile.n, block_k) if is_nk else (block_k, tile.n)
        c_block = (tile.m, tile.n // constants["SLICES"])
        types |= {
            "a": f"tensordesc<{item}[{tile.m},{block_k}]>",
            "b": f"tensordesc<{item}[{b_block[0]},{b_block[1]}]>",
            "c": f"tensordesc<{out}[{c_block[0]},{c_block[1]}]>",
        }
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(names)
        if types[name][0] in "*i" and name != "programs"
    }
    compiled = triton.compile(
        triton.compiler.ASTSource(kernel, types, constants, aligned),
        target=GPUTarget("cuda", capability, 32),
        options=gemm.options(tile) | {"enable_fp_fusion": True},
    )
    return compiled.asm["sass"]


TILED_OPCODES = [
    ("fp16", "nt", 80, r"HMMA\.16816\.F32"), ("bf16", "nn", 80, r"HMMA\.16816\.F32\.BF16"),
    ("int8", "nt", 80, r"IMMA\.16832"), ("fp64", "nt", 80, r"DMMA"), ("fp32", "nt", 80, r"FFMA"),
    ("fp8_e4m3", "nt", 89, r"QMMA"), ("fp16", "nn", 90, r"HGMMA\.64x256x16\.F32"),
    ("tf32", "nt", 90, r"HGMMA\S*\.TF32"), ("fp16", "nt", 100, r"UTCHMMA"),
    ("fp16", "nt", 120, r"HMMA\.16816\.F32"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "layout", "capability", "opcode"), TILED_OPCODES)
def test_tiled_reaches_the_unit(gemm, dtype, layout, capability, opcode):
    kind = {"fp32": "tiled without tensor cores", "fp64": "tiled fp64"}.get(dtype, "tiled")
    tile = gemm.TILES[kind][1]
    sass = machine_code(gemm, gemm.tiled_kernel, dtype, layout, capability, tile, EVEN=True)
    assert re.search(opcode, sass)
    assert re.search(r"LDGSTS\S*\.128", sass), "loads are not 16 bytes wide"


@pytest.mark.parametrize("dtype", ["fp16", "fp8_e4m3", "int8", "tf32"])
def test_descriptor_copies_in_bulk_and_feeds_warpgroups(gemm, dtype):
    tile = gemm.Tile(128, 256, 128, 8, 4)
    options = {"SPECIALIZE": False, "SLICES": 4 if dtype in ("int8", "tf32") else 2}
    sass = machine_code(gemm, gemm.descriptor_kernel, dtype, "nt", 90, tile, **options)
    assert re.search({"fp8_e4m3": "QGMMA", "int8": "IGMMA"}.get(dtype, "HGMMA"), sass)
    assert "UTMALDG" in sass
    assert "UTMASTG" in sass
    assert "STL" not in sass, "registers spill"


def test_specialised_warps_move_registers(gemm):
    tile = gemm.Tile(128, 256, 128, 4, 3, specialize=True)
    options = {"SPECIALIZE": True, "SLICES": 1}
    sass = machine_code(gemm, gemm.descriptor_kernel, "fp16", "nt", 90, tile, **options)
    assert "USETMAXREG" in sass, "Triton ignored the request, silently"
    assert "STL" not in sass


@pytest.mark.parametrize("capability", [100, 120])
def test_descriptor_compiles_past_hopper(gemm, capability):
    tile = gemm.Tile(128, 128, 128, 4, 2)
    options = {"SPECIALIZE": False, "SLICES": 1}
    sass = machine_code(gemm, gemm.descriptor_kernel, "fp16", "nt", capability, tile, **options)
    assert "UTMALDG" in sass


def test_specialised_tiles_have_the_four_warps_that_triton_asks_for(gemm):
    chosen = [tile for tiles in gemm.TILES.values() for tile in tiles if tile.specialize]
    assert chosen
    assert {tile.warps for tile in chosen} == {4}


def test_tuning_is_bounded(gemm):
    assert max(map(len, gemm.TILES.values())) <= 8


@pytest.mark.parametrize(("m", "n"), [(1, 1), (16, 4096), (4096, 16), (300, 300), (8192, 8192)])
def test_some_tile_always_fits_and_none_is_far_too_large(gemm, m, n):
    for tiles in gemm.TILES.values():
        fits = gemm._fitting(tiles, m, n)
        assert fits
        assert all(tile.m <= max(128, 2 * m) for tile in fits)


@pytest.fixture
def hopper(monkeypatch):
    """Triton's driver of a card that is not there: enough to compile, not to launch."""
    import contextlib
    from types import SimpleNamespace

    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    card = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
    )
    monkeypatch.setattr(driver, "_active", card)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())


@pytest.mark.parametrize("variant", ["tiled", "descriptor"])
def test_tiles_are_compiled_side_by_side_as_a_launch_would(gemm, hopper, monkeypatch, variant):
    """What is compiled ahead must be what the launch looks up, or all is compiled twice."""
    import torch
    import triton

    launch = getattr(gemm, f"_launch_{variant}")
    kernel = getattr(gemm, f"{variant}_kernel")
    a, b, c = (torch.zeros(256, 256, dtype=torch.float16) for _ in range(3))
    tiles = [t for t in gemm.TILES[variant] if not t.specialize][-3:]
    broken = gemm.Tile(48, 64, 64, 4, 3)  # No power of two: does not compile.
    made = []

    def compile_(*given, compile_=triton.compiler.compile, **options):
        made.append(compile_(*given, **options))
        return made[-1]

    monkeypatch.setattr(kernel, "device_caches", type(kernel.device_caches)(kernel.create_binder))
    monkeypatch.setattr("triton.compiler.compile", compile_)
    gemm._compile_ahead(launch, [tiles[0], broken, *tiles[1:]], a, b, c, "fp16", "nt")
    assert len(made) == 3
    for tile in tiles:
        launch(tile, a, b, c, "fp16", "nt", bind=gemm.compiled_only)
    assert len(made) == 3
    with pytest.raises((triton.CompilationError, ValueError)):
        launch(broken, a, b, c, "fp16", "nt", bind=gemm.compiled_only)


@pytest.mark.parametrize(
    ("shape", "layout"), [((16, 16, 20), "nt"), ((16, 20, 16), "nn"), ((16, 4, 16), "nt")]
)
def test_descriptor_refuses_rows_that_bulk_copies_cannot_address(gemm, shape, layout):
    import torch

    m, n, k = shape
    a, c = torch.zeros(m, k, dtype=torch.float16), torch.zeros(m, n, dtype=torch.float16)
    b = torch.zeros(*((n, k) if layout == "nt" else (k, n)), dtype=torch.float16)
    with pytest.raises(ValueError, match="16 bytes"):
        gemm.VARIANTS["descriptor"](a, b, c, dtype="fp16", layout=layout)


@pytest.mark.parametrize(
    ("variant", "dtype", "capability", "runs"),
    [
        ("tiled", "bf16", None, False), ("tiled", "fp16", None, True),
        ("tiled", "fp16", (7, 5), False), ("tiled", "fp8_e4m3", (8, 0), False),
        ("tiled", "fp8_e4m3", (8, 9), True), ("descriptor", "fp16", (8, 9), False),
        ("descriptor", "fp16", (12, 0), True), ("descriptor", "fp64", (9, 0), False),
        ("tiled", "fp64", (9, 0), True),
    ],
)  # fmt: skip
def test_reasons(gemm, variant, dtype, capability, runs):
    reason = gemm.why_not(variant, dtype, "nt", capability)
    assert (reason is None) is runs
    assert runs or reason.endswith(".")


def test_the_quickest_tile_in_either_round_is_launched(gemm, monkeypatch):
    # One look each; then two rounds of the three that were within a quarter of the best.
    times_ms = {0: [1.0, 0.9, 1.1], 1: [9.0], 2: [1.2, 1.2, 0.8], 3: [1.1, 1.0, 1.0]}
    asked = []

    def bench(call, **how):
        asked.append(call())
        return times_ms[call()].pop(0)

    monkeypatch.setattr(gemm.triton.testing, "do_bench", bench)
    tiles = [gemm.Tile(64, 64, 64, 4, stages) for stages in range(4)]
    a = SimpleNamespace(is_cuda=True)
    c = SimpleNamespace(shape=(4096, 4096))
    found = gemm._fastest(lambda tile, *_: lambda: tile.stages, tiles, a, None, c, "fp16", "nt")
    assert found() == 2
    assert asked == [0, 1, 2, 3, 0, 2, 3, 0, 2, 3]


if __name__ == "__main__":
    print(json.dumps([relative_error(*case) for case in CASES]))
