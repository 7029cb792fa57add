"""Machine code of the portable GEMM kernels: every source for every chip it claims; no GPU."""

import functools
import importlib.util
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

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
    """Each row with the first chip it runs on that NVRTC 13 knows."""
    chosen = []
    for row in rows:
        arch = next(a for a in ARCHS if runs(row, a) and a not in ("sm_61", "sm_70"))
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
    return row.path == "sm89" and arch in ("sm_90", "sm_100")


def check_log(row, arch):
    log = compiled(row, arch).log.replace("\0", "")
    assert int(re.search(r"Used (\d+) registers", log)[1]) * row.threads <= 65536
    assert "warning" not in log.lower()
    spills = re.findall(r"(\d+) bytes (?:stack frame|spill)", log)
    assert spills
    if not fp8_is_emulated(row, arch):
        assert set(spills) == {"0"}


@pytest.mark.parametrize(("row", "arch"), for_oldest(one_of_each()))
def test_each_kind_fits_its_oldest_chip(row, arch):
    check_log(row, arch)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "arch"), pairs(ROWS))
def test_every_row_fits_every_chip(row, arch):
    check_log(row, arch)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_shared_memory_fits_the_oldest_chip(row):
    """Opt-in shared memory of a block: programming guide, technical specifications."""
    limit = {(6, 1): 48, (7, 0): 96, (7, 5): 64, (8, 0): 163, (8, 9): 99, (9, 0): 227}[row.first]
    assert row.shared_bytes <= limit * 1024


def tool(name):
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in Path(folder).glob(f"*/bin/{name}"):
            return str(path)
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


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
        ("sm80_fp64_128x128x16", "sm_80", "DMMA.8x8x4"),
        ("sm90_fp64_128x128x16", "sm_90", "DMMA.16x8x8"),
    ],
)
def test_products_are_the_instructions_meant(name, arch, opcode, tmp_path):
    counts = Counter(PRODUCTS.findall("\n".join(listing(named(name), arch, tmp_path))))
    assert counts[opcode] >= 32
    others = {key for key in counts if "MMA" in key and key != opcode}
    assert not others
