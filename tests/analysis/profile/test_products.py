"""The work of products by their recorded shapes, and how near their kernels come to a peak."""

import pytest
import synthetic_trace as synthetic
from synthetic_trace import GEMM, Job, write

from pymicro.analysis import profile
from pymicro.analysis.profile.products import Product, format_of, product
from pymicro.devices.catalogue import catalogue
from pymicro.devices.peaks import peak_ops_per_s
from pymicro.dtypes import DTYPES

FLOAT = ["float", "float", "float", "Scalar"]


@pytest.mark.parametrize(
    ("operator", "dims", "flop"),
    [
        ("aten::mm", [[4, 8], [8, 2]], 2 * 4 * 8 * 2),
        ("aten::addmm", [[2], [4, 8], [8, 2], []], 2 * 4 * 8 * 2),
        ("aten::bmm", [[3, 4, 8], [3, 8, 2]], 2 * 3 * 4 * 8 * 2),
        ("aten::baddbmm", [[3, 4, 2], [3, 4, 8], [3, 8, 2]], 2 * 3 * 4 * 8 * 2),
        ("aten::relu", [[4, 8], [8, 2]], None),
        ("aten::mm", [[4, 8], [7, 2]], None),
        ("aten::mm", [[4, 8]], None),
        ("aten::mm", [[8], [8]], None),
        ("aten::mm", [["4", 8], [8, 2]], None),
        ("aten::mm", "unknown", None),
    ],
)
def test_work_is_two_operations_a_multiplication(operator, dims, flop):
    found = product(operator, dims, FLOAT)
    assert (found.flop if found else None) == flop


def test_fp32_operands_on_matrix_units_are_tf32():
    fp32 = Product("", 1, "fp32")
    assert format_of(fp32, True) == "tf32"
    assert format_of(fp32, False) == "fp32"
    assert format_of(fp32, None) == "fp32"
    assert format_of(Product("", 1, "bf16"), True) == "bf16"


def rows(tmp_path, kernel, type_, device, calls=3):
    job = Job()
    with job.step():
        for _ in range(calls):
            args = {"Input Dims": [[4096, 4096]] * 2, "Input type": [type_] * 2}
            with job.range("aten::matmul", "cpu_op"), job.range("aten::mm", "cpu_op", **args):
                job.launch(300, kernel)
                job.launch(100, "void cublasLt::splitKreduce_kernel<32, 16>(Params)")
        job.op("aten::linear", 5, 500, kernel)
    path = write(tmp_path / "t.json", job.document(deviceProperties=[{"id": 0, "name": device}]))
    return {(r.name.split("<")[0], r.dtype): r for r in profile.explain(path).shown.split.kernels}


def test_rates_are_held_against_the_data_sheet(tmp_path):
    spec = next(s for s in catalogue().values() if s.capability >= (8, 0))
    found = rows(tmp_path, GEMM, "c10::BFloat16", spec.nvml_names[0])
    row = found[GEMM[:71] + "…", "bf16"]
    assert row.flop == 3 * 2 * 4096**3
    peak = peak_ops_per_s(spec, DTYPES["bf16"])
    assert row.peak_fraction == pytest.approx(row.flop / 900e-6 / peak)
    assert found["cublasLt::splitKreduce_kernel", "bf16"].flop == 0
    # A product without shapes is no part of that rate.
    assert found[GEMM[:71] + "…", ""].flop == 0


def test_an_unknown_device_has_no_peak(tmp_path):
    row = rows(tmp_path, GEMM, "c10::BFloat16", "Unheard-of 3000")[GEMM[:71] + "…", "bf16"]
    assert row.flop > 0
    assert row.peak_fraction is None


def test_the_synthetic_device_is_in_the_catalogue():
    from pymicro.analysis.profile.products import spec_of

    assert spec_of(synthetic.HOPPER["name"]) is not None
