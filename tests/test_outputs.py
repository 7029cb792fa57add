"""Results that are looked over where they lie, and arrays that repeat after a prime period."""

import numpy as np
import pytest

from pymicro import operands, streams
from pymicro.dtypes import DTYPES
from pymicro.errors import WrongResult
from pymicro.outputs import HostOutput
from pymicro.suite import benchmark

BANDWIDTH = benchmark("bandwidth")
PERIOD = 97


@pytest.fixture(autouse=True)
def short_period(monkeypatch):
    monkeypatch.setattr(operands, "_PERIOD", PERIOD)


@pytest.mark.parametrize("count", [1, 96, 97, 98, 193, 1000])
def test_arrays_begin_again_after_a_period(count):
    block = np.arange(operands.period(count))
    out = np.full(count, -1)
    operands.repeat(out, block)
    assert out.tolist() == [i % PERIOD for i in range(count)]
    whole = HostOutput(out)
    assert whole.first_break(PERIOD) == count
    assert whole.bit_sum() == sum(out.tolist())


def test_the_period_is_prime_so_that_no_tile_meets_it(monkeypatch):
    monkeypatch.undo()
    period = operands.period(2**60)
    assert period > 2**21
    assert all(period % d for d in range(2, int(period**0.5) + 1))


@pytest.mark.parametrize("at", [97, 98, 500, 999])
def test_the_first_element_that_breaks_the_period_is_found(at):
    out = np.empty(1000, np.float32)
    operands.repeat(out, np.random.default_rng(0).random(PERIOD, np.float32))
    out.view(np.uint32)[at] ^= 1
    assert HostOutput(out).first_break(PERIOD) == at


def case(op, dtype="fp32", access="sequential", count=1000):
    p = {"op": op, "size": count * DTYPES[dtype].itemsize_bytes, "access": access}
    p |= {"level": "memory", "stride": 3, "sms": 4}
    wanted = BANDWIDTH.operands(dtype, p)
    blocks = {
        o.name: operands.draw((operands.period(o.shape[0]),), DTYPES[o.dtype], "normal", n)
        for n, o in enumerate(wanted)
        if o.fill == "repeated"
    }
    whole = {n: np.empty(count, b.dtype) for n, b in blocks.items()}
    for name, block in blocks.items():
        operands.repeat(whole[name], block)
    out = np.zeros(wanted[-1].shape, DTYPES[wanted[-1].dtype].storage)
    return BANDWIDTH.reference(dtype, p, blocks), whole, out


def right(op, access, a, b, out):
    if op in ("read", "dot"):
        out[5] = (a if op == "read" else a.astype(np.float64) * b).sum(dtype=np.float64)
    elif access == "random":
        out[:] = a[streams.shuffled(np.arange(a.size), a.size)]
    elif access == "strided":
        out[:] = a[::3][: out.size]
    else:
        s = np.float32(streams.SCALARS["fp32"])
        out[:] = {
            "write": lambda: s, "copy": lambda: a, "scale": lambda: s * a,
            "add": lambda: a + b, "triad": lambda: a + s * b,
        }[op]()  # fmt: skip
    return out


WAYS = [(op, "sequential") for op in streams.INPUTS] + [("copy", "strided"), ("copy", "random")]


@pytest.mark.parametrize(("op", "access"), WAYS)
def test_a_kernel_that_skips_a_part_is_found_in_every_period(op, access):
    reference, whole, out = case(op, access=access)
    a, b = whole.get("a"), whole.get("b")
    good = right(op, access, a, b, out)
    check = reference.check(good)
    assert check.error <= check.tolerance
    for start in range(0, 1000, 150):  # As many elements as a small tile has.
        bad = good.copy()
        if op in ("read", "dot"):
            terms = a[start : start + 32].astype(np.float64)
            bad[5] -= (terms if op == "read" else terms * b[start : start + 32]).sum()
        else:
            poisoned = bad.view(np.uint8)
            first = min(start, out.size - 32) * 4
            poisoned[first : first + 128] = 0xFF
        with pytest.raises(WrongResult, match="wrong result"):
            reference.check(bad)


@pytest.mark.parametrize("shift", [1, 4, 32, 128, 256, 512])
def test_a_kernel_that_reads_from_the_wrong_place_is_found(shift):
    reference, whole, _ = case("copy")
    with pytest.raises(WrongResult):
        reference.check(np.roll(whole["a"], shift))
    half = whole["a"].copy()
    half[512:] = np.roll(whole["a"], shift)[512:]  # Right for some periods, wrong after.
    with pytest.raises(WrongResult):
        reference.check(half)


def test_a_random_gather_of_many_periods_is_compared_in_pieces_and_as_a_sum(monkeypatch):
    from pymicro.suite import stream_reference

    monkeypatch.setattr(stream_reference, "_PIECES", 4)
    monkeypatch.setattr(stream_reference, "_PIECE", 8)
    reference, whole, out = case("copy", access="random")
    good = right("copy", "random", whole["a"], None, out)
    assert "sum of all bits" in reference.check(good).reference
    for at in (0, 40, 999):  # In a piece, between pieces, in the last.
        bad = good.copy()
        bad.view(np.uint32)[at] ^= 2
        with pytest.raises(WrongResult):
            reference.check(bad)
