"""What is known of the two jobs on one card, on stored runs and on their simulation alike.

The figures of the runs are e2e_h200.py's; the simulation takes the host from the probes beside
them. A fact of the runs that the simulation does not show would be explained wrongly.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pymicro.analysis.cases import of_job
from pymicro.analysis.host_probe import host_costs
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.simulate import Config, simulate
from pymicro.devices.catalogue import catalogue
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import MODELS

STORED = Path(__file__).parents[2] / "benchmarks" / "reference" / "h200_sxm_141gb"


class Seen:
    """A stored run and what the simulation makes of it: seconds a step, busy and by kind."""

    def __init__(self, run):
        wanted = Job(**run["job"])
        self.case = of_job(MODELS[wanted.model], wanted)
        probes = [run["host_probe_s"][when] for when in ("before", "after")]
        p = primitives(catalogue()["h200_sxm_141gb"])
        self.primitives = replace(p, host=host_costs(probes, self.case.program))
        self.step_s, decoding = run["step_s"], wanted.output > 0
        which = ("decode",) if decoding else tuple(run["busy_s"])
        self.busy_s = sum(run["busy_s"][phase] for phase in which)
        self.kernels = sum(run["kernels"][phase] for phase in which)
        runs = 1 if decoding else 100
        made = simulate(
            self.case.program, self.primitives, Config(runs, tf32=self.case.config.tf32)
        )
        found = made.phases["decode"] if decoding else made.total
        steps = wanted.output - 1 if decoding else runs
        self.simulated_s = found.wall_s / steps
        self.simulated_busy_s = found.busy_s / steps
        self.products_share = found.by_kind["product"] / found.busy_s
        self.calls = sum(
            s.times * len(s.steps) for s in self.case.program.stretches
            if not decoding or s.phase == "decode"
        ) / (steps if decoding else 1)  # fmt: skip

    def path(self):
        return self.primitives.path("float32", self.case.config.tf32)


@pytest.fixture(scope="module")
def seen():
    runs = {r["key"]: r for r in map(json.loads, (STORED / "e2e_runs.jsonl").open())}
    return lambda key: Seen(runs[key])


def test_training_in_fp32_is_products_on_the_vector_units(seen):
    plain = seen("distilbert-fp32-sdpa-b32-l128-k1")
    matrix = seen("distilbert-tf32-sdpa-b32-l128-k1")
    assert plain.path() == "fp32"  # No path of a matrix unit.
    assert plain.products_share > 0.7
    for busy, step in ((plain.busy_s, plain.step_s), (plain.simulated_busy_s, plain.simulated_s)):
        assert busy / step > 0.75
    # The same operators on the matrix units: a third of the device's time.
    assert plain.busy_s / matrix.busy_s > 2.5
    assert plain.simulated_busy_s / matrix.simulated_busy_s > 2.5


def test_autocast_on_short_sequences_is_bound_by_the_host_and_gains_nothing(seen):
    matrix = seen("distilbert-tf32-sdpa-b32-l128-k1")
    cast = seen("distilbert-amp_fp16-sdpa-b32-l128-k1")
    assert cast.kernels > 1.4 * matrix.kernels
    assert cast.busy_s < 0.7 * matrix.busy_s
    assert cast.busy_s / cast.step_s < 0.4
    assert cast.simulated_busy_s / cast.simulated_s < 0.4
    # A third less to do for the device, and the step is as long as it was.
    assert cast.step_s > 0.95 * matrix.step_s
    assert cast.simulated_s > 0.95 * matrix.simulated_s


def test_generating_one_text_leaves_the_device_idle(seen):
    for key in ("t5-large-fp32-sdpa-b1-l320-k1", "t5-large-fp16-sdpa-b1-l320-k1"):
        one = seen(key)
        assert one.busy_s / one.step_s < 0.2
        assert one.simulated_busy_s / one.simulated_s < 0.2


def test_half_precision_generates_slower_since_it_launches_more(seen):
    wide, half = seen("t5-large-fp32-sdpa-b1-l320-k1"), seen("t5-large-fp16-sdpa-b1-l320-k1")
    assert half.step_s > 1.1 * wide.step_s
    assert half.kernels > 1.15 * wide.kernels
    assert half.busy_s == pytest.approx(wide.busy_s, rel=0.15)  # The device is not the cause.
    # As many more calls, at the same price a call, are as much more time.
    on_one_host = replace(half.primitives, host=wide.primitives.host)
    made = simulate(half.case.program, on_one_host, Config(1)).phases["decode"]
    slower = made.wall_s / (half.case.job.output - 1) / wide.simulated_s
    assert slower == pytest.approx(half.calls / wide.calls, rel=0.03)
    assert slower == pytest.approx(half.step_s / wide.step_s, rel=0.1)
