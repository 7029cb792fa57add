"""Jobs that ran on two cores, beside what their products and streams say of them."""

from pathlib import Path
from statistics import median

import pytest

from pymicro.analysis import cases
from pymicro.analysis.predict import predict
from pymicro.analysis.primitives_sources import primitives
from pymicro.devices.cpu import CpuSpec
from pymicro.results import Store

FOLDER = Path(__file__).parents[2] / "benchmarks" / "reference" / "cpu_zen5_2cores"


def stored(*names):
    return [r for name in names for r in Store(FOLDER / f"{name}.jsonl").read().results]


RUNS = stored("e2e")


def test_the_runs_are_there():
    assert len({tuple(sorted(r.params.items())) for r in RUNS}) >= 4


@pytest.mark.parametrize("run", RUNS, ids=lambda r: f"{r.params['batch']}x{r.params['length']}")
def test_a_step_is_predicted_within_a_fifth(run):
    cpu = primitives(CpuSpec(name="two cores", physical_cores=2), stored("gemm", "bandwidth"))
    size = {k: run.params[k] for k in ("batch", "length")}
    made = predict(cases.case(run.params["model"], "cpu", precision=run.dtype, **size), cpu)
    assert made.unit_s.value == pytest.approx(median(run.times_s), rel=0.2)
