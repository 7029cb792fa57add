"""A comparison on a screen, in a document, for a program: the same numbers, none fused."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from fakes import gemm_result

from pymicro.analysis.compare import Wish, compare
from pymicro.analysis.figures import Figure, Line, Ratio, Subject
from pymicro.devices.catalogue import catalogue
from pymicro.report.comparison import figure_text, ratio_text, render, show
from pymicro.report.terminal import Terminal

SPECS = catalogue()


def cards(*keys):
    return [Subject(SPECS[k].name.removeprefix("NVIDIA "), SPECS[k]) for k in keys]


def found(*keys, metric="bandwidth", **wish):
    return compare(cards(*keys), Wish((metric,), **wish))


def text(comparison, width, sources=False):
    out = io.StringIO()
    show(comparison, sources, Terminal(out, width=width))
    return out.getvalue()


def line(unit, kind="published"):
    return Line("t", kind, "w", unit, "more", (), ())


@pytest.mark.parametrize(
    ("unit", "kind", "figure", "expected"),
    [
        ("B/s", "data sheet", Figure(3352e9, 3352e9, 3352e9), "3.352 TB/s"),
        ("B/s", "published", Figure(9.25e11, 9.213e11, 9.298e11, 2), "921.3 to 929.8 GB/s (2)"),
        ("B/s", "published", Figure(2e12, 9e11, 3e12, 3), "900.0 GB/s to 3.000 TB/s (3)"),
        ("FLOP/s", "measured", Figure(655.2e12, 652.58e12, 657.82e12, 9), "655.2 TFLOP/s ±0.4 %"),
        ("FLOP/s", "measured", Figure(2e9, 1e8, 4e9, 3), "100.0 MFLOP/s to 4.000 GFLOP/s (3)"),
        ("OP/s", "data sheet", Figure(1979e12, 1979e12, 1979e12), "1979 TOP/s"),
        ("B", "data sheet", Figure(2**30, 2**30, 2**30), "1 GiB"),
        ("W", "data sheet", Figure(700.0, 700.0, 700.0), "700 W"),
        ("cycles", "published", Figure(570.5, 541.0, 636.0, 4), "541 to 636 cycles (4)"),
    ],
)  # fmt: skip
def test_figures(unit, kind, figure, expected):
    assert figure_text(line(unit, kind), figure) == expected


def test_ratios():
    assert ratio_text(Ratio(3.3254, 3.3254, 3.3254)) == "3.33"
    assert ratio_text(Ratio(3.4, 2.96, 3.52)) == "3.40 (2.96-3.52)"
    assert ratio_text(Ratio(2, 2, 2, forced=True)).endswith("unlike")
    assert ratio_text(None) == "-"


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("keys", [("h100_sxm5_80gb", "rtx_4090"), ("t4", "l4", "a10", "l40s")])
def test_no_number_is_lost_or_fused_at_any_width(width, keys):
    shown = text(found(*keys), width)
    for key in keys:
        rate = SPECS[key].memory_bytes_per_s
        number = f"{rate / 1e12:.3f}" if rate >= 1e12 else f"{rate / 1e9:.1f}"
        assert re.search(rf"(?<![\d.]){re.escape(number)} [TG]B/s", shown), (number, shown)


def test_the_ratio_on_the_screen_is_that_of_the_data_sheets():
    shown = text(found("h100_sxm5_80gb", "rtx_4090"), 160)
    assert re.search(r"DRAM +3\.352 TB/s +1\.008 TB/s +3\.33", shown)
    assert "From " in shown


def test_sources_trace_every_published_figure():
    comparison = found("h100_sxm5_80gb", "rtx_4090")
    shown = text(comparison, 400, sources=True)
    ids = {s for x in comparison.lines for f in x.figures if f for s in f.sources}
    for name in ids:
        assert re.search(rf"^{re.escape(name)}: .*(https?://|not recorded)", shown, re.MULTILINE), (
            name
        )
    origins = [o for x in comparison.lines for f in x.figures if f for o in f.origin[:1]]
    for origin in origins:
        assert origin in shown
    assert "132 SMs x" in text(found("h100_sxm5_80gb", "l4", metric="power"), 400, sources=True)


def test_json_has_si_units_and_all_kinds_of_ratio():
    comparison = found("h100_sxm5_80gb", "rtx_4090")
    document = json.loads(render(comparison, "json"))
    assert document["schema"] == 1
    dram = document["comparison"]["lines"][0]
    assert dram["figures"]["GeForce RTX 4090"]["value"] == 1008e9
    assert dram["unit"] == "B/s"
    ratio = dram["ratios_of_first_over"]["GeForce RTX 4090"]
    assert ratio["value"] == pytest.approx(3352 / 1008)
    kinds = {x["kind"] for x in document["comparison"]["lines"]}
    assert kinds == {"data sheet", "published"}


def test_csv_has_a_row_a_figure_and_points_as_decimals(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    comparison = found("h100_sxm5_80gb", "rtx_4090", "l4", metric="power")
    rows = list(csv.DictReader(io.StringIO(render(comparison, "csv"))))
    assert len(rows) == 3 * len(comparison.lines)
    limits = {r["subject"]: float(r["value"]) for r in rows if r["quantity"] == "power limit"}
    assert sorted(limits.values()) == [72, 450, 700]
    assert rows[0]["ratio_first_over_this"] == ""
    assert float(rows[2]["ratio_first_over_this"]) == pytest.approx(700 / 72)


def test_markdown_tables_are_whole():
    shown = render(found("h100_sxm5_80gb", "rtx_4090"), "markdown")
    table = [x for x in shown.splitlines() if x.startswith("|")]
    assert len({x.count("|") for x in table}) == 1
    assert table[1].startswith("|---|")


def test_measured_figures_stand_beside_the_others():
    h200 = Subject("H200", SPECS["h200_sxm_141gb"], (gemm_result(1e-3),))
    other = Subject("RTX 4090", SPECS["rtx_4090"], ())
    comparison = compare([h200, other], Wish(("gemm",), ("fp16",), rates={"gemm": "flop_per_s"}))
    shown = text(comparison, 160)
    assert "measured on H200, with no counterpart" in shown
    assert "only H200: gemm fp16" in shown
