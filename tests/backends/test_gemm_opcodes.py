"""Opcode counts against the golden file, exactly: a change must be seen and reasoned."""

import functools
from dataclasses import replace

import gemm_opcodes as opcodes
import nvidia_tools
import pytest

from pymicro.backends.cuda import gemm

SAMPLED = opcodes.sampled()
OTHERS = [row for row in gemm.rows() if row not in SAMPLED]
PRODUCTS = {
    "sm90_bf16": "HGMMA.64x256x16",
    "sm90_int8": "IGMMA.64x256x32",
    "sm90_fp8_e4m3": "QGMMA.64x256x32",
    "sm80_fp16": "HMMA.16816",
    "sm75_int8": "IMMA.8816",
    "simt_fp32": "FFMA",
}


@functools.cache
def tool():
    found = nvidia_tools.tool("nvdisasm")
    kept, here = opcodes.golden()["compiler"], opcodes.compiler_version()
    if kept != here:
        pytest.skip(f"the golden counts are of {kept}, this is {here}; tests/gemm_opcodes.py")
    return found


def compare(row):
    if opcodes.first_arch(row) is None:
        pytest.skip(f"the installed NVRTC knows no chip that runs {row.name}")
    kept = {row.name: opcodes.golden()["rows"][row.name]}
    assert opcodes.changes(kept, {row.name: opcodes.counts(row, tool())}) == []


@pytest.mark.parametrize("row", SAMPLED, ids=lambda row: row.name)
def test_counts_are_the_golden_ones(row):
    compare(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.name)
def test_counts_of_all_other_rows_are_the_golden_ones(row):
    compare(row)


def test_another_kernel_has_other_counts():
    """Here the same source reading B the other way: what a change of code looks like."""
    row = next(row for row in SAMPLED if row.name == "simt_fp32_64x64x16")
    other = replace(
        row,
        defines=tuple((name, 1 if name == "LAYOUT_NN" else value) for name, value in row.defines),
    )
    kept = {row.name: opcodes.golden()["rows"][row.name]}
    (told,) = opcodes.changes(kept, {row.name: opcodes.counts(other, tool())})
    assert " -> " in told


def test_the_golden_file_has_every_row_and_no_other():
    kept = set(opcodes.golden()["rows"])
    rows = {row.name: row for row in gemm.rows()}
    assert kept <= set(rows)
    assert all(opcodes.first_arch(rows[name]) is None for name in set(rows) - kept)


@pytest.mark.parametrize(("start", "opcode"), PRODUCTS.items())
def test_the_golden_file_counts_products(start, opcode):
    """Else a count that reads nothing would agree with itself."""
    found = [own for name, own in opcodes.golden()["rows"].items() if name.startswith(f"{start}_")]
    assert any(own.get(opcode, 0) >= 4 for own in found)


def test_counting():
    listing = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/              @!P0 HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0020*/             @!UP1 UTMALDG.2D [UR4], [UR6] ;
        /*0030*/                   IMAD.MOV.U32 R5, RZ, RZ, R6 ;
        /*0040*/                   IMAD.WIDE R2, R3, 0x4, R2 ;
        /*0050*/                   LDS.128 R4, [R2] ;
    """
    assert opcodes.counted(listing) == {
        "all": 6, "HMMA.16816": 1, "IMAD": 1, "LDS": 1, "UTMALDG": 1,
    }  # fmt: skip


def test_changes_are_told_a_row_a_line():
    before = {"a": {"FFMA": 8, "all": 9}, "b": {"all": 1}}
    after = {"a": {"FFMA": 8, "all": 11, "LDL": 2}, "c": {"all": 1}}
    assert opcodes.changes(before, after) == ["b: gone", "a: all 9 -> 11, LDL 0 -> 2", "c: new"]
