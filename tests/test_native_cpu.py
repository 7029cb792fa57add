"""CPU features and register-only probes of pymicro._native."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

from pymicro import issue, operands, suite
from pymicro.backends import backend
from pymicro.backends.base import Place
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import WrongResult

native = pytest.importorskip("pymicro._native")

# Names of the same bits in /proc/cpuinfo, which the kernel clears where it does not save state.
PROC_NAMES = [
    *("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"),
]


def proc_flags() -> set[str]:
    path = pathlib.Path("/proc/cpuinfo")
    if not path.exists():
        pytest.skip("no /proc/cpuinfo")
    for line in path.read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    pytest.skip("/proc/cpuinfo names no x86 flags")


def test_features_agree_with_the_kernel():
    features, flags = native.cpu_features(), proc_flags()
    ours = {name for name in PROC_NAMES if features[name]}
    kernels = {name for name in PROC_NAMES if name in flags}
    assert ours <= kernels
    # A sandbox may list the matrix unit and yet refuse the request for its registers.
    assert {name for name in kernels - ours if not name.startswith("amx")} == set()


def test_sizes_are_plausible_or_absent():
    features = native.cpu_features()
    assert features["logical_cpus"] is None or features["logical_cpus"] <= (os.cpu_count() or 0)
    levels = [features[f"{level}_bytes"] for level in ("l1d", "l2", "l3")]
    known = [size for size in levels if size is not None]
    assert known == sorted(known)
    assert all(size >= 4096 for size in known)


def test_paths_need_their_features():
    features = native.cpu_features()
    needs = {
        "avx2": "avx2",
        "avx_vnni": "avx_vnni",
        "avx512": "avx512f",
        "avx512_vnni": "avx512_vnni",
        "avx512_bf16": "avx512_bf16",
        "amx": "amx_tile",
    }
    for dtype in ("fp64", "fp32", "fp16", "bf16", "int8"):
        for path in native.gemm_paths(dtype):
            assert path == "portable" or features[needs[path]]


def test_probes_issue_what_their_rows_say():
    for name, flop in native.peak_probes().items():
        row = issue.CPU_PROBES[tuple(name.split("/"))]
        assert flop == 2 * row.lanes * row.terms * row.chains
        assert row.blocks * issue.TURNS * flop == row.flop_a_thread


@pytest.mark.parametrize("fill", ["normal", "integers", "zeros"])
@pytest.mark.parametrize("name", native.peak_probes())
def test_probes_leave_what_the_reference_expects(name, fill):
    unit, dtype = name.split("/")
    params, benchmark = {"unit": unit, "threads": 2}, suite.benchmark("peak")
    a, b, c = benchmark.operands(dtype, params)
    arrays = {o.name: operands.draw(o.shape, DTYPES[dtype], fill, n) for n, o in enumerate((a, b))}
    arrays["c"] = np.full(c.shape, -1, np.int32)
    case = Case("peak", "native", "issue", dtype, params)
    backend("native").prepare(case, Place("cpu"), arrays).call()
    reference = benchmark.reference(dtype, params, arrays)
    reference.check(arrays["c"])
    spoiled = [(1, 0, 1)] if fill == "zeros" else [(1, 0, 1), (1, 2 + (dtype == "fp64"), 1 << 20)]
    for row, column, change in spoiled:
        wrong = arrays["c"].copy()
        wrong[row, column] ^= change
        with pytest.raises(WrongResult):
            reference.check(wrong)


@pytest.mark.parametrize(
    "words",
    [
        {"probe": "abacus/fp32"},
        {"probe": "portable/fp32"},
        {"probe": "avx2/fp32", "threads": 0},
        {"probe": "avx2/fp32", "blocks": 0},
        {"probe": "avx2/fp32", "threads": 2},
        {"probe": "avx2/fp32", "a": np.zeros(7, np.float32)},
    ],
)
def test_probes_refuse_what_they_cannot_do(words):
    ordinary = {n: np.ones(8, np.float32) for n in "ab"} | {"out": np.zeros(98, np.int32)}
    with pytest.raises(ValueError):
        native.issue(**ordinary | words)
