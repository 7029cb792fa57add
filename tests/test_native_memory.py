"""Streams and chases of the C++ module, on every instruction set that this CPU has."""

import numpy as np
import pytest

native = pytest.importorskip("pymicro._native")

TYPES = ("float64", "float32", "int32")
OPS = ("read", "write", "copy", "scale", "add", "triad", "dot")


def expected(op, a, b, s):
    if op in ("read", "dot"):
        return (a if op == "read" else a * b).sum()
    return {
        "write": np.full_like(a, s),
        "copy": a,
        "scale": a * s,
        "add": a + b,
        "triad": a + b * s,
    }[op]


@pytest.mark.parametrize("path", native.stream_paths())
@pytest.mark.parametrize("nontemporal", [False, True])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("stored", TYPES)
def test_operations_at_odd_sizes_and_offsets(path, nontemporal, op, stored):
    rng = np.random.default_rng(0)
    for count in (5, 4096, 20_003):
        for offset in (0, 1):
            for threads in (1, 2):
                a, b = (rng.integers(-9, 9, count + 1).astype(stored)[offset:] for _ in "ab")
                size = 8 if op in ("read", "dot") else a.size
                c = np.full(size, 77, stored)
                native.stream(op, a, b, c, 3.0, threads, 2, nontemporal, path)
                want = expected(op, a, b, 3)
                np.testing.assert_array_equal(c.sum() if size == 8 and a.size != 8 else c, want)


def test_sums_in_single_precision_keep_their_digits():
    a = np.full(2**22 + 1, 0.1, np.float32)
    c = np.empty(4, np.float32)
    native.stream("read", a, a, c, 0.0, 1)
    assert c[0] == pytest.approx(a.astype(np.float64).sum(), rel=2e-5)


def test_a_placed_copy_is_the_same_and_its_own():
    a = np.arange(100_003, dtype=np.int32)
    b = native.stream_placed(a, 3)
    np.testing.assert_array_equal(a, b)
    assert not np.shares_memory(a, b)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operation": "sub"}, "none of read"),
        ({"a": np.zeros(9)}, "as long as c"),
        ({"a": np.zeros(10, np.float32)}, "c's dtype"),
        ({"a": np.zeros((2, 5))}, "1-D"),
        ({"a": np.zeros(20)[::2]}, "contiguous"),
        ({"c": np.zeros(10, np.uint16), "a": np.zeros(10, np.uint16)}, "float64, float32 or int32"),
        ({"threads": 0}, "threads"),
        ({"passes": 0}, "passes"),
        ({"path": "mmx"}, "no stream path"),
        ({"operation": "read", "c": np.zeros(2), "threads": 3}, "fewer partial sums"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    call = {"operation": "copy", "a": np.zeros(10), "b": np.zeros(10), "c": np.zeros(10), "s": 1.0}
    with pytest.raises(ValueError, match=said):
        native.stream(**(call | change))


@pytest.mark.parametrize("huge_pages", [False, True])
@pytest.mark.parametrize("stride", [8, 64, 4096])
def test_a_walk_goes_through_every_place_in_order(stride, huge_pages):
    order = np.random.default_rng(1).permutation(37).astype(np.int32)
    chain = native.Chain(order, stride, huge_pages)
    assert chain.places == 37
    ends = [chain.walk(1) for _ in range(74)]
    assert ends == [int(order[(i + 1) % 37]) * stride for i in range(74)]
    assert chain.walk(37 * 5) == ends[-1]
    assert chain.huge_bytes() % 2**21 == 0 or chain.huge_bytes() == -1


@pytest.mark.parametrize(
    ("order", "stride", "said"),
    [
        (np.array([0], np.int32), 64, "two places"),
        (np.array([0, 2], np.int32), 64, "no such place"),
        (np.array([0, -1], np.int32), 64, "no such place"),
        (np.array([0, 1], np.int32), 12, "multiple"),
        (np.array([0, 1], np.int64), 64, "int32"),
    ],
)
def test_rings_that_cannot_be_are_refused(order, stride, said):
    with pytest.raises(ValueError, match=said):
        native.Chain(order, stride)
