"""Published figures: in SI units, tied only to cards that are certain, wrong lines refused."""

from __future__ import annotations

import csv
import dataclasses

import pytest

from pymicro.devices import source_names
from pymicro.devices.catalogue import DATA, catalogue
from pymicro.devices.finder import find
from pymicro.devices.metrics import METRICS
from pymicro.devices.published import COLUMNS, published, select, sources
from pymicro.errors import UsageError

HEAD = ",".join(COLUMNS)
LINE = 'RTX 4090,dram_copy_gbps,fp32,1 GiB,900,GB/s,"copy, zeros",stas00-ml-eng'


def devices(file):
    with (DATA / file).open(encoding="utf-8", newline="") as stream:
        return sorted({row["device"] for row in csv.DictReader(stream)})


ALL_DEVICES = sorted({*devices("published.csv"), *devices("end-to-end.csv")})


def test_every_line_is_read_with_its_source():
    rows = published()
    lines = (DATA / "published.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(lines) - 1
    assert {r.source.id for r in rows} <= sources().keys()
    assert all(r.value > 0 for r in rows)


def test_values_are_si():
    row = next(select("h100_sxm5_80gb", "dram_triad_gbps"))
    assert 2.5e12 < row.value < 3.352e12
    assert row.metric.si_unit == "B/s"
    launches = [r.value for r in select(metric="launch_us")]
    assert all(1e-7 < v < 1e-3 for v in launches)


def test_select_narrows():
    rows = list(select("rtx_4090", "gemm_tflops", "fp32"))
    assert rows
    assert {(r.key, r.metric.name, r.dtype) for r in rows} == {("rtx_4090", "gemm_tflops", "fp32")}


def test_keys_exist_and_names_are_not_in_both_tables():
    assert set(source_names.KEYS.values()) <= catalogue().keys()
    assert not source_names.KEYS.keys() & source_names.AMBIGUOUS.keys()
    assert {*source_names.KEYS, *source_names.AMBIGUOUS} <= set(ALL_DEVICES)


@pytest.mark.parametrize("device", ALL_DEVICES)
def test_the_finder_agrees_with_the_table(device):
    """A name that the finder knows must be in the table: mapped to that row, or as ambiguous."""
    key = source_names.key_of(device)
    try:
        match = find(device)
    except UsageError:
        return
    if key is None:
        assert device in source_names.AMBIGUOUS, device
    else:
        assert key == match.spec.key
        assert not match.alternatives


def test_ambiguous_and_absent_cards_belong_to_no_row():
    for device, word in (("A100", "stated"), ("H800 PCIe 80GB", "not in the catalogue")):
        assert source_names.key_of(device) is None
        assert word in source_names.AMBIGUOUS.get(device, "not in the catalogue")


def test_how_a_figure_was_made_is_read_from_the_sources_words(tmp_path):
    file = tmp_path / "some.csv"
    lines = [
        HEAD,
        LINE,
        "RTX 5090,gemm_tflops,fp16_acc16,4096x4096x4096,300,TFLOP/s,"
        '"random data, 400 W limit",stas00-ml-eng',
        "RTX 5090,gemm_tflops,fp16,best over shapes,200,TFLOP/s,"
        '"long warm-up (sustained)",stas00-ml-eng',
        'T4,mma_tflops,fp16,,50,TFLOP/s,"FP16/FP32 accumulate",stas00-ml-eng',
        "L4,dram_read_gbps,fp16,2^28 elements,250,GB/s,x,stas00-ml-eng",
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    copy, half, best, both, read = published(file)
    assert (copy.value, copy.fill, copy.bytes_touched) == (900e9, "zeros", 2**30)
    assert (half.dtype, half.accumulate, half.fill) == ("fp16", "fp16", "random")
    assert (half.power_limit_w, half.searched) == (400, False)
    assert (best.accumulate, best.sustained, best.searched) == ("fp32", True, True)
    assert both.accumulate is None
    assert read.bytes_touched == 2**29


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (LINE.replace("dram_copy", "dram_cpy"), ["metric", "did you mean dram_copy_gbps"]),
        (LINE.replace("GB/s", "GiB/s"), ["unit", "GiB/s"]),
        (LINE.replace("900", "nine"), ["value", "nine"]),
        (LINE.replace("900", "-1"), ["value", "-1"]),
        (LINE.replace("900", "nan"), ["value", "nan"]),
        (LINE.replace("stas00", "stas01"), ["source_id", "stas01"]),
        (LINE.replace(",1 GiB", ""), ["8 fields"]),
        (LINE + ",more", ["8 fields"]),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, words):
    file = tmp_path / "bad.csv"
    file.write_text(f"{HEAD}\n{LINE}\n{line}\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        published(file)
    assert "bad.csv, line 3" in str(caught.value)
    assert all(w in str(caught.value) for w in words), caught.value


def test_wrong_columns_and_sources_are_named(tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("a,b\n", encoding="utf-8")
    with pytest.raises(UsageError, match="columns"):
        published(file)
    file = tmp_path / "bad.toml"
    file.write_text('[x]\ntitle = "t"\nread_as = "primary"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"bad\.toml"):
        sources(file)


def test_every_metric_says_what_it_counts():
    for metric in METRICS.values():
        assert metric.counts
        assert metric.better in ("more", "less")
        assert metric.roof in (None, "ops", "memory", "pcie")
    assert METRICS["dram_copy_gbps"].counts == METRICS["dram_scale_gbps"].counts


def test_rows_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        published()[0].value = 1.0
