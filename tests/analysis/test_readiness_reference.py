"""What one H200 gave, as it is stored: the findings that the documents tell, from its results."""

from pathlib import Path

import pytest

from pymicro import plans, stats
from pymicro.analysis.readiness import from_measured, measured
from pymicro.results import Store

FILE = Path(__file__).parents[2] / "benchmarks/reference/h200_sxm_141gb/readiness.jsonl"
HOPPER = (9, 0)
# Products by format; the last run was ended after nine of its last format's.
MEASURED = {"fp32": 20, "fp16": 20, "tf32": 20, "bf16": 9}


@pytest.fixture(scope="module")
def seen():
    return measured.measured(Store(str(FILE)).read().results, "h200_sxm_141gb", "", HOPPER)


@pytest.mark.parametrize(("dtype", "count"), MEASURED.items())
def test_the_library_gap_of_the_jobs_hottest_products(seen, dtype, count):
    own = {p.shape: p for p in seen.products if p.dtype == dtype}
    # Most of those that the jobs' traces put first today; the run's list was made otherwise.
    hot = {(p.m, p.n, p.k, p.layout) for p in plans.hot_products(20)}
    assert len(own) == count
    assert len(own.keys() & hot) >= count // 2
    assert all(p.gap and p.best_by and p.kernel for p in own.values())


def test_fp32_runs_kernels_of_the_generation_before_and_fp16_its_own(seen):
    chips = {
        dtype: [
            p.kernel.written and p.kernel.written.chip for p in seen.products if p.dtype == dtype
        ]
        for dtype in MEASURED
    }
    assert chips["fp32"].count((8, 0)) >= 14
    assert HOPPER not in chips["fp32"]
    assert any(p.kernel.name.startswith("sm80_") for p in seen.products if p.dtype == "fp32")
    for dtype in ("fp16", "bf16"):
        assert set(chips[dtype]) == {HOPPER}


def test_the_generation_gap_of_every_format_and_of_the_copy(seen):
    shares = {row.what: row.share(1) for row in seen.generations}
    for dtype in plans.GENERATION_FORMATS:
        assert 0.4 < shares[dtype] < 1.0
    # What no new instruction serves loses least; and memory loses nothing.
    assert max(plans.GENERATION_FORMATS, key=lambda dtype: shares[dtype]) == "fp32"
    assert shares["copy fp32"] == pytest.approx(1.0, abs=0.02)


def test_switches_compiler_and_first_use_were_measured_too(seen):
    assert {s.flag for s in seen.switches} >= {"float32_matmul_precision", "use_fast_accum"}
    assert {a.way for a in seen.attentions} == {"default", "flash", "efficient", "cudnn", "math"}
    assert seen.compiled is not None
    low, middle, high, count = from_measured.tf32_gain(seen)
    assert count == 20
    assert low < middle < high
    assert stats.median([use.ptx_s / use.code_s for use in seen.first_uses]) > 50
