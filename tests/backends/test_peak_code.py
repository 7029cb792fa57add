"""Machine code of the probes of pure issue on the chips they claim: a loop of products only."""

import re
import subprocess

import pytest
from nvidia_tools import tool

from pymicro.backends.cuda import peak
from pymicro.compiler import compile_logged, supported_archs
from pymicro.issue import VECTOR_UNITS

ARCHS = ("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# Instructions for one product where a chip's are smaller than the row's.
PARTS = {("mma", "fp16", "1688"): 2, ("mma", "int8", "8816"): 4, ("dmma", "fp64", "884"): 8}
PARTS["dmma", "fp64", "8x8x4"] = 8
# Never executed: idle instructions that the assembler puts around products of doubles.
IDLE = re.compile(r"@!UPT UIADD3")


def capability(arch):
    return int(arch[3:-1]), int(arch[-1])


CLAIMED = [
    pytest.param(row, arch, id=f"{row.name}-{arch}",
                 marks=[] if arch in ("sm_80", "sm_90") else [pytest.mark.slow])
    for row in peak.ROWS
    for arch in ARCHS
    if row.runs_on(capability(arch)) and row.feed is None
]  # fmt: skip


def disassembled(made, tmp_path):
    """Addresses and instructions, in order."""
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(made.cubin)
    command = [tool("cuobjdump"), "--dump-sass", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [(int(a, 16), i) for a, i in re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?) ?;", text)]


def loop_with(opcodes, code):
    """Instructions of the longest loop: between a branch back and where it leads."""
    loops = [[]]
    for place, (address, text) in enumerate(code):
        branch = re.search(r"\bBRA\S*.*?0x([0-9a-f]+)$", text)
        if branch and int(branch[1], 16) < address:
            loops.append([t for a, t in code[: place + 1] if a >= int(branch[1], 16)])
    with_them = [x for x in loops if any(opcode_of(t).startswith(opcodes) for t in x)]
    assert with_them, "no loop holds the products"
    return max(with_them, key=len)


def opcode_of(text):
    return re.sub(r"^@!?U?P\w+ ", "", text).split()[0]


@pytest.mark.parametrize(("row", "arch"), CLAIMED)
def test_a_loop_is_its_products_and_hardly_anything_else(row, arch, tmp_path):
    known = supported_archs()
    if arch not in known:
        pytest.skip(f"the installed NVRTC knows {known[0]} to {known[-1]}, not {arch}")
    made = compile_logged(row.source, row.arch(capability(arch)), row.defines())
    log = made.log.replace("\0", "")
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill)", log)) == {"0"}
    assert "warning" not in log.lower()
    assert not re.findall(r"C75(?:08|10|12)|C7602", log)  # wgmma one after the other, and the like
    code = disassembled(made, tmp_path)
    assert not [t for _, t in code if opcode_of(t).startswith(("LDL", "STL"))]
    loop = [t for t in loop_with(row.opcodes, code) if not IDLE.match(t)]
    products = [opcode_of(t) for t in loop if opcode_of(t).startswith(row.opcodes)]
    kinds = {".".join(name.split(".")[:2]) for name in products}
    parts = {PARTS.get((row.probe.unit, row.probe.dtype, k.split(".")[-1]), 1) for k in kinds}
    assert len(parts) == 1
    assert len(products) == row.probe.chains * row.probe.steps * parts.pop()
    # wgmma of 64 x 256 keeps the unit busy for at least 64 cycles, whatever stands between.
    assert len(products) >= (0.9 if row.probe.unit == "wgmma" else 0.93) * len(loop)
    if row.probe.unit in VECTOR_UNITS:
        assert len(products) >= 0.95 * len(loop)


@pytest.mark.parametrize("row", [r for r in peak.ROWS if r.feed], ids=lambda row: row.name)
def test_a_fed_loop_multiplies_what_tma_brings(row, tmp_path):
    made = compile_logged(row.source, "sm_90a", row.defines())
    log = made.log.replace("\0", "")
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill)", log)) == {"0"}
    assert not re.findall(r"C75(?:08|10|12)|C7602", log)
    code = disassembled(made, tmp_path)
    assert not [t for _, t in code if opcode_of(t).startswith(("LDL", "STL"))]
    loop = [opcode_of(t) for t in loop_with(row.opcodes, code)]
    assert sum(name.startswith(row.opcodes) for name in loop) == 4  # a stage
    names = [opcode_of(t) for _, t in code]
    assert names.count("UTMALDG.2D.MULTICAST") == names.count("UTMALDG.2D") > 0
    assert ("USETMAXREG.DEALLOC.CTAPOOL" in names) == row.feed.has_producer
    assert row.shared_bytes <= 227 * 1024


@pytest.mark.parametrize(("unit", "dtype", "opcode"), [
    ("ffma", "fp32", "FFMA"), ("hfma2", "fp16", "HFMA2"), ("dfma", "fp64", "DFMA"),
])  # fmt: skip
def test_an_instruction_reads_one_register_that_the_one_before_did_not(
    unit, dtype, opcode, tmp_path
):
    """More would come slower than the unit multiplies."""
    row = peak.choose(unit, dtype, (9, 0))
    code = disassembled(compile_logged(row.source, "sm_90", row.defines()), tmp_path)
    sources = [re.findall(r"R(\d+)", t)[1:] for _, t in code if opcode_of(t).startswith(opcode)]
    assert len(sources) == row.probe.chains * row.probe.steps
    common = set.intersection(*map(set, sources))
    assert len(common) >= 1
    assert all(len(set(three) - common) == 1 for three in sources)


@pytest.mark.parametrize(
    ("unit", "dtype", "chip"),
    [
        ("mma", "fp8_e4m3", (9, 0)),
        ("mma", "fp8_e4m3", (10, 0)),
        ("wgmma", "fp16", (8, 9)),
        ("wgmma", "fp16", (10, 0)),
        ("dmma", "fp64", (7, 5)),
        ("imad", "int32", (6, 1)),
    ],
)
def test_what_a_chip_would_emulate_is_not_offered(unit, dtype, chip):
    with pytest.raises(peak.Unavailable, match="no hardware"):
        peak.choose(unit, dtype, chip)
