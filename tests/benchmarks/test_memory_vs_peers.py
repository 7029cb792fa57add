"""The study of memory streams: what other programs print, and a small run on the CPU."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import memory_tools
import memory_vs_peers as study
import paired

from pymicro.results import Store

BABELSTREAM = """\
phase,n_elements,sizeof,max_mbytes_per_sec,runtime
Init,268435456,8,1381247,0.00466
Read,268435456,8,2563.1,2.51
function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime
Copy,30,268435456,8,4000000,0.001,0.0012,0.00125
Mul,30,268435456,8,3900000,0.001,0.0012,0.001
Add,30,268435456,8,4350000,0.001,0.0012,0.001
Triad,30,268435456,8,4350000,0.001,0.0012,0.001
Dot,30,268435456,8,4410000,0.001,0.0012,0.001
"""
GPU_STREAM = """\
blockSize   threads       %occ  |                init       read       scale     triad       3pt
       32        4224    3.1 %  |  GB/s:    2105   1300   1200   1500   1100   1000
      256       33792   25.0 %  |  GB/s: ! 3 blocks per SM   3105   4300   3500   4020   3400   3300
     1024      135168  100.0 %  |  GB/s:    3300   4200   3510   4010   3400   3300
"""
NVBANDWIDTH = """\
nvbandwidth Version: v0.8
{"nvbandwidth": {"testcases": [
  {"name": "device_local_copy", "status": "Passed", "bandwidth_matrix": [["2043.5", "N/A"]]},
  {"name": "device_to_device_memcpy_read_ce", "status": "Waived"}]}}
"""


def rates(figures):
    return {(f.op, f.dtype): f.bytes_per_s for f in figures}


def test_babelstream_is_read_at_its_mean_rate():
    found = rates(memory_tools.babelstream(BABELSTREAM))
    assert found["copy", "fp64"] == pytest.approx(4e12 * 0.001 / 0.00125)
    assert {f.how for f in memory_tools.babelstream(BABELSTREAM)} == {
        "mean, host clock, arrays of 2 GiB"
    }
    assert set(found) == {(op, "fp64") for op in ("copy", "scale", "add", "triad", "dot")}
    for unit, size in (("mibytes", 2**20), ("MB", 1e6), ("MiB", 2**20), ("GB", 1e9)):
        other = BABELSTREAM.replace("max_mbytes_per_sec", f"max_{unit}_per_sec")
        assert rates(memory_tools.babelstream(other))["add", "fp64"] == 4350000 * size


@pytest.mark.parametrize(("size", "elements"), [(2**28, 2**25), (2**32, 2**27)])
def test_babelstream_gets_no_arrays_that_it_would_check_for_minutes(size, elements):
    words = memory_tools.TOOLS[0].arguments(size, "fp64")
    assert words[words.index("--arraysize") + 1] == str(elements)


def test_gpu_stream_is_read_at_its_best_block_size():
    found = rates(memory_tools.gpu_stream(GPU_STREAM))
    assert found == {
        ("write", "fp64"): 3300e9, ("read", "fp64"): 4300e9,
        ("scale", "fp64"): 3510e9, ("triad", "fp64"): 4020e9,
    }  # fmt: skip


def test_nvbandwidth_is_read_where_it_passed():
    (figure,) = memory_tools.nvbandwidth(NVBANDWIDTH)
    assert (figure.how, figure.bytes_per_s) == ("device_local_copy", 2043.5e9)


def test_programs_that_are_absent_or_fail_are_said(tmp_path, monkeypatch):
    program = tmp_path / "cuda-stream"
    program.write_text("#!/bin/sh\necho 'no device' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    figures, said = memory_tools.figures(2**30)
    assert figures == []
    assert "cuda-stream printed no figure (exit 3): no device" in said
    assert "nvbandwidth is not on PATH." in said


@pytest.mark.skipif(
    importlib.util.find_spec("pymicro._native") is None, reason="needs the C++ module"
)
def test_sides_are_checked_take_turns_and_make_a_table(tmp_path, monkeypatch, capsys):
    short = paired.Effort(block_s=0.001, pairs=10, warm_up_s=0.01, most_s=0.1)
    monkeypatch.setattr(study, "EFFORT", short)
    words = ["--device", "cpu", "--op", "triad", "--dtype", "fp32", "--size", "96MiB"]
    assert study.main([*words, "--out", str(tmp_path)]) == 0
    held = Store(tmp_path / "cpu" / "memory_vs_peers.jsonl").read().results
    assert {"native", "numpy"} <= {r.backend for r in held}
    assert len({len(r.times_s) for r in held}) == 1, "pairs need the same turns"
    assert all(r.verified.passed and r.cache == "cold" for r in held)
    table = (tmp_path / "cpu" / "memory_vs_peers.md").read_text()
    assert table.count("| triad | fp32 | 96 MiB |") == len(held)
    numpy = next(line for line in table.splitlines() if "numpy out" in line)
    assert "| 1.00 |" in numpy
