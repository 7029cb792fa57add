"""Machine code of the bandwidth and latency kernels for the chips they claim; no GPU."""

import functools
import re
import subprocess
from collections import Counter

import pytest
from nvidia_tools import tool

from pymicro.backends.cuda import bandwidth_rows, latency
from pymicro.compiler import compile_logged, supported_archs

ARCHS = ("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
DTYPES = ("fp64", "fp32", "fp16", "bf16", "int32", "int8")
BANDWIDTH = [
    pytest.param(row, op, id=f"{row.name}-{op}") for row, op in dict.fromkeys(bandwidth_rows.rows())
]
ON_90 = [p for p in BANDWIDTH if p.values[0].runs_on((9, 0))]


def capability(arch):
    return int(arch[3:-1]), int(arch[-1])


def dtype_of(row):
    """Kernels of on-chip levels add up words, whatever they are."""
    return "fp32" if row.entry in ("stream", "gather") else "int32"


@functools.cache
def compiled(source, arch, macros):
    known = supported_archs()
    if arch not in known:
        pytest.skip(f"the installed NVRTC knows {known[0]} to {known[-1]}, not {arch}")
    return compile_logged(source, arch, macros)


def check_log(made, threads):
    log = made.log.replace("\0", "")
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    assert registers
    assert max(registers) * threads <= 65536
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill)", log)) == {"0"}
    assert "ptxas warning" not in log.lower()


_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)\s*([^;]*);")


def listing(made, tmp_path):
    """Address, opcode and operands in order."""
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(made.cubin)
    command = [tool("cuobjdump"), "--dump-sass", str(cubin)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [(int(a, 16), opcode, rest) for a, opcode, rest in _INSTRUCTION.findall(text)]


def instructions(made, tmp_path):
    """Opcodes in order, without predicates and operands."""
    return [opcode for _, opcode, _ in listing(made, tmp_path)]


def loops(made, tmp_path):
    """The opcodes between each backward branch and its target."""
    found = listing(made, tmp_path)
    for address, opcode, rest in found:
        target = re.search(r"0x([0-9a-f]+)", rest)
        if opcode == "BRA" and target and int(target[1], 16) < address:
            yield [o for a, o, _ in found if int(target[1], 16) <= a < address]


@pytest.mark.parametrize(("row", "op"), ON_90)
def test_rows_fit_hopper_without_local_memory(row, op):
    check_log(compiled(row.source, "sm_90", row.macros(op, dtype_of(row))), row.threads)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("row", "op"), BANDWIDTH)
