"""One judge of memory: for a trace or a number of parameters, against peaks that jobs reached."""

import json
from pathlib import Path

import pytest

from pymicro.analysis import memory_need
from pymicro.analysis.cases import case, of_job
from pymicro.analysis.memory_need import Need, missing_bytes, most_batch_on, need, of_parameters
from pymicro.analysis.recommend import choice
from pymicro.analysis.suitability import suits
from pymicro.devices.catalogue import catalogue
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import MODELS
from pymicro.workloads.precisions import PRECISIONS
from tests.analysis.devices import device

REFERENCE = Path(__file__).parents[2] / "benchmarks" / "reference" / "h200_sxm_141gb"


def test_needs_are_near_the_peaks_that_26_jobs_reached():
    """The peak is what the allocator gave out; what a context takes is not in it."""
    with (REFERENCE / "e2e_runs.jsonl").open(encoding="utf-8") as lines:
        runs = [json.loads(line) for line in lines]
    assert len(runs) == 26
    for run in runs:
        wanted = Job(**run["job"])
        found = need(of_job(MODELS[wanted.model], wanted))
        ratio = (found.total - Need(0, 0, 0, 0, 0).total) / run["peak_bytes"]
        # Of generation the widest operator is counted three times, which suits some batches less.
        low, high = (1.0, 1.2) if not wanted.output else (0.75, 1.4)
        assert low < ratio < high, run["key"]


def test_a_number_of_parameters_needs_what_a_trace_of_as_many_does():
    for precision in ("fp32", "bf16", "amp_fp16"):
        traced = case("distilbert", precision=precision)
        plain = of_parameters(traced.trace.parameters, PRECISIONS[precision], trained=True)
        assert plain.fixed == need(traced).fixed
    assert of_parameters(1e9, PRECISIONS["amp_bf16"], trained=True).fixed == 18e9
    assert of_parameters(1e9, PRECISIONS["fp16"], trained=False).fixed == 2e9


def test_both_commands_ask_the_same_judge(monkeypatch):
    """Take away what a driver leaves, and nothing fits anywhere."""
    p, spec = device(), catalogue()["h100_sxm5_80gb"]
    assert choice(case("distilbert"), p).fits
    assert suits(spec, "training").size == "large"
    monkeypatch.setattr(memory_need, "number", lambda name: 0.001)
    assert not choice(case("distilbert"), p).fits
    assert suits(spec, "training").size == suits(spec, "inference").size == "none"


def test_what_is_missing_and_the_largest_batch_agree():
    wanted = need(case("distilbert", batch=64, length=512))
    enough = wanted.total / 0.97
    assert missing_bytes(wanted, enough * 1.001) == 0
    assert missing_bytes(wanted, enough * 0.9) == pytest.approx(0.1 * wanted.total, rel=0.01)
    assert missing_bytes(wanted, None) == 0
    of_case = case("distilbert", batch=64, length=512)
    assert most_batch_on(of_case, wanted, enough * 1.001) == 64
    assert most_batch_on(of_case, wanted, enough * 0.95) < 64
    assert most_batch_on(of_case, wanted, None) == 0
