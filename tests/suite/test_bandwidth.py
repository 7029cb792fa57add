"""The bandwidth benchmark: what a case takes and moves, and that every wrong result is found."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymicro import operands, streams
from pymicro.dtypes import DTYPES
from pymicro.errors import UsageError, WrongResult
from pymicro.suite import benchmark
from pymicro.suite.stream_reference import Streamed

BANDWIDTH = benchmark("bandwidth")
OPS = tuple(streams.INPUTS)
FORMATS = BANDWIDTH.dtypes


def point(**changes):
    ordinary = {"op": "triad", "size": 40_000, "level": "memory", "access": "sequential"}
    return ordinary | {"stride": 8, "sms": 4} | changes


def drawn(dtype, p):
    """The inputs of a case and a right output, worked out in the plainest way."""
    wanted = BANDWIDTH.operands(dtype, p)
    inputs = {
        o.name: operands.draw(o.shape, DTYPES[o.dtype], "normal", n)
        for n, o in enumerate(wanted)
        if o.fill != "output"
    }
    return inputs, wanted[-1], BANDWIDTH.reference(dtype, p, inputs)


def answer(dtype, p, inputs, out):
    row, s = DTYPES[dtype], streams.SCALARS[dtype]
    wide = np.int64 if row.is_integer else np.float64
    a, b = (
        operands.decode(inputs[n], row).astype(wide) if n in inputs else None for n in ("a", "b")
    )
    if streams.is_reduction(p["op"]):
        c = np.zeros(out.shape, DTYPES[out.dtype].storage)
        total = (a if p["op"] == "read" else a * b).sum()
        c[3] = np.array([total]).astype(c.dtype)[0]
        return c
    with_s = {"write": np.full(out.shape, s, wide), "copy": a}
    if a is not None:
        with_s["scale"] = s * a
    if b is not None:
        with_s |= {"add": a + b, "triad": a + s * b}
    value = with_s[p["op"]]
    if row.is_integer:
        return value.astype(row.storage)
    return operands.encode(value if dtype == "fp64" else value.astype(np.float32), row)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("op", OPS)
def test_right_results_pass(op, dtype):
    p = point(op=op)
    inputs, out, reference = drawn(dtype, p)
    check = reference.check(answer(dtype, p, inputs, out))
    assert check.error <= check.tolerance


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("spoil", ["last element", "nothing written"])
def test_wrong_results_fail(op, dtype, spoil):
    p = point(op=op)
    inputs, out, reference = drawn(dtype, p)
    c = answer(dtype, p, inputs, out)
    if spoil == "nothing written":
        c.view(np.uint8)[:] = 0xFF
    elif streams.is_reduction(op):
        with np.errstate(over="ignore"):
            c[3] -= operands.decode(inputs["a"][-1:], DTYPES[dtype])[0].astype(c.dtype) or 1
        if op == "dot":
            c[3] += 2
    else:
        c.view(f"u{c.dtype.itemsize}")[-1] ^= 1 << (c.dtype.itemsize * 8 - 3)
    with pytest.raises(WrongResult, match="wrong result"):
        reference.check(c)


@pytest.mark.parametrize(("dtype", "smallest"), [("fp16", 2.0**-14), ("fp32", 2.0**-126)])
def test_products_below_the_normal_numbers_are_right_to_their_last_bit_only(dtype, smallest):
    """Found on a card: fp16 numbers of 1e-5 times s are rounded to whole 2^-24."""
    row = DTYPES[dtype]
    a = np.array([1.5 * smallest, 0.1 * smallest, 0.01 * smallest], row.storage)
    wide = a.astype(np.float64) * streams.SCALARS[dtype]
    reference = Streamed(row, "scale", a, None)
    right = wide.astype(row.storage)
    reference.check(right)
    step = np.finfo(row.storage).smallest_subnormal
    with pytest.raises(WrongResult):
        reference.check(right + 4 * step)


@pytest.mark.parametrize(("op", "arrays"), list(zip(OPS, (1, 1, 2, 2, 3, 3, 2), strict=True)))
def test_bytes_count_each_direction_once(op, arrays):
    p = point(op=op, size=2**30)
    assert BANDWIDTH.work("fp64", p).bytes == arrays * 2**30
    assert streams.passes(p) == 1


@given(st.sampled_from(OPS), st.integers(1, 2**31))
def test_small_arrays_are_gone_through_until_a_call_is_long(op, size):
    p = point(op=op, size=size)
    moved = streams.arrays_moved(op) * size * streams.passes(p)
    # Thousands of passes take long by the latency of each.
    assert moved >= 2**28 or streams.passes(p) >= 2**14
    assert streams.passes(p) < 2**32, "kernels count passes in 32 bits"


@settings(max_examples=30)
@given(st.integers(1, 3000))
def test_a_random_gather_reads_every_element_once(count):
    found = streams.shuffled(np.arange(count), count)
    assert sorted(found.tolist()) == list(range(count))


@pytest.mark.parametrize(("access", "stride"), [("strided", 8), ("random", 8), ("strided", 1)])
def test_gathers_are_compared_bit_for_bit(access, stride):
    p = point(op="copy", access=access, stride=stride)
    inputs, out, reference = drawn("fp64", p)
    a = inputs["a"]
    right = a[::stride][: out.shape[0]]
    if access == "random":
        right = a[streams.shuffled(np.arange(a.size), a.size)]
    reference.check(np.ascontiguousarray(right))
    assert BANDWIDTH.work("fp64", p).bytes == 16 * out.shape[0]
    wrong = right.copy()
    wrong[7] = -wrong[7]
    with pytest.raises(WrongResult, match="element 7"):
        reference.check(wrong)


@pytest.mark.parametrize("op", ["read", "write"])
def test_each_sm_must_have_read_all_its_words(op):
    p = point(op=op, level="shared", size=4096)
    inputs, out, reference = drawn("fp32", p)
    words, times = inputs["a"].view(np.uint32).astype(object), streams.passes(p)
    each = times * words.sum()
    if op == "write":
        each = (words.size // 4) * (times - 1 + words[1] + words[2] + words[3])
    c = np.zeros(out.shape, np.uint32)
    c[:4] = each % 2**32
    reference.check(c.view(np.int32))
    for change in (c[:3], c[:5]):
        wrong = c.copy()
        wrong[change.size - 1] += 1
        with pytest.raises(WrongResult):
            reference.check(wrong.view(np.int32))


def test_bytes_inside_sms_count_all_of_them():
    p = point(op="read", level="l1", size=32768)
    assert BANDWIDTH.work("fp32", p).bytes == 4 * 32768 * streams.passes(p)


def test_an_array_without_an_element_is_a_usage_error():
    with pytest.raises(UsageError, match="no element"):
        BANDWIDTH.operands("fp64", point(size=7))
