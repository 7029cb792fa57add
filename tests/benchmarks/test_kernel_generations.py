"""The study of kernels' generations: recorded rows in, sentences and a table out."""

import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "benchmarks"
SPEC = importlib.util.spec_from_file_location("kernel_gens", ROOT / "kernel_generations.py")
study = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(study)


def recorded(kernel, dtype="fp16", layout="nt", m=4096, n=768, k=768):
    return {
        "op": "aten::mm", "batch": "0", "dtype": dtype, "layout": layout, "kernel": kernel,
        "m": str(m), "n": str(n), "k": str(k), "kernel_s": "1e-5",
    }  # fmt: skip


def test_each_format_has_its_sentence():
    rows = [
        recorded("sm80_xmma_gemm_f32f32", "fp32"),
        recorded("void gemv2T_kernel_val<int>", "fp32", m=1, n=4096, k=1024),
        recorded("sm80_not_among_the_jobs", "fp32", m=7, n=7, k=7),
        recorded("nvjet_sm90_hsh_192x128"),
    ]
    text = study.report(rows, (9, 0))
    assert "- fp32: 1 of 2 for 8.0 (ampere, 1 behind); 1 do not say" in text
    assert "- fp16: 1 of 1 for 9.0 (hopper, 0 behind)" in text
    assert "- bf16: not recorded" in text
    assert "| fp16 | 4096×768×768 nt | `nvjet_sm90_hsh_192x128` | 9.0 | 483.2 TFLOP/s" in text


def test_a_weights_gradient_is_its_own_and_no_other_layout():
    sizes = {"m": 768, "n": 768, "k": 4096}
    rows = [recorded("nvjet_sm90_x", layout=layout, **sizes) for layout in ("nt", "tn")]
    ((dtype, product, row),) = study.products(rows)
    assert (dtype, product.layout, row["layout"]) == ("fp16", "tn", "tn")


def test_the_reference_is_what_the_study_writes():
    folder = study.REFERENCE / "h200_sxm_141gb"
    if not (folder / "operators.csv").exists():
        pytest.skip("no recording of this device")
    with (folder / "operators.csv").open(encoding="utf-8", newline="") as file:
        text = study.report(list(csv.DictReader(file)), (9, 0))
    assert text == (folder / "kernel_generations.md").read_text(encoding="utf-8")
    assert "- fp32: 11 of 19 for 8.0 (ampere, 1 behind)" in text
    assert "- fp16: 16 of 19 for 9.0 (hopper, 0 behind)" in text
