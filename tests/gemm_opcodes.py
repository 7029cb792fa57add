"""Opcode counts of the GEMM kernels, as `tests/golden/gemm_opcodes.json` keeps them.

A change of a kernel, a macro or the compiler shows there as a diff to be judged. After looking at
it, write the new counts with the reason, which the file keeps:

    python tests/gemm_opcodes.py --reason "deeper ring in sgemm_split: two more barriers"

It compiles every row for the oldest chip that it runs on and NVRTC knows (about four minutes on
two cores), prints what changed and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvidia_tools import find

from pymicro.backends.cuda import gemm, gemm_portable
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.compiler import compile_logged, supported_archs

GOLDEN = Path(__file__).parent / "golden" / "gemm_opcodes.json"
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.M)
# What decides the speed: products, by shape where they have one; traffic, by kind; waiting.
_PRODUCT = re.compile(r"(?:[HIQD]G?MMA|IDP)\.\w+|FFMA|DFMA|HFMA2|IMAD(?!\.MOV)")
_OTHER = re.compile(
    r"LDG|STG|LDS\b|STS|LDSM|LDGSTS|LDL|STL|UTMALDG|UTMASTG|UBLKCP|BAR|SYNCS|DEPBAR|LDGDEPBAR"
    r"|WARPGROUP|USETMAXREG|F2F|I2F|F2I|BRA|CALL"
)


def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def compiler_version() -> str:
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def first_arch(row: GemmKernel) -> str | None:
    """The oldest architecture that the row is for and the compiler knows; None: it knows none."""
    for arch in supported_archs():
        number = arch.removeprefix("sm_")
        chip = int(number[:-1]), int(number[-1])
        if row.runs_on(chip) and gemm_portable.made_for(row) <= chip:
            return arch + row.arch_suffix
    return None


def sampled() -> list[GemmKernel]:
    """The first row of each source, path and format that reads B as n×k."""
    seen: dict[tuple[str, str, str], GemmKernel] = {}
    for row in gemm.rows():
        if "nt" in row.layouts:
            seen.setdefault((row.source, row.path, row.dtype), row)
    return list(seen.values())


def counted(listing: str) -> dict[str, int]:
    """Counts of the opcodes that matter in a disassembly, and of all instructions."""
    opcodes = _INSTRUCTION.findall(listing)
    kept: Counter[str] = Counter()
    for opcode in opcodes:
        if found := _PRODUCT.match(opcode):
            kept[found[0]] += 1
        elif _OTHER.match(opcode):
            kept[opcode.split(".")[0]] += 1
    return {"all": len(opcodes)} | dict(sorted(kept.items()))


def counts(row: GemmKernel, tool: str) -> dict[str, Any]:
    """Architecture, registers and opcode counts of a row for its first chip."""
    arch = first_arch(row)
    assert arch is not None
    compiled = compile_logged(row.source, arch, row.defines)
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(compiled.cubin)
        done = subprocess.run([tool, "-c", str(cubin)], capture_output=True, check=True)
    registers = re.search(r"Used (\d+) registers", compiled.log)
    return {
        "arch": arch,
        "registers": int(registers[1]) if registers else None,
        **counted(done.stdout.decode(errors="replace")),
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two tables of rows, a line each, for a reader."""
    said = [f"{name}: gone" for name in before if name not in after]
    for name, own in after.items():
        old = before.get(name)
        if old is None:
            said.append(f"{name}: new")
            continue
        keys = [key for key in {**old, **own} if old.get(key) != own.get(key)]
        if keys:
            told = ", ".join(f"{key} {old.get(key, 0)} -> {own.get(key, 0)}" for key in keys)
            said.append(f"{name}: {told}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reason", required=True, help="why the counts changed; kept in the file")
    reason = parser.parse_args().reason
    tool = find("nvdisasm")
    if tool is None:
        sys.exit("no nvdisasm; pip install nvidia-cuda-nvdisasm")
    rows = [row for row in gemm.rows() if first_arch(row)]
    with ThreadPoolExecutor(2) as pool:
        made = dict(pool.map(lambda row: (row.name, counts(row, tool)), rows))
    before = golden()["rows"] if GOLDEN.exists() else {}
    print("\n".join(changes(before, made)) or "nothing changed")
    lines = [f"    {json.dumps(name)}: {json.dumps(own)}" for name, own in sorted(made.items())]
    head = {"compiler": compiler_version(), "reason": reason}
    text = json.dumps(head, indent=2, ensure_ascii=False).rstrip("}\n")
    GOLDEN.write_text(f'{text},\n  "rows": {{\n' + ",\n".join(lines) + "\n  }\n}\n", "utf-8")


if __name__ == "__main__":
    main()