def test_rows_fit_every_chip(row, op, arch):
    if not row.runs_on(capability(arch)):
        pytest.skip("not for this chip")
    check_log(compiled(row.source, arch, row.macros(op, dtype_of(row))), row.threads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_120"])
def test_every_format_compiles_for_old_and_new(dtype, arch):
    row = bandwidth_rows.RESIDENT[1]
    check_log(compiled(row.source, arch, row.macros("triad", dtype)), row.threads)


def row_named(start, op):
    return next(r for r, o in bandwidth_rows.rows() if o == op and r.name.startswith(start))


@pytest.mark.parametrize("op", ["copy", "triad"])
def test_all_loads_are_in_flight_before_the_first_store(op, tmp_path):
    row = row_named("stream128", op)
    found = instructions(compiled(row.source, "sm_90", row.macros(op, "fp32")), tmp_path)
    wide = [name[:3] for name in found if ".128" in name and name[:3] in ("LDG", "STG")]
    loads = row.unroll * bandwidth_rows.inputs_of(op)
    assert wide[: loads + row.unroll] == ["LDG"] * loads + ["STG"] * row.unroll


def test_a_bulk_copy_touches_no_register(tmp_path):
    row = row_named("bulk", "copy")
    found = instructions(compiled(row.source, "sm_90", row.macros("copy", "fp32")), tmp_path)
    assert {"UBLKCP.S.G", "UBLKCP.G.S"} <= set(found)
    assert not [name for name in found if name.startswith(("LDS", "STS"))]


def test_bulk_reads_are_added_up_from_shared_memory(tmp_path):
    row = row_named("bulk", "read")
    found = instructions(compiled(row.source, "sm_90", row.macros("read", "fp32")), tmp_path)
    counts = Counter(found)
    assert counts["LDS.128"] >= 8
    assert counts["FADD"] >= 4 * counts["LDS.128"]


@pytest.mark.parametrize(
    ("source", "macros", "load"),
    [
        ("bandwidth/stream.cu", bandwidth_rows.RESIDENT[0].macros("read", "fp32"), "STRONG.GPU"),
        (
            "bandwidth/l1.cu",
            bandwidth_rows.on_chip("l1", 65536).macros("read", "int32"),
            "STRONG.SM",
        ),
    ],
)
def test_cache_levels_are_read_where_they_say(source, macros, load, tmp_path):
    """.cg is scoped to the GPU and so bypasses L1; .ca is served by the SM."""
    found = instructions(compiled(source, "sm_90", macros), tmp_path)
    wide = {name for name in found if name.startswith("LDG") and "128" in name}
    assert wide == {f"LDG.E.128.{load}"}


@pytest.mark.parametrize(
    ("level", "load"), [("shared", "LDS.128"), ("dsmem", "LD.E.128"), ("l1", "LDG.E.128")]
)
@pytest.mark.parametrize("kib", [32, 64, 128, 224])
def test_each_word_is_read_anew_in_every_pass_and_added(level, load, kib, tmp_path):
    """Loads that stood before the loop once made 450 bytes a clock of 128."""
    if level == "l1" and kib > 192:
        pytest.skip("no L1 is as large")
    row = bandwidth_rows.on_chip(level, kib * 1024)
    made = compiled(row.source, "sm_90", row.macros("read", "int32"))
    counts = [Counter(loop) for loop in loops(made, tmp_path)]
    inside = [
        (sum(n for name, n in c.items() if name.startswith(load)), c)
        for c in counts
        if sum({"IADD3": 2, "IADD": 1, "IMAD.IADD": 1}.get(n, 0) * m for n, m in c.items()) >= 4
    ]
    loads, body = max(inside, key=lambda pair: pair[0])
    assert loads == row.unroll
    added = sum({"IADD3": 2, "IADD": 1, "IMAD.IADD": 1}.get(n, 0) * m for n, m in body.items())
    assert added >= 4 * loads


def test_wide_rows_use_256_bits_on_blackwell(tmp_path):
    row = row_named("stream256", "copy")
    found = instructions(compiled(row.source, "sm_100", row.macros("copy", "fp32")), tmp_path)
    assert sum("256" in name for name in found if name[:3] in ("LDG", "STG")) >= 2 * row.unroll


def test_a_chase_past_l1_asks_l2(tmp_path):
    row = latency.PAST_L1
    found = instructions(compiled(row.source, "sm_90", row.macros()), tmp_path)
    loads = [name for name in found if name.startswith("LDG.E.64")]
    assert len(loads) >= 64  # Two loops of 32, and what makes the ring.
    assert set(loads) == {"LDG.E.64.STRONG.GPU", "LDG.E.64"}


@pytest.mark.parametrize(
    ("key", "opcode"),
    [
        (("memory", "load"), "LDG.E.64.STRONG.SM"),
        (("memory", "generic"), "LD.E.64"),
        (("host", "load"), "LDG.E.64.STRONG.SYS"),
        (("memory", "atomic"), "ATOMG.E.ADD.64.STRONG.GPU"),
        (("shared", "load"), "LDS"),
        (("shared", "atomic"), "ATOMS.ADD"),
        (("dsmem", "load"), "LD.E.64"),
    ],
)
def test_a_chase_is_nothing_but_its_loads(key, opcode, tmp_path):
    row = latency.ROWS[key]
    made = compiled(row.source, "sm_90", row.macros())
    check_log(made, 256)
    found = instructions(made, tmp_path)
    loop = loop_of(opcode, found)
    assert loop.count(opcode) == 32
    assert not [name for name in loop if "MOV" in name]


def test_the_search_of_partitions_times_bare_loads(tmp_path):
    made = compiled("latency/partitions.cu", "sm_90", ())
    check_log(made, 32)
    found = instructions(made, tmp_path)
    loads = [i for i, name in enumerate(found) if name == "LDG.E.64.STRONG.GPU"]
    timed = [i for i in loads if set(range(i, i + 16)) <= set(loads)]
    assert [found[i - 2] for i in timed] == ["S2UR"]  # The clock, then nothing but loads.


def loop_of(opcode, found):
    """The last loop that holds an opcode: from its first such to the branch behind its last."""
    last = max(i for i, name in enumerate(found) if name == opcode)
    before = [i for i, name in enumerate(found[:last]) if name == "BRA"]
    first = found.index(opcode, max(before))
    return found[first : found.index("BRA", last)]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("key", latency.ROWS, ids="-".join)
def test_chases_fit_every_chip(key, arch):
    row = latency.ROWS[key]
    if capability(arch) < row.first:
        pytest.skip("not for this chip")
    check_log(compiled(row.source, arch, row.macros()), 256)
