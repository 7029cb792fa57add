"""Several products of one shape at once: how they are asked for, checked, told and refused."""

import numpy as np
import pytest
from fakes import gemm_result

from pymicro.backends import backend
from pymicro.backends.base import Place
from pymicro.backends.cuda import gemm, gemm_sm90, gemm_tuned
from pymicro.benchmark import Case
from pymicro.cli import words
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable, WrongResult
from pymicro.operands import draw
from pymicro.report import columns
from pymicro.suite import benchmark
from pymicro.verify import BatchReference

GEMM = benchmark("gemm")
H200 = Place("cuda", 0, (9, 0), 132)


def params(**changes):
    return {"m": 128, "n": 128, "k": 64, "layout": "nt", "path": "auto", "batch": 384} | changes


def test_one_product_is_no_batch():
    """So that results of before and after there were batches are of the same problem."""
    defaults = {"size": 64, "threads": 2}
    (alone,) = words.points(GEMM, {"batch": (1,)}, "cpu", defaults)
    assert alone == words.points(GEMM, {}, "cpu", defaults)[0]
    assert "batch" not in alone
    assert [p.get("batch") for p in words.points(GEMM, {"batch": (1, 6)}, "cpu", defaults)] == [
        None,
        6,
    ]


def test_work_and_operands_grow_with_the_batch():
    one, many = (GEMM.work("fp16", params() | {"batch": b}) for b in (1, 384))
    assert (many.flop, many.bytes) == (384 * one.flop, 384 * one.bytes)
    assert [o.shape for o in GEMM.operands("fp16", params())] == [
        (384, 128, 64), (384, 128, 64), (384, 128, 128),
    ]  # fmt: skip


def test_each_product_is_checked():
    dtype = DTYPES["fp32"]
    a, b = (draw((5, side, 8), dtype, "normal", side) for side in (7, 9))
    reference = BatchReference(dtype, "nt", a, b)
    c = a @ b.swapaxes(1, 2)
    reference.check(c)
    with pytest.raises(WrongResult):
        reference.check(np.where(np.arange(5)[:, None, None] == 3, c[[2]], c))


def test_the_native_backend_multiplies_all_of_them():
    native = pytest.importorskip("pymicro._native")
    del native
    dtype, place = DTYPES["fp32"], Place("cpu")
    a, b = (draw((3, side, 16), dtype, "normal", side) for side in (20, 24))
    c = np.full((3, 20, 24), np.nan, np.float32)
    case = Case("gemm", "native", "packed", "fp32", params(batch=3, m=20, n=24, k=16, threads=1))
    backend("native").prepare(case, place, {"a": a, "b": b, "c": c}).call()
    BatchReference(dtype, "nt", a, b).check(c)


def test_a_kernel_file_without_batches_says_so():
    with pytest.raises(Unavailable, match=r"one matrix at a time|GPU"):
        backend("numba").prepare(
            Case("gemm", "numba", "tiled", "fp32", params()), H200, dict.fromkeys("abc")
        )


@pytest.mark.parametrize("dtype", GEMM.dtypes)
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (9, 0), (12, 0)])
def test_only_kernels_for_several_products_get_them(dtype, capability):
    if dtype == "tf32" and capability < (8, 0):
        return
    for changes in ({}, {"m": 100, "n": 60, "k": 36}, {"layout": "nn"}):
        case = Case("gemm", "cuda", gemm.FASTEST, dtype, params(**changes))
        place = Place("cuda", 0, capability, 132)
        assert gemm.choose(case, place).batched
        assert all(row.batched for row in gemm.candidates(case, place))
        alone = Case("gemm", "cuda", gemm.FASTEST, dtype, params(**changes) | {"batch": 1})
        assert not any(row.batched for row in gemm.candidates(alone, place))


def test_tiles_of_the_tma_kernel_never_lie_in_two_products():
    rows = [row for row in gemm_sm90.ROWS if row.batched]
    assert rows
    for row in rows:
        assert gemm.refusal(row, (row.tile[0], 136, 64), "nt", 3) is None
        assert gemm.refusal(row, (row.tile[0] + 8, 136, 64), "nt", 3) is not None


def test_a_winner_for_several_is_none_for_one():
    case = Case("gemm", "cuda", gemm.FASTEST, "fp16", params())
    alone = Case("gemm", "cuda", gemm.FASTEST, "fp16", params(batch=1))
    assert gemm_tuned.shape_class(case) != gemm_tuned.shape_class(alone)


def test_the_table_tells_how_many():
    assert columns.shape(gemm_result(params=params())) == "384 of 128×128×64"
