"""Hopper's GEMM rows without a GPU: machine code, the share-out of tiles, the choice of a row."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvidia_tools import tool

from pymicro import compiler
from pymicro.backends.cuda import gemm_sm90, gemm_sm90_launch
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.backends.cuda.gemm_sm90 import ROWS
from pymicro.backends.cuda.gemm_sm90_launch import Plan, macro
from pymicro.errors import Unavailable

SM_SHARED_BYTES = 228 * 1024  # CUDA programming guide, compute capability 9.0
BLOCK_SHARED_BYTES = 227 * 1024
RESERVED_BYTES = 1024  # per block, by the driver
TENSOR_OPCODE = {"fp8_e4m3": "QGMMA", "int8": "IGMMA"}
each_row = pytest.mark.parametrize("kernel", ROWS, ids=lambda r: r.name)


@each_row
def test_machine_code(kernel: GemmKernel, tmp_path: Path) -> None:
    """It compiles without spills or ignored requests, and holds the instructions it is made for."""
    compiled = compiler.compile_logged(kernel.source, "sm_90a", kernel.defines)
    assert " 0 bytes spill stores, 0 bytes spill loads" in compiled.log
    assert " 0 bytes stack frame" in compiled.log
    # setmaxnreg ignored; wgmma serialised (two reasons); too few registers for one wgmma.
    assert not re.findall(r"C75(?:08|10|12)|C7602", compiled.log)

    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled.cubin)
    listing = subprocess.run(
        [tool("cuobjdump"), "-sass", cubin], capture_output=True, check=True
    ).stdout.decode(errors="replace")
    opcodes = set(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?([\w.]+)", listing, re.M))
    tensor = TENSOR_OPCODE.get(kernel.dtype, "HGMMA")
    assert any(o.startswith(f"{tensor}.64x{macro(kernel, 'INSTRUCTION_N')}x") for o in opcodes)
    assert {"UTMALDG.2D", "UTMASTG.2D"} <= opcodes
    assert ("UTMALDG.2D.MULTICAST" in opcodes) == (kernel.cluster != (1, 1, 1))
    assert not {o for o in opcodes if o.startswith(("LDL", "STL"))}
    asks = any(o.startswith("USETMAXREG") for o in opcodes)
    assert asks == bool(macro(kernel, "PRODUCER") and macro(kernel, "RESIDENT") == 1)


def _loops(listing: str) -> list[list[str]]:
    """Bodies of the backward branches of a disassembly."""
    code = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?) ?;", listing)
    place = {int(address, 16): index for index, (address, _) in enumerate(code)}
    found = []
    for index, (address, text) in enumerate(code):
        target = re.search(r"\bBRA\S*.*?0x([0-9a-f]+)$", text)
        if target and int(target[1], 16) < int(address, 16):
            found.append([body for _, body in code[place[int(target[1], 16)] : index + 1]])
    return found


@pytest.mark.parametrize(
    "kernel",
    [r for r in ROWS if macro(r, "PRODUCER") and not macro(r, "PROMOTE")],
    ids=lambda r: r.name,
)
def test_a_stage_is_few_instructions(kernel: GemmKernel, tmp_path: Path) -> None:
    """Descriptors are made once a warp, in uniform registers. Made in each thread's own, the loop
    was half as long again, which costs power."""
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiler.compile_cubin(kernel.source, "sm_90a", kernel.defines))
    listing = subprocess.run(
        [tool("cuobjdump"), "-sass", cubin], capture_output=True, check=True
    ).stdout.decode(errors="replace")
    products = 4 * kernel.tile[1] // macro(kernel, "INSTRUCTION_N")
    stages = [loop for loop in _loops(listing) if sum("GMMA." in text for text in loop) == products]
    loop = min(stages, key=len)
    assert len(loop) <= 50
    assert not any("R2UR" in text for text in loop)


@each_row
def test_fits(kernel: GemmKernel) -> None:
    """Shared memory of a block, and of as many blocks as one SM is to hold."""
    assert kernel.shared_bytes <= BLOCK_SHARED_BYTES
    blocks = macro(kernel, "RESIDENT")
    assert blocks * (kernel.shared_bytes + RESERVED_BYTES) <= SM_SHARED_BYTES


def test_row_names_are_distinct() -> None:
    assert max(Counter(r.name for r in ROWS).values()) == 1


def test_plan_is_laid_out_as_in_the_source() -> None:
    text = compiler.joined_source("gemm/sm90_schedule.cuh")
    body = re.search(r"struct Plan \{(.*?)\};", text, re.S)[1]
    declared = []
    for kind, names in re.findall(r"^\s+(int|Accumulator\*|u32\*) ([\w, ]+);", body, re.M):
        declared += [(name, 4 if kind == "int" else 8) for name in names.split(", ")]
    fields = [(name, getattr(Plan, name).size) for name, _ in Plan._fields_]
    assert fields == declared


def walk(plan: Plan, launched: int, cluster: int):
    """`Schedule::next` of sm90_schedule.cuh: the pieces (tile, first step, last step + 1)."""
    tail_steps = (plan.rows * plan.columns - plan.whole) * plan.k_steps
    for tile in range(cluster, plan.whole, launched):
        yield tile, 0, plan.k_steps
    position, end = cluster * plan.share, min((cluster + 1) * plan.share, tail_steps)
    while position < end:
        cut, first = divmod(position, plan.k_steps)
        last = min(plan.k_steps, first + end - position)
        yield plan.whole + cut, first, last
        position += last - first


sizes = st.integers(1, 20_000)


@pytest.mark.parametrize(
    ("side", "dtype", "group", "launched", "is_cut"),
    [
        (4096, "bf16", 16, 64, False),  # all of A stays in the cache, whole columns
        (8192, "bf16", 8, 64, False),  # cutting would save 3 % of the rounds
        (16384, "fp16", 8, 64, False),
        (2048, "fp16", 8, 64, False),
        (4352, "bf16", 8, 66, True),  # 25 tiles over
    ],
)
def test_rounds_are_whole_columns_unless_a_tail_is_worth_cutting(
    side: int, dtype: str, group: int, launched: int, is_cut: bool
) -> None:
    kernel = next(r for r in ROWS if r.dtype == dtype and r.tile[:2] == (128, 256))
    plan, clusters = gemm_sm90_launch.plan(kernel, side, side, side, 66)
    assert (plan.group, clusters, plan.share > 0) == (group, launched, is_cut)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ROWS), sizes, sizes, sizes, st.integers(1, 132))
def test_each_step_of_each_tile_is_computed_once(kernel, m, n, k, clusters) -> None:
    """And who begins a cut tile can wait for the others: none of them waits before its part."""
    plan, launched = gemm_sm90_launch.plan(kernel, m, n, k, clusters)
    assert 1 <= launched <= clusters
    covered: dict[int, list[tuple[int, int]]] = {}
    for cluster in range(launched):
        pieces = list(walk(plan, launched, cluster))
        assert pieces, "a cluster without work need not be launched"
        for index, (tile, first, last) in enumerate(pieces):
            covered.setdefault(tile, []).append((first, last))
            begins_cut_tile = first == 0 and last < plan.k_steps
            assert not begins_cut_tile or index == len(pieces) - 1
    assert sorted(covered) == list(range(plan.rows * plan.columns))
    for parts in covered.values():
        parts.sort()
        assert parts[0][0] == 0
        assert parts[-1][1] == plan.k_steps
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))


@pytest.mark.parametrize("side", [4096, 8192, 16384])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8_e4m3", "int8", "tf32"])
def test_large_cubes_get_the_large_tile(side: int, dtype: str) -> None:
    chosen = gemm_sm90.choose(side, side, side, dtype, 132)
    assert chosen.dtype == dtype
    larger = dtype in ("int8", "tf32") and side > 4096
    assert chosen.tile[:2] == ((192, 256) if larger else (128, 256))


def test_small_products_get_small_tiles() -> None:
    assert gemm_sm90.choose(1024, 1024, 1024, "fp16", 132).tile[:2] == (64, 128)


def test_a_measurement_decides_where_it_is_given() -> None:
    slowest = max((r for r in ROWS if r.dtype == "bf16"), key=lambda r: r.threads)
    chosen = gemm_sm90.choose(8192, 8192, 8192, "bf16", 132, measure=lambda r: r is not slowest)
    assert chosen is slowest


def test_variants_of_fp8() -> None:
    fast, exact = (gemm_sm90.choose(8192, 8192, 8192, "fp8_e4m3", 132, v) for v in ("", "promoted"))
    assert fast.variant == "fast-accumulate"
    assert macro(exact, "PROMOTE") == 1
    with pytest.raises(Unavailable, match="no fp64"):
        gemm_sm90.choose(8, 8, 8, "fp64", 132)


@pytest.mark.parametrize(
    ("dtype", "sizes", "pointers", "word"),
    [
        ("fp16", (64, 64, 60), (0, 0, 0), "multiple of 16 bytes"),
        ("fp16", (64, 60, 64), (0, 0, 0), "multiple of 16 bytes"),
        ("int8", (64, 64, 24), (0, 0, 0), "multiple of 16 bytes"),
        ("fp16", (64, 64, 64), (0, 8, 0), "at multiples of 16"),
        ("fp16", (0, 64, 64), (0, 0, 0), "from 1"),
        ("fp16", (2**31, 64, 64), (0, 0, 0), "from 1"),
        ("int8", (1, 4, 16), (0, 16, 32), None),
        ("fp16", (70_000, 40_000, 64), (0, 0, 0), None),
    ],
)
def test_refusals(dtype, sizes, pointers, word) -> None:
    kernel = next(r for r in ROWS if r.dtype == dtype)
    reason = gemm_sm90.refusal(kernel, *sizes, *pointers)
    assert reason is None if word is None else word in reason


def test_only_short_launches_begin_beside_the_one_before() -> None:
    """They save the start; long ones only draw power."""
    (row,) = (r for r in ROWS if r.name == "sm90_fp16_128x256x64")
    for side, is_long in ((512, False), (2048, False), (4096, True), (8192, True)):
        plan, launched = gemm_sm90_launch.plan(row, side, side, side, 66)
        assert gemm_sm90_launch._is_long(row, plan, launched) is is_long
