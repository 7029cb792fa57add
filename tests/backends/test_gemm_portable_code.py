"""Machine code of the portable GEMM kernels: every source for every chip it claims; no GPU."""

import functools
import re
import subprocess
from collections import Counter

import pytest
from nvidia_tools import tool

from pymicro.backends.cuda.gemm_portable import ROWS
from pymicro.compiler import compile_logged, supported_archs

ARCHS = ("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
PRODUCTS = re.compile(r"\b(HMMA\.\d+|IMMA\.\d+|QMMA\.\d+|DMMA\.\w+|FFMA|DFMA|IDP\.4A|IMAD|HFMA2)\b")


def runs(row, arch):
    return row.runs_on((int(arch[3:-1]), int(arch[-1])))


def one_of_each():
    """The first row of every source, path, dtype and layout."""
    seen = {}
    for row in ROWS:
        seen.setdefault((row.source, row.path, row.dtype, row.layouts), row)
    return list(seen.values())


def pairs(rows):
    return [pytest.param(r, a, id=f"{r.name}-{a}") for r in rows for a in ARCHS if runs(r, a)]


def for_oldest(rows):
    """Each row with the first chip it runs on, if possible one that NVRTC 13 knows."""
    chosen = []
    for row in rows:
        able = [arch for arch in ARCHS if runs(row, arch)]
        known = [arch for arch in able if arch not in ("sm_61", "sm_70")]
        arch = (known or able)[0]
        chosen.append(pytest.param(row, arch, id=f"{row.name}-{arch}"))
    return chosen


@functools.cache
def compiled(row, arch):
    known = supported_archs()
    if arch not in known:
        pytest.skip(f"the installed NVRTC knows {known[0]} to {known[-1]}, not {arch}")
    return compile_logged(row.source, arch + row.arch_suffix, row.defines)


def fp8_is_emulated(row, arch):
    """fp8 products of mma.sync exist on sm_89 and sm_120 only; elsewhere ptxas expands them."""
    return row.dtype == "fp8_e4m3" and row.path in ("sm89", "sm120") and arch in ("sm_90", "sm_100")


def check_log(row, arch):
    log = compiled(row, arch).log.replace("\0", "")
    assert int(re.search(r"Used (\d+) registers", log)[1]) * row.threads <= 65536
    assert not re.search(r"C75\d\d|C7602|ptxas warning", log)
    spills = re.findall(r"(\d+) bytes (?:stack frame|spill)", log)
    assert spills
    if not fp8_is_emulated(row, arch):
        # On a chip with a newer path of its own a register or two may spill: 8 bytes each.
        assert max(map(int, spills)) <= (8 if row.path == "sm75" and arch >= "sm_80" else 0)


@pytest.mark.parametrize(("row", "arch"), for_oldest(one_of_each()))
def test_each_kind_fits_its_oldest_chip(row, arch):
    check_log(row, arch)


@pytest.mark.parametrize("row", [r for r in ROWS if r.path in ("sm100", "sm120")],
                         ids=lambda row: row.name)  # fmt: skip
def test_blackwells_rows_fit_their_own_chips(row, tmp_path):
    """Panels come by TMA; an address of a cluster would have cost a call on sm_120."""
    arch = {"sm100": "sm_100", "sm120": "sm_120"}[row.path]
    check_log(row, arch)
    text = "\n".join(listing(row, arch, tmp_path))
    assert len(re.findall(r"\bUTMALDG\.2D\b", text)) == 2
    assert not re.search(r"\bCALL\b|\bLD[LG]\b|\bSTL\b|\bLDGSTS\b", text)
    assert re.search(r"\bLDSM\b", text)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "arch"), pairs(ROWS))
def test_every_row_fits_every_chip(row, arch):
    check_log(row, arch)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_shared_memory_fits_the_oldest_chip(row):
    """Opt-in shared memory of a block: programming guide, technical specifications."""
    limit = {(6, 1): 48, (7, 0): 96, (7, 5): 64, (8, 0): 163, (8, 9): 99, (9, 0): 227}[row.first]
    assert row.shared_bytes <= (99 if row.path == "sm120" else limit) * 1024


def listing(row, arch, tmp_path):
    """Disassembly, one instruction a line."""
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled(row, arch).cubin)
    command = [tool("cuobjdump"), "--dump-sass", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if re.match(r"\s+/\*[0-9a-f]{4,}\*/", line)]


def named(name):
    return next(row for row in ROWS if row.name == name)


