"""A roofline in text and as data: the drawing agrees with the numbers under it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fakes import gemm_result

from pymicro.analysis.figures import Subject
from pymicro.analysis.roofline import Point, roofline
from pymicro.devices.catalogue import catalogue
from pymicro.report.roofline import drawing, notes, render

SPECS = catalogue()
MODEL = roofline(
    Subject("H200", SPECS["h200_sxm_141gb"], (gemm_result(2e-4),)),
    ("fp32", "fp16"),
    [Point("softmax", "fp32", 0.5, 2e12, 2e12, 2e12, share_of_time=0.25)],
)


def test_the_drawing_has_a_roof_a_format_and_a_mark_a_point():
    lines = drawing(MODEL)
    assert any(line.endswith("fp16") for line in lines)
    assert any(line.endswith("fp32") for line in lines)
    body = "\n".join(line.split("|", 1)[-1] for line in lines)
    assert "A" in body
    assert "B" in body
    assert max(map(len, lines)) < 100
    marks = {
        mark: (row, line.index(mark, 14))
        for row, line in enumerate(lines[:-2])
        for mark in "AB"
        if mark in line[14:78]
    }
    assert marks["A"][0] < marks["B"][0], "the faster point is higher"
    assert marks["A"][1] > marks["B"][1], "and of higher intensity"


def test_text_names_roofs_points_shares_and_bounds():
    shown = render(MODEL, "table")
    assert "989.4 TFLOP/s" in shown
    assert "206.1" in shown  # The ridge: 989.4 TFLOP/s over 4.8 TB/s.
    assert "25.0 %" in shown
    assert "DRAM" in shown
    assert "compute" in shown


def test_json_and_csv_carry_the_numbers():
    document = json.loads(render(MODEL, "json"))["roofline"]
    (own,) = (p for p in document["points"] if p["dtype"] == "fp16")
    assert own["fraction"] == pytest.approx(2 * 4096**3 / 2e-4 / own["attainable"])
    rows = list(csv.DictReader(io.StringIO(render(MODEL, "csv"))))
    assert {r["what"] for r in rows} == {"roof", "point"}
    assert len(rows) == len(MODEL.roofs) + len(MODEL.points)


def test_markdown_has_the_drawing_and_both_tables():
    shown = render(MODEL, "markdown")
    assert shown.count("|---|") >= 2
    assert "```" in shown


def test_without_roofs_there_is_no_drawing():
    bare = roofline(
        Subject("x", None, (gemm_result(device={"kind": "cpu", "name": "x"}),)), ("fp16",)
    )
    assert drawing(bare) == []
    assert "gemm torch" in render(bare, "table")


def above(origin_of, intensity, dtype="fp16"):
    """What is said of a point above the roof of a device that has these results."""
    point = Point("x", dtype, intensity, 1e18, 1e18, 1e18)
    return " ".join(notes(roofline(origin_of, (dtype,), [point])))


def test_the_note_above_100_percent_follows_from_the_roof():
    card = Subject("H200", SPECS["h200_sxm_141gb"])
    assert "data came from a cache." in above(card, 0.5)
    assert "the clock was above the one that the data sheet counts with" in above(card, 1e5)
    peak = gemm_result(1e-4, {"kind": "cpu", "name": "x"}, benchmark="peak", variant="x")
    dram = gemm_result(
        1e-4, {"kind": "cpu", "name": "x"}, benchmark="bandwidth", flop=0, bytes=2**30,
        params={"op": "read", "size": 2**30}, details={"passes": 1},
    )  # fmt: skip
    probed = Subject("x", None, (peak, dram))
    said = above(probed, 1e5)
    assert "probed at another time (±0.0 %" in said
    assert "pymicro peak" in said
    assert "cache" not in said
    assert "data came from a cache, or memory was slower when it was probed" in above(probed, 1e-3)
    assert "±0.0 %" in render(roofline(probed, ("fp16",)), "table")


def test_rates_of_integers_are_operations_and_not_of_floating_point():
    model = roofline(
        Subject("H200", SPECS["h200_sxm_141gb"]), ("int8",), [Point("x", "int8", 9, 1e12, 1, 1e13)]
    )
    for format_ in ("table", "markdown"):
        shown = render(model, format_)
        assert "1979 TOP/s" in shown
        assert "FLOP" not in shown
    mixed = render(roofline(Subject("H200", SPECS["h200_sxm_141gb"]), ("fp16", "int8")), "table")
    assert "1979 TOP/s" in mixed
    assert "989.4 TFLOP/s" in mixed
