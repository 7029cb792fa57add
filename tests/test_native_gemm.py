"""Products of pymicro._native against numpy in float64 (exact integers for int8), on every
instruction set this CPU has: odd, prime and tiny sizes, both layouts, several thread counts."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

native = pytest.importorskip("pymicro._native")

STORAGE = {
    "fp64": np.float64,
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": np.uint16,
    "int8": np.int8,
}
# Unit roundoff of the output and of the running sum.
OUTPUT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
SUM_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "fp16": 2.0**-24, "bf16": 2.0**-24}

PATHS = [(dtype, path) for dtype in STORAGE for path in native.gemm_paths(dtype)]
SIZES = [
    (1, 1, 1),
    (2, 3, 5),
    (1, 61, 4099),  # longer than any block of k
    (61, 1, 127),
    (7, 17, 31),
    (31, 33, 65),
    (97, 101, 103),
    (131, 521, 257),
    (521, 131, 1031),
]


def to_bf16(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_float64(dtype: str, stored: np.ndarray) -> np.ndarray:
    if dtype == "bf16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


def operand(dtype: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-128, 128, shape, np.int8)
    values = rng.standard_normal(shape)
    return to_bf16(values) if dtype == "bf16" else values.astype(STORAGE[dtype])


def output(dtype: str, m: int, n: int) -> np.ndarray:
    return np.full((m, n), 77, np.int32 if dtype == "int8" else STORAGE[dtype])


def product(dtype, path, a, b, layout="nt", threads=1):
    c = output(dtype, a.shape[0], b.shape[0 if layout == "nt" else 1])
    native.gemm(a, b, c, dtype, layout, threads, path)
    return c


def check(dtype, a, b, c, layout):
    """Bounds of Higham, Accuracy and Stability, §3.5: k roundings of the sum, one of the output."""
    if layout == "nt":
        b = b.T
    if dtype == "int8":
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
        return
    x, y = to_float64(dtype, a), to_float64(dtype, b)
    exact, magnitude = x @ y, np.abs(x) @ np.abs(y)
    bound = a.shape[1] * SUM_ROUNDOFF[dtype] * magnitude + OUTPUT_ROUNDOFF[dtype] * np.abs(exact)
    bound += 2.0**-24 if dtype == "fp16" else 0.0  # subnormal results
    error = np.abs(to_float64(dtype, c) - exact)
    assert (error <= 1.01 * bound).all(), f"worst {np.max(error / bound)} of the bound"


@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize(("dtype", "path"), PATHS)
def test_every_path_on_odd_sizes(dtype, path, layout):
    rng = np.random.default_rng(1)
    for m, n, k in SIZES:
        a = operand(dtype, (m, k), rng)
        b = operand(dtype, (n, k) if layout == "nt" else (k, n), rng)
        for threads in (1, 2, m + 3):
            check(dtype, a, b, product(dtype, path, a, b, layout, threads), layout)


@pytest.mark.parametrize(("dtype", "path"), PATHS)
def test_each_element_of_c_is_its_own_row_and_column(dtype, path):
    """Small integers are exact in every format, so a misplaced tile cannot hide in a tolerance."""
    m, n, k = 75, 149, 3
    a = np.zeros((m, k)) + np.arange(m)[:, None] % 8
    b = np.zeros((n, k)) + np.arange(n)[:, None] % 5
    expected = a @ b.T
    if dtype == "bf16":
        c = to_float64(dtype, product(dtype, path, to_bf16(a), to_bf16(b)))
    else:
        c = product(dtype, path, a.astype(STORAGE[dtype]), b.astype(STORAGE[dtype]))
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("path", native.gemm_paths("int8"))
@pytest.mark.parametrize("x", [-128, -1, 127])
@pytest.mark.parametrize("y", [-128, 127])
def test_extreme_int8_values_are_exact(path, layout, x, y):
    m, n, k = 33, 35, 4096 + 3
    a = np.full((m, k), x, np.int8)
    b = np.full((n, k) if layout == "nt" else (k, n), y, np.int8)
    c = product("int8", path, a, b, layout, 2)
    np.testing.assert_array_equal(c, np.full((m, n), x * y * k))


def test_int8_sums_wrap_like_int32_on_every_path():
    k = 2**17 + 1  # 128 * 128 * k passes 2^31
    a = np.full((1, k), -128, np.int8)
    expected = np.int64(128 * 128 * k).astype(np.int32)
    for path in native.gemm_paths("int8"):
        assert product("int8", path, a, a)[0, 0] == expected


@pytest.mark.parametrize("path", native.gemm_paths("fp32"))
def test_nan_and_infinity_reach_exactly_the_elements_they_belong_to(path):
    rng = np.random.default_rng(2)
    a = operand("fp32", (37, 41), rng)
    b = operand("fp32", (43, 41), rng)
    a[3, 40], a[36, 0], b[42, 7] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.T.astype(np.float64)
    c = product("fp32", path, a, b, threads=2)
    np.testing.assert_array_equal(np.isnan(c), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(c), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(c), np.isneginf(expected))


# Values whose rounding is easily got wrong: ties, overflow, the smallest numbers.
FP16_EDGES = [1 + 2**-11, 1 + 3 * 2**-11, 65504.0, 65519.9, 65520.0, 2**-24, 2**-25, 3 * 2**-26]


@pytest.mark.parametrize("path", native.gemm_paths("fp16"))
def test_fp16_results_round_to_nearest_even(path):
    """x = a * 1 + b * 1 with both parts in fp16, so that the fp32 sum is x before rounding."""
    high = np.minimum(FP16_EDGES, 65504.0).astype(np.float16)
    low = (np.array(FP16_EDGES) - high.astype(np.float64)).astype(np.float16)
    a = np.stack([high, low], axis=1)
    total = a.astype(np.float32).sum(axis=1, dtype=np.float32)
    c = product("fp16", path, a, np.ones((1, 2), np.float16))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(c[:, 0], total.astype(np.float16))


@pytest.mark.parametrize("path", native.gemm_paths("fp16"))
def test_every_fp16_number_passes_through_unchanged(path):
    numbers = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(np.float16).reshape(-1, 1)
    c = product("fp16", path, numbers, np.ones((1, 1), np.float16), threads=2)
    np.testing.assert_array_equal(c, numbers)


@pytest.mark.parametrize("path", native.gemm_paths("bf16"))
def test_every_normal_bf16_number_passes_through_unchanged(path):
    """Subnormal ones may count as zero: AMX and AVX512-BF16 have no other mode."""
    numbers = np.arange(2**16, dtype=np.uint32).astype(np.uint16).reshape(-1, 1)
    exponent = (numbers >> 7) & 0xFF
    kept = numbers[(exponent > 0) & ((exponent < 255) | (numbers & 0x7F == 0))].reshape(-1, 1)
    c = product("bf16", path, kept, to_bf16(np.ones((1, 1))), threads=2)
    np.testing.assert_array_equal(c, kept)


@pytest.mark.parametrize("path", native.gemm_paths("bf16"))
def test_bf16_results_round_to_nearest_even(path):
    one, tie, above = 1.0, 2.0**-8, 2.0**-8 + 2.0**-15
    a = to_bf16(np.array([[one, tie], [one + 2**-7, tie], [one, above]]))
    c = product("bf16", path, a, to_bf16(np.ones((1, 2))))
    np.testing.assert_array_equal(to_float64("bf16", c)[:, 0], [1.0, 1 + 2**-6, 1 + 2**-7])


@pytest.mark.parametrize("path", native.gemm_paths("bf16"))
def test_bf16_nan_stays_nan(path):
    nan = np.array([[0x7FC0], [0xFFC1], [0x7F81], [0x7FFF]], np.uint16)  # quiet and signalling
    c = product("bf16", path, nan, to_bf16(np.ones((1, 1))))
    assert np.isnan(to_float64("bf16", c)).all()


def arrays(**changed):
    fine = {
        "a": np.zeros((4, 6), np.float32),
        "b": np.zeros((5, 6), np.float32),
        "c": np.zeros((4, 5), np.float32),
    }
    return [(fine | changed)[name] for name in "abc"]


def read_only(shape):
    array = np.zeros(shape, np.float32)
    array.setflags(write=False)
    return array


def unaligned(shape):
    raw = np.zeros(4 * shape[0] * shape[1] + 1, np.uint8)
    return raw[1:].view(np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a": np.zeros((4, 12), np.float32)[:, ::2]}, "a must be C-contiguous"),
        ({"b": np.zeros((6, 5), np.float32).T}, "b must be C-contiguous"),
        ({"c": np.zeros((8, 5), np.float32)[::2]}, "c must be C-contiguous"),
        ({"a": np.zeros((4, 6), np.float64)}, "a must be float32, not float64"),
        ({"b": np.zeros((5, 6), ">f4")}, "b must be float32"),
        ({"c": np.zeros((4, 5), np.float16)}, "c must be float32"),
        ({"a": np.zeros(24, np.float32)}, "a must be 2-D"),
        ({"a": np.zeros((0, 6), np.float32), "c": np.zeros((0, 5), np.float32)}, "non-empty"),
        ({"b": np.zeros((5, 7), np.float32)}, r"b must have shape \(5, 6\)"),
        ({"b": np.zeros((6, 5), np.float32)}, r"b must have shape \(5, 6\)"),
        ({"c": np.zeros((5, 5), np.float32)}, r"c must have shape \(4, 5\)"),
        ({"c": read_only((4, 5))}, "writeable"),
        ({"a": unaligned((4, 6))}, "aligned"),
    ],
)
def test_unfit_arrays_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        native.gemm(*arrays(**changed), "fp32")


def test_an_output_inside_an_input_is_refused():
    whole = np.zeros((8, 6), np.float32)
    with pytest.raises(ValueError, match="overlap"):
        native.gemm(whole[:4], np.zeros((6, 6), np.float32), whole[3:7], "fp32")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"dtype": "fp8_e4m3"}, "fp8_e4m3"),
        ({"layout": "tn"}, "layout"),
        ({"threads": 0}, "threads"),
        ({"threads": -1}, "threads"),
        ({"path": "sse9"}, "sse9.*portable"),
        ({"path": ""}, "path"),
    ],
)
def test_unknown_words_are_refused(words, message):
    with pytest.raises(ValueError, match=message):
        native.gemm(*arrays(), **({"dtype": "fp32"} | words))


def test_lists_are_not_converted_behind_the_callers_back():
    with pytest.raises(TypeError):
        native.gemm([[1.0]], np.ones((1, 1)), np.ones((1, 1)), "fp64")


def test_portable_is_always_there_and_last():
    for dtype in STORAGE:
        assert native.gemm_paths(dtype)[-1] == "portable"


def test_calls_from_several_python_threads_do_not_mix():
    rng = np.random.default_rng(3)
    problems = [(operand("fp32", (65, 129), rng), operand("fp32", (67, 129), rng)) for _ in "abcd"]
    results: dict[int, np.ndarray] = {}

    def work(index: int) -> None:
        for _ in range(20):
            results[index] = product("fp32", None, *problems[index], threads=2)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(problems))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for index, (a, b) in enumerate(problems):
        check("fp32", a, b, results[index], "nt")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    a, b = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    product("fp32", None, a, b, threads=2)
    child = os.fork()
    if child == 0:
        good = (product("fp32", None, a, b, threads=2) == 64).all()
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
