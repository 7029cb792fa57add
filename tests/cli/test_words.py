import pytest

from pymicro.cli import words
from pymicro.errors import UsageError
from pymicro.suite import benchmark

GEMM = benchmark("gemm")
DEFAULTS = {"size": 1024, "threads": 2}


def points(kind="cpu", **axis_words):
    return words.points(GEMM, words.given(GEMM, axis_words), kind, DEFAULTS)


def test_nothing_said_is_the_default_cube():
    assert points() == [{"m": 1024, "n": 1024, "k": 1024, "layout": "nt", "threads": 2}]


def test_size_gives_the_sides_that_were_not_named():
    (point,) = points(size="4k", k="64")
    assert (point["m"], point["n"], point["k"]) == (4096, 4096, 64)


def test_sides_alone_need_no_size():
    (point,) = points(m="3", n="5", k="7")
    assert (point["m"], point["n"], point["k"]) == (3, 5, 7)
    assert "size" not in point


def test_lists_multiply_out_and_repeat_nothing():
    assert len(points(size="1k,2k", layout="nn")) == 2
    assert len(points(m="1,2", n="3,4", k="5")) == 4
    assert len(points(size="1k,2k", m="1", n="1", k="1")) == 1


def test_choices_are_lists_too():
    bandwidth = benchmark("bandwidth")
    found = words.given(bandwidth, {"op": "copy,triad,copy", "access": "all"})
    assert found == {"op": ("copy", "triad"), "access": ("sequential", "strided", "random")}
    with pytest.raises(UsageError, match=r"unknown op 'tirad'; did you mean .*triad"):
        words.given(bandwidth, {"op": "copy,tirad"})


def test_a_default_may_be_several_values():
    bandwidth, latency = benchmark("bandwidth"), benchmark("latency")
    defaults = {"size": 64, "threads": 1}
    assert len(words.points(bandwidth, {}, "cpu", defaults)) == 4
    sweep = dict(latency.defaults("cpu", None))
    assert len(words.points(latency, {}, "cpu", sweep)) == len(sweep["size"]) > 10


def test_axes_of_the_other_kind_of_device():
    assert "threads" not in points(kind="cuda")[0]
    assert points(kind="cuda")[0]["path"] == "auto"
    with pytest.raises(UsageError, match=r"--threads.*cpu"):
        points(kind="cuda", threads="4")
    with pytest.raises(UsageError, match=r"--path.*cuda"):
        points(kind="cpu", path="sm80")


def test_a_unit_that_lacks_a_format_costs_no_other_unit():
    """Of `--dtype fp32,int8 --unit avx2,amx` one pair does not exist: skipped, with a reason."""
    peak = benchmark("peak")
    for kind, own in (("cpu", {"threads": 1}), ("cuda", {"sms": 2})):
        units = {"cpu": ("avx2", "amx"), "cuda": ("ffma", "wgmma")}[kind]
        found = [{"unit": unit, **own} for unit in units]
        for dtype in ("fp32", "int8"):
            words.refuse_impossible(peak, dtype, found)


@pytest.mark.parametrize("word", ["0", "-4", "1.5", "4096x", "1e99", "", "99999999999999999999"])
def test_sizes_that_cannot_be_meant(word):
    with pytest.raises(UsageError, match="--m"):
        words.given(GEMM, {"m": word})


def test_dtypes():
    assert words.dtypes(GEMM, "fp16,float32,half") == ("fp16", "fp32")
    assert words.dtypes(GEMM, "all") == GEMM.dtypes
    with pytest.raises(UsageError, match="fp16"):
        words.dtypes(GEMM, "fp61")
    with pytest.raises(UsageError, match="gemm has no int32"):
        words.dtypes(GEMM, "int32")


def test_backends():
    assert words.backends("torch,native") == ("torch", "native")
    assert "cuda" in words.backends("all")
    with pytest.raises(UsageError, match="triton"):
        words.backends("tritn")
