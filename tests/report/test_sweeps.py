"""Curves over sizes, as pictures and in the terminal."""

import pytest
from click.testing import CliRunner
from fakes import H200

from pymicro.analysis.sweeps import curves
from pymicro.cli import cli
from pymicro.errors import UsageError
from pymicro.report import plots, sketch
from pymicro.report.plots import sweep
from pymicro.results import Result

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".html": b"<html"}
DEVICE = H200 | {"caches": {"L1": 2**18, "L2": 60 * 2**20}}


def chase(size, seconds, step="load"):
    params = {"size": size, "stride": 128, "where": "memory", "step": step}
    return Result(
        "latency", "cuda", "chase", "int32", outcome="ok", params=params, device=DEVICE,
        steps=65536, times_s=(seconds * 65536,) * 5,
    )  # fmt: skip


def steps(size):
    return 16e-9 if size <= 2**17 else 142e-9 if size <= 2**24 else 346e-9


LOADS = [chase(2**n, steps(2**n)) for n in range(14, 31)]
ATOMICS = [chase(2**n, 2 * steps(2**n), "atomic") for n in range(14, 31)]
CURVES = curves([*LOADS, *ATOMICS])


@pytest.mark.parametrize("ending", STARTS)
def test_pictures_are_drawn(tmp_path, ending):
    pytest.importorskip("plotly" if ending == ".html" else "matplotlib")
    file = tmp_path / f"picture{ending}"
    plots.draw_sweep(CURVES, str(file))
    data = file.read_bytes()
    assert STARTS[ending] in data[:100]
    assert len(data) > 5000


def test_curves_are_told_apart_by_what_differs():
    assert [c.label for c in CURVES] == ["cuda chase load", "cuda chase atomic"]
    assert [c.label for c in curves(LOADS)] == ["cuda chase"]


def test_caches_and_round_sizes_are_marked():
    assert sweep.caches(CURVES) == {"L1 256 KiB": 2**18, "L2 60 MiB": 60 * 2**20}
    marks = sweep.ticks(CURVES)
    assert marks[0] == 2**14
    assert len(marks) <= 17


def test_a_sketch_has_a_mark_for_every_point():
    drawn = sketch.lines(curves(LOADS), 100)
    assert sum(line.split("|")[-1].count("o") for line in drawn if "|" in line) == len(LOADS)
    assert all(line.isascii() and len(line) <= 100 for line in drawn)
    top = next(line for line in drawn if "|" in line)
    assert top.strip().startswith("346 ns")
    assert top.rstrip().endswith("o"), "the slowest point is the largest ring, top right"


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="no curve to draw"):
        sketch.lines([], 80)


@pytest.mark.parametrize("name", ["latency", "bandwidth"])
def test_a_bad_file_fails_before_anything_is_measured(name):
    result = CliRunner().invoke(cli, [name, "--device", "cpu", "--plot", "curve.pdf"])
    assert result.exit_code != 0
    assert "ends in .html, .png or .svg" in str(result.exception)


def test_a_run_is_sketched_where_asked(tmp_path):
    pytest.importorskip("pymicro._native")
    words = ["latency", "--device", "cpu", "--no-store", "--budget", "0.3", "--size", "16KiB,32KiB"]
    result = CliRunner().invoke(cli, [*words, "--plot", "-"])
    assert "o native chase" in result.stdout
    assert "16 KiB" in result.stdout
