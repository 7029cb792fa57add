"""Machine code in a library, read from its file: an invented file, and real ones by cuobjdump."""

import re
import shutil
import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from pymicro.probes.fatbins import archs_of

PTX, CODE = 1, 2


def entry(kind, number, body=b"x" * 24, header=64, flags=0x11):
    """One entry: its header, with the architecture at 28 and flags at 40, and what it is for."""
    head = struct.pack("<HHIQ", kind, 0x101, header, len(body)) + b"\0" * 12
    head += struct.pack("<IQQ", number, 0, flags)
    return head.ljust(header, b"\0") + body


def container(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def elf(path, **sections):
    """The least of an ELF file in which sections are found by name."""
    names, body, rows = b"\0", b"", [struct.pack("<IIQQQQ", 0, 0, 0, 0, 0, 0)]
    at = 64
    for name, data in sections.items():
        rows.append(struct.pack("<IIQQQQ", len(names), 1, 0, 0, at, len(data)))
        names += name.encode() + b"\0"
        body, at = body + data, at + len(data)
    rows.append(struct.pack("<IIQQQQ", len(names), 3, 0, 0, at, len(names) + 9))
    names += b".names\0\0\0"
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, at + len(names))
    struct.pack_into("<HHH", head, 0x3A, 64, len(rows), len(rows) - 1)
    path.write_bytes(bytes(head) + body + names + b"".join(r.ljust(64, b"\0") for r in rows))
    return path


def listed(path):
    return [str(arch) for arch in archs_of(path)]


def test_every_container_and_entry_counts(tmp_path):
    code = container(entry(CODE, 80), entry(CODE, 90, header=112)) + b"\0" * 5
    code += container(entry(PTX, 120))
    assert listed(elf(tmp_path / "a.so", **{".nv_fatbin": code})) == [
        "sm_80", "sm_90", "compute_120",
    ]  # fmt: skip


def test_code_for_one_chip_alone_is_told_from_portable_code(tmp_path):
    """Flags as nvcc 13.0 sets them for sm_90, sm_90a, sm_100f, sm_100a and compute_80."""
    seen = ((90, 0x11), (90, 0x100011), (100, 0x1200011), (100, 0x1100011))
    code = container(*(entry(CODE, n, flags=f) for n, f in seen), entry(PTX, 80, flags=0x8011))
    found = archs_of(elf(tmp_path / "a.so", **{".nv_fatbin": code}))
    assert {str(a) for a in found} == {"sm_90", "sm_90a", "sm_100", "sm_100a", "compute_80"}


def test_relocatable_code_counts_and_other_sections_do_not(tmp_path):
    more = {"__nv_relfatbin": container(entry(CODE, 75)), ".rodata": container(entry(CODE, 35))}
    assert listed(elf(tmp_path / "a.so", **more)) == ["sm_75"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("<I", 0xBA55ED50),
        container(entry(CODE, 90))[:40],  # Cut short: its size leads past the end.
        container(entry(7, 90)),
        container(entry(CODE, 5000)),
        container(entry(CODE, 90, header=4)),
    ],
    ids=["empty", "magic only", "cut", "kind", "number", "header"],
)
def test_what_does_not_fit_is_passed_over(tmp_path, data):
    assert listed(elf(tmp_path / "a.so", **{".nv_fatbin": data})) == []


def test_no_library(tmp_path):
    (tmp_path / "text").write_text("no ELF file at all")
    assert listed(tmp_path / "text") == []
    with pytest.raises(OSError):
        archs_of(tmp_path / "absent")


def test_it_agrees_with_the_vendors_own_tool():
    tool = shutil.which("cuobjdump")
    wheel = find_spec("nvidia")
    for folder in (wheel.submodule_search_locations or ()) if wheel and not tool else ():
        tool = next(map(str, Path(folder).glob("cu*/bin/cuobjdump")), tool)
    cupy = find_spec("cupy")
    if tool is None or cupy is None or cupy.origin is None:
        pytest.skip("needs cuobjdump and a library with CUDA code: CuPy")
    library = next(Path(cupy.origin).parent.rglob("thrust*.so"))
    said = subprocess.run(
        [tool, "--list-elf", "--list-ptx", str(library)], capture_output=True, text=True
    )
    wanted = {f"sm_{n}" for n in re.findall(r"\.sm_(\d+[af]?)\.cubin", said.stdout)}
    wanted |= {f"compute_{n}" for n in re.findall(r"\.sm_(\d+[af]?)\.ptx", said.stdout)}
    assert wanted
    assert set(listed(library)) == wanted
