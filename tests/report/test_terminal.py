"""Tables on narrow screens: nothing is cropped, numbers stay whole, what is left out is said."""

import io

import pytest

from pymicro.report import fitting
from pymicro.report.terminal import Terminal

TITLES = ("backend", "what was seen", "rate", "power")
ROWS = (
    ("cuda", "https://example.org/a/long/address/that/no/line/holds", "655.2 TFLOP/s", "700 W"),
    ("torch", "a sentence of some words that may be folded anywhere", "1.2 GFLOP/s", ""),
)  # fmt: skip


def drawn(width, titles=TITLES, rows=ROWS, numbers=(2, 3), optional=()):
    out = io.StringIO()
    Terminal(out, width=width).table(titles, rows, numbers, optional)
    return out.getvalue()


def letters(text):
    return "".join(sorted(text.replace(" ", "").replace("\n", "").replace("─", "")))


@pytest.mark.parametrize("width", [60, 70, 80, 100, 160, 300])
def test_a_table_is_as_wide_as_the_screen_at_most_and_loses_no_letter(width):
    text = drawn(width)
    assert max(map(len, text.splitlines())) <= width
    assert letters(text) == letters("".join(TITLES) + "".join("".join(r) for r in ROWS))
    assert "655.2 TFLOP/s" in text


def test_a_screen_too_narrow_crops_nothing():
    text = drawn(20)
    assert letters(text) == letters("".join(TITLES) + "".join("".join(r) for r in ROWS))


@pytest.mark.parametrize("columns", range(1, 7))
def test_the_drawn_width_is_that_of_the_drawing(columns):
    rows = [["x" * (3 + i) for i in range(columns)]]
    found = fitting.drawn_width([3 + i for i in range(columns)])
    assert {len(line) for line in drawn(200, ["a"] * columns, rows, ()).splitlines()} == {found}


def test_optional_columns_leave_first_and_are_named():
    text = drawn(55, optional=(3, 2))
    assert "power" not in text.split("Left out")[0]
    assert "rate" in text
    assert "Left out for want of width: power;" in text
    assert "Left out" not in drawn(160, optional=(3, 2))


def test_output_to_a_file_keeps_every_column(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    wide = [[*row, *("123456789 GB/s",) * 8] for row in ROWS]
    titles = [*TITLES, *"abcdefgh"]
    Terminal(out).table(titles, wide, range(2, 12), optional=range(2, 12))
    assert "Left out" not in out.getvalue()


def test_an_empty_table_is_no_table():
    assert drawn(80, rows=()) == ""


def test_an_address_longer_than_the_screen_can_be_copied_whole():
    out = io.StringIO()
    link = "https://example.org/" + "path/" * 30
    Terminal(out, width=60).say(f"one two three {link} " + "four " * 20)
    assert link in out.getvalue()
    assert max(len(x) for x in out.getvalue().splitlines() if "https" not in x) <= 60


def test_one_card_on_eighty_columns_keeps_its_sources_whole():
    from pymicro.devices.catalogue import catalogue
    from pymicro.report import device_tables

    out = io.StringIO()
    spec = catalogue()["rtx_4090"]
    device_tables.one(spec, None, Terminal(out, width=80))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines if "://" not in line)
    assert all(f"  {link}" in lines for link in spec.sources)


@pytest.mark.parametrize("name", ["gemm_fp16", "gemm", "bandwidth", "latency", "transfer"])
def test_results_of_a_gpu_fit_eighty_columns_and_each_row_has_a_rate(name):
    from pathlib import Path

    from pymicro.report import table
    from pymicro.results import Store, latest

    root = Path(__file__).parents[2] / "benchmarks/reference/h200_sxm_141gb"
    found = [r for r in latest(Store(root / f"{name}.jsonl").read().results) if r.outcome == "ok"]
    results = [r for r in found if r.dtype == found[0].dtype]
    out = io.StringIO()
    table.show(results, (), Terminal(out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("/s") + text.count("ns") >= len(results)


def test_names_stay_whole_in_a_file(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "sm90_fp16_128x256x64_cluster_of_two_with_long_name"
    out = io.StringIO()
    Terminal(out).table(TITLES, [(name, "words", "1", "2"), *ROWS], (2, 3))
    assert name in out.getvalue()


@pytest.mark.parametrize("columns", ["0", "000", ""])
def test_a_width_of_nothing_is_none(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = io.StringIO()
    Terminal(out).table(TITLES, ROWS, (2, 3))
    assert "655.2 TFLOP/s" in out.getvalue()
