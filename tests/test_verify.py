import numpy as np
import pytest
from threadpoolctl import threadpool_info

from pymicro import verify
from pymicro.dtypes import DTYPES
from pymicro.errors import WrongResult
from pymicro.operands import decode, draw, encode
from pymicro.verify import GemmReference

NAMES = [n for n in DTYPES if n != "int32"]


def problem(name, m, n, k, layout="nt", fill="normal"):
    dtype = DTYPES[name]
    a = draw((k, m) if layout == "tn" else (m, k), dtype, fill, 1)
    b = draw((n, k) if layout == "nt" else (k, n), dtype, fill, 2)
    left, right = (decode(x, dtype).astype(np.float64) for x in (a, b))
    left = left.T if layout == "tn" else left
    exact = left @ (right.T if layout == "nt" else right)
    output = DTYPES[dtype.output]
    c = encode(exact, output) if not output.is_integer else exact.astype(output.storage)
    return GemmReference(dtype, layout, a, b), c


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["nt", "nn", "tn"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (7, 300, 129), (257, 131, 515)])
def test_a_right_product_passes(name, layout, m, n, k):
    reference, c = problem(name, m, n, k, layout)
    check = reference.check(c)
    assert 0 <= check.error <= check.tolerance


@pytest.mark.parametrize("name", NAMES)
def test_one_element_off_by_its_typical_size_is_found_anywhere(name):
    reference, c = problem(name, 200, 210, 300)
    output = DTYPES[DTYPES[name].output]
    typical = np.sqrt(np.mean(decode(c, output).astype(np.float64) ** 2))
    rng = np.random.default_rng(0)
    for _ in range(40):
        i, j = rng.integers(200), rng.integers(210)
        wrong = c.copy()
        shifted = decode(c[i : i + 1, j : j + 1], output).astype(np.float64) + typical
        wrong[i, j] = (encode(shifted, output) if not output.is_integer else shifted.round())[0, 0]
        with pytest.raises(WrongResult):
            reference.check(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_output_never_written_is_found(name):
    reference, c = problem(name, 40, 50, 60)
    c.view("uint8").fill(0xFF)
    with pytest.raises(WrongResult):
        reference.check(c)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["fp16", "fp32", "bf16", "fp64"])
def test_one_nan_or_infinity_is_found_anywhere(name, value):
    reference, c = problem(name, 90, 100, 60)
    dtype = DTYPES[DTYPES[name].output]
    c[77, 99] = encode(np.array([value]), dtype)[0]
    with pytest.raises(WrongResult):
        reference.check(c)


def test_a_product_summed_in_half_precision_is_found():
    reference, _ = problem("fp16", 64, 64, 4096)
    a, b = (
        draw((64, 4096), DTYPES["fp16"], "normal", 1),
        draw((64, 4096), DTYPES["fp16"], "normal", 2),
    )
    c = np.zeros((64, 64), np.float16)
    for i in range(4096):
        c += np.outer(a[:, i], b[:, i])
    with pytest.raises(WrongResult, match="relative error"):
        reference.check(c)


def test_tf32_rounding_is_no_right_fp32():
    dtype = DTYPES["fp32"]
    a, b = draw((64, 512), dtype, "normal", 1), draw((64, 512), dtype, "normal", 2)
    rounded = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    c = rounded[0] @ rounded[1].T
    with pytest.raises(WrongResult):
        GemmReference(dtype, "nt", a, b).check(c)
    GemmReference(DTYPES["tf32"], "nt", a, b).check(c)


@pytest.mark.parametrize("name", NAMES)
def test_zeros_times_zeros_is_zero(name):
    reference, c = problem(name, 9, 10, 11, fill="zeros")
    assert reference.check(c).error == 0


def test_threads_of_a_check_do_not_start_threads_of_their_own():
    """Sixteen cores that each start sixteen threads of BLAS took four times as long."""

    def look(span):
        np.ones((64, 64)) @ np.ones((64, 64))
        return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]

    before = look((0, 1))
    seen = verify._in_parallel(look, iter([(0, 1), (1, 2), (2, 3)]))
    assert before, "numpy without a BLAS that can be asked says nothing here"
    assert all(set(counts) == {1} for counts in seen)
    assert look((0, 1)) == before