@pytest.mark.parametrize(
    ("name", "arch", "opcode"),
    [
        ("sm75_fp16_128x128x32", "sm_75", "HMMA.1688"),
        ("sm75_fp16_128x128x32", "sm_90", "HMMA.1688"),
        ("sm75_int8_128x128x64", "sm_75", "IMMA.8816"),
        ("sm80_fp16_128x128x32", "sm_80", "HMMA.16816"),
        ("sm80_bf16_128x256x32", "sm_120", "HMMA.16816"),
        ("sm80_tf32_128x128x16", "sm_80", "HMMA.1688"),
        ("sm80_int8_128x128x64", "sm_86", "IMMA.16832"),
        ("sm89_fp8_e4m3_128x128x64", "sm_89", "QMMA.16832"),
        ("sm100_bf16_128x128x64", "sm_100", "HMMA.16816"),
        ("sm100_int8_128x128x128", "sm_100", "IMMA.16832"),
        ("sm120_fp16_128x128x64", "sm_120", "HMMA.16816"),
        ("sm120_tf32_128x128x32", "sm_120", "HMMA.1688"),
        ("sm120_int8_128x128x128", "sm_120", "IMMA.16832"),
        ("sm120_fp8_e4m3_128x128x128", "sm_120", "QMMA.16832"),
        ("sm80_fp64_128x128x16", "sm_80", "DMMA.884"),
        ("sm90_fp64_256x128x16", "sm_90", "DMMA.16x8x16"),
        ("sm61_int8_128x128x32", "sm_75", "IDP.4A"),
    ],
)
def test_products_are_the_instructions_meant(name, arch, opcode, tmp_path):
    counts = Counter(PRODUCTS.findall("\n".join(listing(named(name), arch, tmp_path))))
    assert counts[opcode] >= 16
    others = {key for key in counts if "MMA" in key and key != opcode}
    assert not others


def loops(lines):
    """Bodies of the backward branches of a listing."""
    code = [re.search(r"/\*([0-9a-f]+)\*/\s+(.*?)\s*;", line).groups() for line in lines]
    place = {int(address, 16): index for index, (address, _) in enumerate(code)}
    for index, (address, text) in enumerate(code):
        target = re.search(r"BRA.*?0x([0-9a-f]+)", text)
        if target and int(target[1], 16) < int(address, 16):
            yield [body for _, body in code[place[int(target[1], 16)] : index + 1]]


def register_reads(body):
    """For each FFMA, the most registers it reads of one of the two banks (even, odd).

    A register kept from the instruction before in the same operand place is not read again.
    """
    kept = {}
    for text in body:
        operands = re.match(r"FFMA R\d+, (R\w+(?:\.reuse)?), (R\w+(?:\.reuse)?), (R\w+)", text)
        if operands is None:
            kept = {}
            continue
        banks = Counter({0: 0})
        for slot, operand in enumerate(operands.groups()):
            register = operand.removesuffix(".reuse")
            if kept.get(slot) != register:
                banks[int(register[1:]) % 2] += 1
        kept = {
            slot: operand.removesuffix(".reuse")
            for slot, operand in enumerate(operands.groups())
            if operand.endswith(".reuse")
        }
        yield max(banks.values())


@pytest.mark.parametrize("name", ["sm90_fp32_128x256x32", "sm90_fp32_128x256x32_nn"])
def test_fp32_loop_is_multiply_adds_without_bank_conflicts(name, tmp_path):
    """The two things that decide its speed; a compiler that orders registers anew shows here."""
    bodies = [b for b in loops(listing(named(name), "sm_90", tmp_path)) if "FFMA" in " ".join(b)]
    body = min((b for b in bodies if sum("FFMA" in text for text in b) >= 1024), key=len)
    share = sum(text.startswith("FFMA") for text in body) / len(body)
    reads = Counter(register_reads(body))
    assert share >= 0.945
    assert reads[1] / reads.total() >= 0.88


@pytest.mark.parametrize("name", ["fp16_16x8x256", "fp32_1x4x256"])
def test_what_may_overlap_waits_for_the_kernel_before_it(name, tmp_path):
    """Before the first load, and only where the row says so to the launch."""
    waits = {}
    for path in ("sm80", "sm90"):
        row = named(f"{path}_{name}_skinny")
        code = listing(row, "sm_90" if row.overlap else "sm_80", tmp_path)
        first = next(i for i, text in enumerate(code) if "LDG" in text)
        waits[path] = any("ACQBULK" in text for text in code[:first])
    assert waits == {"sm80": False, "sm90": True}
