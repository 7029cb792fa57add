import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.errors import UsageError
from pymicro.units import binary_bytes, parse_bytes, parse_count, parse_list, percent, si


@pytest.mark.parametrize(
    ("word", "value"),
    [("4096", 4096), ("4k", 4096), ("4Ki", 4096), ("1M", 2**20), (" 7 ", 7), ("1.5k", 1536)],
)
def test_counts(word, value):
    assert parse_count(word) == value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("4096", 4096),
        ("64KiB", 65536),
        ("64MiB", 64 * 2**20),
        ("1GB", 10**9),
        ("1GiB", 2**30),
        ("1.5GiB", 3 * 2**29),
        ("10kb", 10_000),
        ("3B", 3),
    ],
)
def test_bytes(word, value):
    assert parse_bytes(word) == value


@pytest.mark.parametrize("word", ["1G", "1k", "2M"])
def test_ambiguous_bytes_are_refused_with_both_readings(word):
    with pytest.raises(UsageError, match=r"ambiguous.*iB.*B"):
        parse_bytes(word)


@pytest.mark.parametrize(
    "word",
    ["0", "-1", "1.5", "", "x", "12x", "1e400", "2Ei", "1e30", "nan", "0x10", "1,000.5", "--1"],
)
def test_counts_that_cannot_be_meant(word):
    with pytest.raises(UsageError):
        parse_list(word, parse_count)


def test_lists_and_ranges():
    assert parse_list("1k,2k", parse_count) == (1024, 2048)
    assert parse_list("1k:8k:x2", parse_count) == (1024, 2048, 4096, 8192)
    assert parse_list("4096:4608:256", parse_count) == (4096, 4352, 4608)
    assert parse_list("1MiB:4MiB:x2,1MiB", parse_bytes) == (2**20, 2**21, 2**22)
    assert parse_list("5:5:x2", parse_count) == (5,)


@pytest.mark.parametrize(
    "text", ["1k,", "8k:1k:x2", "1:2", "1:2:3:4", "1:9:x1", "1:9:x0.5", "1:9:xa", "1:1000000:1"]
)
def test_ranges_that_cannot_be_meant(text):
    with pytest.raises(UsageError):
        parse_list(text, parse_count)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (655.2e12, "655.2 TFLOP/s"),
        (999.99e9, "1.000 TFLOP/s"),
        (3.352e12, "3.352 TFLOP/s"),
        (1e12, "1.000 TFLOP/s"),
        (1978.9e12, "1979 TFLOP/s"),
        (12, "12.00 FLOP/s"),
        (2.5e-6, "2.500 µFLOP/s"),
        (0, "0 FLOP/s"),
    ],
)
def test_si(value, text):
    assert si(value, "FLOP/s") == text


@given(st.floats(min_value=1e-14, max_value=1e20))
def test_si_reads_back_within_its_digits(value):
    number, unit = si(value, "x").split(" ")
    scale = 10.0 ** (3 * ("fpnµm_kMGT".index(unit[0] if len(unit) > 1 else "_") - 5))
    assert math.isclose(float(number) * scale, value, rel_tol=6e-4)
    assert float(number) < 1000 or unit.startswith("T")


def test_binary_bytes_and_percent():
    assert binary_bytes(2**30) == "1 GiB"
    assert binary_bytes(1536) == "1.5 KiB"
    assert binary_bytes(1023) == "1023 B"
    assert percent(0.8734) == "87.3 %"
