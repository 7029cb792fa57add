"""CuPy's nearly empty kernels: the launch with a double of CuPy, the source through NVRTC."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pymicro import calls
from pymicro.kernels.cupy import launch


@pytest.mark.parametrize("call", calls.LAUNCHES)
def test_numbers_travel_as_four_bytes(call, monkeypatch):
    launched = []

    def raw_kernel(source, name):
        assert f"void {name}(" in source
        return lambda grid, block, given: launched.append((name, grid, block, given))

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawKernel=raw_kernel))
    given = calls.arguments(call, "out", "in")
    function, own = launch.VARIANTS["raw"](call, given)
    function(*own)
    assert len(launched) == 2  # The first compiles and loads.
    name, grid, block, seen = launched[-1]
    assert (name, grid, block, seen) == (call, (1,), (1,), given)
    assert all(isinstance(x, str | np.uint32) for x in seen)


def test_the_source_is_the_kernel_of_the_other_layers():
    """Machine code, not text: the two may be worded differently."""
    pytest.importorskip("cuda.core")
    from pymicro.compiler import compile_text, joined_source, supported_archs

    if "sm_90" not in supported_archs():
        pytest.skip("the installed NVRTC does not compile for sm_90")
    ours, theirs = (
        code_of(compile_text(text, "sm_90"))
        for text in (joined_source("launch/empty.cu"), launch.SOURCE)
    )
    assert set(ours) == {f".text.{name}" for name in calls.LAUNCHES}
    assert ours == theirs


def code_of(cubin: bytes) -> dict[str, bytes]:
    """The code sections of a 64-bit ELF file by name."""
    table, size, count, names = (
        int.from_bytes(cubin[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62), (62, 64))
    )
    headers = [cubin[table + i * size : table + (i + 1) * size] for i in range(count)]

    def span(header: bytes) -> tuple[int, int]:
        return int.from_bytes(header[24:32], "little"), int.from_bytes(header[32:40], "little")

    words = span(headers[names])[0]
    found = {}
    for header in headers:
        start = words + int.from_bytes(header[:4], "little")
        name = cubin[start : cubin.index(b"\0", start)].decode()
        if name.startswith(".text."):
            offset, length = span(header)
            found[name] = cubin[offset : offset + length]
    return found
