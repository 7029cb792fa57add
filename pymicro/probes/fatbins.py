"""Which chips a library carries machine code for, read from its file.

CUDA code lies in a library's sections `.nv_fatbin` and `__nv_relfatbin` as containers, one after
another: a header of 16 bytes with the container's size, then entries, each with a header that says
PTX or machine code, for which architecture, and how long it is. Only headers are read, never code.
The layout is NVIDIA's and nowhere documented by them; it was read from files and agrees with what
`cuobjdump --list-elf` lists (see the test). A header that does not fit is passed over.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from pymicro.software.codes import Arch

_MAGIC = struct.pack("<I", 0xBA55ED50)
_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
# Kind, version, size of this header, size of what follows; the architecture's number at 28, flags
# at 40, of which one says `a` (entries that nvcc 13.0 made for 9.0, 9.0a, 10.0a). Code for a family
# (10.0f) has the flags of plain code, and runs where that does.
_ENTRY = struct.Struct("<HHIQ")
_ARCH_AT, _FLAGS_AT, _LEAST_HEADER, _MOST_HEADER = 28, 40, 48, 1024
_OWN_CHIP_ALONE = 0x100000
_PTX, _MACHINE_CODE = 1, 2
_KNOWN = range(30, 1000)


def archs_of(path: Path) -> tuple[Arch, ...]:
    """The architectures of all code in a library, sorted; empty where it has none.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = {
            arch
            for start, size in _sections(data)
            for at, end in _containers(data, start, start + size)
            for arch in _entries(data, at, end)
        }
    return tuple(sorted(found, key=lambda a: (a.capability, a.is_ptx, a.suffix)))


def _sections(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of the sections that hold CUDA code, of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return
    table = struct.unpack_from("<Q", data, 0x28)[0]
    each, count, names = struct.unpack_from("<HHH", data, 0x3A)
    if each < 0x40 or table + each * count > len(data):
        return
    rows = [struct.unpack_from("<IIQQQQ", data, table + i * each) for i in range(count)]
    if not rows or names >= count:
        return
    text = rows[names][4]
    for name, _, _, _, offset, size in rows:
        end = data.find(b"\0", text + name, text + name + 64)
        if data[text + name : max(end, 0)] in _SECTIONS and offset + size <= len(data):
            yield offset, size


def _containers(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int]]:
    """First and last byte of the entries of each container."""
    while (at := data.find(_MAGIC, at, end)) >= 0:
        if at + 16 > end:
            return
        _, header, size = struct.unpack_from("<HHQ", data, at + 4)
        stop = at + header + size
        if header < 16 or stop > end:
            at += 4  # The same four bytes by chance.
            continue
        yield at + header, stop
        at = stop


def _entries(data: mmap.mmap, at: int, end: int) -> Iterator[Arch]:
    while at + _LEAST_HEADER <= end:
        kind, _, header, size = _ENTRY.unpack_from(data, at)
        if not _LEAST_HEADER <= header <= _MOST_HEADER:
            return
        number = struct.unpack_from("<I", data, at + _ARCH_AT)[0]
        if kind in (_PTX, _MACHINE_CODE) and number in _KNOWN:
            flags = struct.unpack_from("<Q", data, at + _FLAGS_AT)[0]
            suffix = "a" if flags & _OWN_CHIP_ALONE else ""
            yield Arch((number // 10, number % 10), kind == _PTX, suffix)
        at += header + size
