"""What the maker of TMA descriptors asks the driver for; no GPU."""

import types

import pytest

from pymicro import driver
from pymicro.backends.cuda.gemm_portable import ROWS, bind
from pymicro.backends.cuda.tensor_maps import tensor_map


class Names:
    """Any enum: an attribute is its own name."""

    def __getattr__(self, name):
        return name


@pytest.fixture
def asked(monkeypatch):
    calls = []

    def encode(*arguments):
        calls.append(arguments)
        return 0, "encoded"

    enums = ("DataType", "Interleave", "Swizzle", "L2promotion", "FloatOOBfill")
    fake = types.SimpleNamespace(
        cuTensorMapEncodeTiled=encode, cuuint32_t=int, cuuint64_t=int,
        **{f"CUtensorMap{name}": Names() for name in enums},
    )  # fmt: skip
    monkeypatch.setattr(driver, "cuda", lambda: fake)
    monkeypatch.setattr(driver, "TensorMap", lambda encoded: encoded)
    return calls


@pytest.mark.parametrize(
    ("dtype", "word", "pitch_bytes"),
    [("fp16", "FLOAT16", 128), ("tf32", "TFLOAT32", 256), ("fp64", "FLOAT64", 512),
     ("int8", "UINT8", 64), ("int32", "INT32", 256)],
)  # fmt: skip
def test_sides_box_and_pitch(asked, dtype, word, pitch_bytes):
    tensor_map(dtype, 4096, 100, 64, (128, 16))
    ((kind, rank, pointer, sides, pitch, box, step, *_, promotion, _),) = asked
    assert kind == f"CU_TENSOR_MAP_DATA_TYPE_{word}"
    assert (rank, pointer) == (2, 4096)
    assert sides == [64, 100]  # columns first: the driver counts from the innermost side
    assert box == [16, 128]
    assert (pitch, step) == ([pitch_bytes], [1, 1])
    assert promotion == "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"


def test_an_empty_matrix_is_described_as_one_that_the_driver_accepts(asked):
    tensor_map("fp64", 0, 8, 0, (128, 16))
    assert asked[0][3:5] == ([1, 8], [16])


@pytest.mark.parametrize(
    ("layout", "sides_b", "box_b"), [("nt", [32, 48], [16, 64]), ("nn", [48, 32], [16, 16])]
)
def test_fp64_maps_follow_the_layout_of_b(asked, layout, sides_b, box_b):
    row = next(r for r in ROWS if r.abi == "tma" and r.path == "sm90" and layout in r.layouts)
    loaded = types.SimpleNamespace(bind=lambda *_: None)
    bind(row, loaded, 0, 16, 32, 40, 48, 32, layout, 0)
    (a, b) = asked
    assert (a[3], a[5]) == ([32, 40], [16, 128])
    assert (b[3], b[5]) == (sides_b, box_b)
    assert a[9] == b[9] == "CU_TENSOR_MAP_L2_PROMOTION_L2_256B"
