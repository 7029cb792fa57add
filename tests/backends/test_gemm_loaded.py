"""GEMM rows as PTX: for which architecture, and what is refused."""

import re
from dataclasses import replace

import pytest

from pymicro import compiler
from pymicro.backends.base import Place
from pymicro.backends.cuda import gemm, gemm_loaded
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

KNOWN = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
PARAMS = {"m": 256, "n": 256, "k": 256, "layout": "nt", "path": "sm80"}
HOPPER = Place("cuda", 0, (9, 0), 132)


@pytest.mark.parametrize(
    ("first", "suffix", "arch"),
    [
        ((6, 1), "", "compute_75"),
        ((7, 0), "", "compute_75"),
        ((7, 5), "", "compute_75"),
        ((8, 0), "", "compute_80"),
        ((8, 9), "", "compute_89"),
        ((9, 0), "a", "compute_90a"),
    ],
)
def test_the_oldest_ptx_that_has_the_instructions(first, suffix, arch):
    row = replace(gemm.rows()[0], first=first, arch_suffix=suffix)
    assert gemm_loaded.virtual_arch(row, KNOWN) == arch


@pytest.mark.parametrize("path", ["sm75", "sm80", "sm90"])
def test_ptx_targets_the_generation_and_not_this_chip(path):
    row = gemm.choose(Case("gemm", "cuda", "fastest", "fp16", PARAMS | {"path": path}), HOPPER)
    arch = gemm_loaded.virtual_arch(row, compiler.supported_archs())
    ptx = compiler.compile_ptx(row.source, arch, row.defines)
    assert ptx.endswith(b"\0")
    assert b"\0" not in ptx[:-1]
    target = re.search(rb"^\.target (sm_\w+)", ptx, re.MULTILINE)[1].decode()
    assert target == arch.replace("compute", "sm")
    assert row.entry.encode() in ptx


def test_a_source_that_does_not_compile_shows_the_log():
    with pytest.raises(compiler.CompileError, match="compute_80"):
        compiler.compile_ptx("gemm/sm80.cu", "compute_80", (("DTYPE", "no_such_type"),))


def test_with_the_drivers_cache_on_the_first_use_would_be_a_lie(monkeypatch):
    monkeypatch.delenv(gemm_loaded.CACHE_OFF, raising=False)
    with pytest.raises(Unavailable, match="CUDA_CACHE_DISABLE=1"):
        gemm.prepare(Case("gemm", "cuda", "ptx", "fp16", PARAMS), HOPPER, {})


def test_a_plain_run_is_not_offered_these():
    assert not set(gemm.variants("fp16", HOPPER)) & set(gemm_loaded.VARIANTS)


def test_each_load_is_timed_with_its_first_launch(monkeypatch):
    loads, launches, now = [], [], iter(range(100))
    monkeypatch.setenv(gemm_loaded.CACHE_OFF, "1")
    monkeypatch.setattr(gemm_loaded.time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(gemm_loaded.driver, "check", lambda returned: None)
    monkeypatch.setattr(gemm_loaded.driver, "cuda", lambda: type("C", (), {
        "cuCtxSynchronize": staticmethod(lambda: None)}))  # fmt: skip
    monkeypatch.setattr(
        gemm_loaded.driver.Kernel, "load", lambda code, *_: loads.append(code) or "kernel"
    )
    monkeypatch.setattr(gemm, "bind", lambda *_: lambda: launches.append(1))
    array = type("A", (), {"ptr": 256})
    arrays = dict.fromkeys("abc", array)
    prepared = gemm.prepare(Case("gemm", "cuda", "ptx", "fp16", PARAMS), HOPPER, arrays)
    assert prepared.notes["first_use_s"] == [1.0, 1.0, 1.0]
    assert prepared.notes["code"] == "compute_80"
    assert len(loads) == len(launches) == 3
    assert loads[0].startswith(b"//")
