import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError
from pymicro.operands import FILLS, decode, draw, encode

FLOATS = [d for d in DTYPES.values() if not d.is_integer]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda d: d.name)
@pytest.mark.parametrize("fill", FILLS)
def test_same_seed_same_bits(dtype, fill):
    one, two = (draw((33, 65), dtype, fill, seed=5) for _ in range(2))
    assert one.dtype == np.dtype(dtype.storage)
    assert np.array_equal(one, two)
    if fill != "zeros":
        assert not np.array_equal(one, draw((33, 65), dtype, fill, seed=6))


def test_bits_do_not_depend_on_the_number_of_cores(monkeypatch):
    dtype = DTYPES["fp32"]
    many = draw((3, 2**20), dtype, "normal", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    assert np.array_equal(many, draw((3, 2**20), dtype, "normal", 1))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_normal_is_standard_normal(dtype):
    values = decode(draw((500, 500), dtype, "normal", 3), dtype).astype(np.float64)
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01


def test_int8_uses_its_whole_range():
    values = draw((400, 400), DTYPES["int8"], "normal", 0)
    assert values.min() == -128
    assert values.max() == 127


@pytest.mark.parametrize("name", ["bf16", "fp8_e4m3", "fp16"])
def test_every_code_survives_decoding_and_encoding(name):
    dtype = DTYPES[name]
    codes = np.arange(2 ** (8 * dtype.itemsize_bytes)).astype(f"uint{8 * dtype.itemsize_bytes}")
    codes = codes.view(dtype.storage)
    values = decode(codes, dtype)
    numbers = ~np.isnan(values)
    assert np.array_equal(encode(values, dtype)[numbers], codes[numbers])


@pytest.mark.parametrize("name", ["bf16", "fp8_e4m3"])
@given(st.floats(min_value=-440, max_value=440, width=32))
def test_encoding_rounds_to_the_nearest(name, value):
    dtype = DTYPES[name]
    grid = decode(np.arange(2 ** (8 * dtype.itemsize_bytes)).astype(dtype.storage), dtype)
    grid = grid[np.isfinite(grid)].astype(np.float64)
    got = float(decode(encode(np.array([value], np.float32), dtype), dtype)[0])
    assert abs(got - value) == np.min(np.abs(grid - value))


@pytest.mark.parametrize(("value", "code"), [(1e9, 0x7E), (-1e9, 0xFE), (0.0, 0), (-0.0, 0x80)])
def test_fp8_saturates_and_keeps_the_sign_of_zero(value, code):
    assert encode(np.array([value], np.float32), DTYPES["fp8_e4m3"])[0] == code


def test_ties_go_to_even_codes():
    ties = np.array([1.0625, 1.1875], np.float32)  # Between 1 and 1.125, 1.125 and 1.25.
    assert list(decode(encode(ties, DTYPES["fp8_e4m3"]), DTYPES["fp8_e4m3"])) == [1.0, 1.25]


def test_an_unknown_fill_is_refused():
    with pytest.raises(UsageError, match="ones"):
        draw((2, 2), DTYPES["fp32"], "ones", 0)
