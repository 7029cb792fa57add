"""Which CUDA kernel a case gets, and that it is launched by the module that knows it."""

import itertools

import pytest

from pymicro.backends.base import Place
from pymicro.backends.cuda import gemm, gemm_portable, gemm_sm90, gemm_verified
from pymicro.benchmark import Case
from pymicro.errors import Unavailable
from pymicro.suite import benchmark

DTYPES = benchmark("gemm").dtypes
CAPABILITIES = ((6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
SHAPES = ((8192, 8192, 8192), (1024, 1024, 1024), (333, 217, 129), (1, 4096, 1024), (7, 5, 3))


def case(dtype, shape, layout="nt", path="auto", variant=gemm.FASTEST):
    m, n, k = shape
    params = {"m": m, "n": n, "k": k, "layout": layout, "path": path}
    return Case("gemm", "cuda", variant, dtype, params)


def chosen(capability, *arguments, **words):
    return gemm.choose(case(*arguments, **words), Place("cuda", 0, capability, 132))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_format_that_a_chip_has_gets_a_kernel_that_runs_there(capability, dtype):
    for shape, layout in itertools.product(SHAPES, ("nt", "nn")):
        if dtype == "tf32" and capability < (8, 0):
            with pytest.raises(Unavailable):
                chosen(capability, dtype, shape, layout)
            continue
        row = chosen(capability, dtype, shape, layout)
        assert row.runs_on(capability)
        assert layout in row.layouts
        assert gemm.refusal(row, shape, layout) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_layout_is_served_by_rows_that_read_it_and_by_no_other(dtype, capability):
    for shape, variant in itertools.product(SHAPES, (gemm.FASTEST, "promoted")):
        asked = case(dtype, shape, "tn", variant=variant)
        try:
            row = gemm.choose(asked, Place("cuda", 0, capability, 132))
        except Unavailable:
            continue
        assert "tn" in row.layouts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nt", "nn"])
def test_a_row_is_bound_by_the_module_it_comes_from(dtype, layout, monkeypatch):
    """Both modules have rows of path sm90; their launches differ."""
    monkeypatch.setattr(gemm_sm90, "bind", lambda *a: "sm90")
    monkeypatch.setattr(gemm_portable, "bind", lambda *a: "portable")
    place = Place("cuda", 0, (9, 0), 132)
    for row in gemm.rows():
        if row.dtype == dtype and layout in row.layouts:
            wanted = "sm90" if row in gemm_sm90.ROWS else "portable"
            assert gemm.bind(row, None, (0, 0, 0), (8, 8, 8), layout, place) == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_default_has_barriers_of_its_own_before_it_ran(dtype, shape):
    assert chosen((9, 0), dtype, shape).is_trusted


def test_large_products_on_hopper_get_large_tiles():
    for dtype in DTYPES:
        tile = chosen((9, 0), dtype, (8192, 8192, 8192)).tile
        assert tile[0] * tile[1] >= 128 * 128


def test_hoppers_kernels_serve_its_aligned_products_and_others_the_rest():
    assert chosen((9, 0), "fp16", (4096, 4096, 4096)) in gemm_sm90.ROWS
    assert chosen((9, 0), "fp16", (4097, 4099, 4093)) in gemm_portable.ROWS
    assert chosen((9, 0), "fp16", (4096, 4096, 4096), "nn") in gemm_portable.ROWS
    assert chosen((9, 0), "fp8_e4m3", (4096, 4096, 4096), variant="promoted").variant == "promoted"
    with pytest.raises(Unavailable):
        chosen((9, 0), "fp8_e4m3", (4096, 4096, 4090), variant="promoted")


@pytest.mark.parametrize("path", ["simt", "sm75", "sm80"])
def test_an_older_path_may_be_asked_for(path):
    assert chosen((9, 0), "fp16", (4096, 4096, 4096), path=path).path == path


def test_the_paths_on_the_command_line_are_those_of_the_table():
    (axis,) = (a for a in benchmark("gemm").axes if a.name == "path")
    assert set(axis.choices) == {"auto"} | {row.path for row in gemm.rows()}


def test_a_path_newer_than_the_chip_is_refused():
    with pytest.raises(Unavailable):
        chosen((8, 6), "fp16", (4096, 4096, 4096), path="sm90")


def test_only_rows_that_exist_are_said_to_have_run():
    assert gemm_verified.verified() <= {row.name for row in gemm.rows()}


def test_what_no_card_could_run_is_told_so():
    """No V100 and no A100 was at hand; all that Hopper runs went through the device test."""
    for row in gemm.rows():
        assert bool(row.ran_on) <= row.runs_on((9, 0)), row.name


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("layout", ["nt", "nn"])
def test_hoppers_own_kernel_serves_large_fp32_and_fp64(dtype, layout):
    row = chosen((9, 0), dtype, (4096, 4096, 4096), layout)
    assert row.path == "sm90"
    assert row.source in ("gemm/sgemm_split.cu", "gemm/dgemm_tma.cu")


@pytest.mark.parametrize("m", [1, 5, 16, 32])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (12, 0)])
def test_few_rows_get_a_kernel_of_no_more_rows_than_it_takes(capability, dtype, m):
    row = chosen(capability, dtype, (m, 4096, 1024))
    assert gemm_portable.is_skinny(row)
    smaller = [r for r in gemm.rows() if gemm_portable.is_skinny(r) and r.dtype == dtype]
    assert row.tile[0] == min(r.tile[0] for r in smaller if r.tile[0] >= m)


def test_more_rows_get_no_strips():
    for dtype in ("fp16", "fp32"):
        assert not gemm_portable.is_skinny(chosen((9, 0), dtype, (33, 4096, 1024)))
        assert not gemm_portable.is_skinny(chosen((8, 0), dtype, (33, 8, 8)))
