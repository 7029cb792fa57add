"""Host costs from turns of probe and job: what a change of pace does to them."""

import pytest

from pymicro.analysis.host_probe import as_probed, at_pace, job_pace_s, steps_of


def training(pace, job_pace, backward=1.0):
    """A host whose phases take 10 and 20 times its pace, beside a job at another pace."""
    probe = {
        "spans": [
            ("loader", 1 * pace, 0), ("forward", 10 * pace, 0),
            ("backward", 20 * pace * backward, 0), ("full loader", 3 * pace, 0),
        ],
        "readings": [(pace, pace * backward), (pace, pace * backward)],
    }  # fmt: skip
    job = {
        "spans": [("loader", 0.5, 0), ("forward", 9.0, 0), ("loader", 0.1, 1), ("forward", 0.2, 1)],
        "readings": [(job_pace, job_pace * backward)] * 3,
    }
    products = {"seconds": {"forward": 2 * pace}, "readings": [(pace, pace * backward)] * 2}
    return {"probe": [probe, probe], "job": [job], "products": products}


def test_a_host_that_slows_down_beside_the_job_costs_more():
    same, slower = training(1e-3, 1e-3), training(1e-3, 1.8e-3)
    assert at_pace(same)["forward"] == pytest.approx(12e-3)
    assert at_pace(same)["loader"] == pytest.approx(3e-3)  # A batch of the job's own size.
    for phase, seconds in at_pace(same).items():
        assert at_pace(slower)[phase] == pytest.approx(1.8 * seconds)
        assert as_probed(slower)[phase] == pytest.approx(seconds)  # Blind to the job's pace.


def test_a_drift_within_the_probe_does_not_matter():
    calm, torn = training(1e-3, 1e-3), training(1e-3, 1e-3)
    torn["probe"].append(training(2e-3, 1e-3)["probe"][0])
    torn["probe"].append(training(3e-3, 1e-3)["probe"][0])
    assert at_pace(torn) == pytest.approx(at_pace(calm))
    assert as_probed(torn)["backward"] > 1.2 * as_probed(calm)["backward"]


def test_backward_has_a_thread_and_a_pace_of_its_own():
    turns = training(1e-3, 1e-3)
    for turn in turns["job"]:
        turn["readings"] = [(1e-3, 2e-3)] * 3
    assert at_pace(turns)["backward"] == pytest.approx(2 * 20e-3)
    assert at_pace(turns)["forward"] == pytest.approx(12e-3)


def test_nothing_of_the_jobs_own_spans_enters_a_prediction():
    turns = training(1e-3, 1.3e-3)
    before = at_pace(turns)
    turns["job"][0]["spans"] = [(p, 77.0, place) for p, _, place in turns["job"][0]["spans"]]
    assert at_pace(turns) == before


def test_a_steady_step_is_all_phases_of_one_reading_but_a_turns_first():
    assert steps_of(training(1.0, 1.0)) == pytest.approx([0.3])
    decoding = {
        "spans": [("encode", 5.0, 0), ("first", 4.0, 1), ("decode", 2.0, 2), ("decode", 3.0, 3)],
        "readings": [(9.0, 0), (9.0, 0), (1.0, 0), (3.0, 0), (5.0, 0)],
    }
    turns = {"job": [decoding]}
    assert steps_of(turns) == [2.0, 3.0]
    assert job_pace_s(turns, "decode") == 3.0  # (1 + 3) / 2 and (3 + 5) / 2.
