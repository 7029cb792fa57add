"""Pictures: drawn where the library is there, told in a sentence where it is not."""

from __future__ import annotations

import builtins
import sys

import pytest
from fakes import gemm_result

from pymicro.analysis.compare import Wish, compare
from pymicro.analysis.figures import Subject
from pymicro.analysis.roofline import Point, roofline
from pymicro.devices.catalogue import catalogue
from pymicro.errors import Unavailable, UsageError
from pymicro.report import plots
from pymicro.report.plots.comparison import marks
from pymicro.report.plots.roofline import curves

SPECS = catalogue()
SUBJECTS = [Subject(SPECS[k].name, SPECS[k]) for k in ("h100_sxm5_80gb", "rtx_4090")]
COMPARISON = compare(SUBJECTS, Wish(("bandwidth", "gemm"), ("fp16",)))
MODEL = roofline(
    Subject("H200", SPECS["h200_sxm_141gb"], (gemm_result(),)),
    ("fp32", "fp16"),
    [Point("softmax", "fp32", 0.5, 2e12, 2e12, 2e12, share_of_time=0.25)],
)
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".html": b"<html"}


@pytest.mark.parametrize("ending", STARTS)
@pytest.mark.parametrize("name", ["comparison", "roofline"])
def test_pictures_are_drawn(tmp_path, name, ending):
    pytest.importorskip("plotly" if ending == ".html" else "matplotlib")
    file = tmp_path / f"picture{ending}"
    getattr(plots, f"draw_{name}")(COMPARISON if name == "comparison" else MODEL, str(file))
    data = file.read_bytes()
    assert STARTS[ending] in data[:100]
    assert len(data) > 5000
    if ending == ".html":
        assert b'src="http' not in data, "a page needs no network"


def test_every_ratio_is_a_mark():
    drawn = [r for x in COMPARISON.lines for r in x.ratios if r]
    assert [m.value for m in marks(COMPARISON)] == [r.value for r in drawn]
    empty = compare(SUBJECTS, Wish(("launch",)))
    with pytest.raises(UsageError, match="no ratio to draw"):
        marks(empty)


def test_compute_roofs_start_where_the_fastest_memory_meets_them():
    found = {c.label: c for c in curves(MODEL)}
    fastest = max(r.rate for r in MODEL.roofs if r.kind == "memory")
    flat = found["fp16 data sheet"]
    assert flat.ys[0] == flat.ys[1]
    assert flat.xs[0] == pytest.approx(flat.ys[0] / fastest)
    slope = found["DRAM data sheet"]
    assert slope.ys[1] / slope.xs[1] == pytest.approx(slope.ys[0] / slope.xs[0])
    with pytest.raises(UsageError, match="needs a compute and a memory roof"):
        list(curves(roofline(Subject("x"), ("fp16",))))


@pytest.mark.parametrize("file", ["x.pdf", "x", "/nonexistent/x.png"])
def test_a_bad_path_fails_before_any_work(file):
    with pytest.raises(UsageError, match="--plot"):
        plots.check(file)


@pytest.mark.parametrize(
    ("file", "library"), [("x.png", "matplotlib"), ("x.svg", "matplotlib"), ("x.html", "plotly")]
)
def test_an_absent_library_is_told_with_the_pip_line(monkeypatch, file, library):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.split(".")[0] == library:
            raise ImportError(name)
        return real(name, *rest)

    for name in [n for n in sys.modules if n.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(plots, "import_module", lambda name: refuse(name))
    with pytest.raises(Unavailable, match=r"pip install 'pymicro-gpu\[report\]'"):
        plots.check(file)
