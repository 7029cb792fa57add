"""The blind study: what it covers, and how a prediction is scored."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import e2e_h200

BENCHMARKS = Path(e2e_h200.__file__).parent


def test_it_covers_both_tasks_in_precisions_sizes_and_beams():
    jobs = e2e_h200.configurations()
    assert len(jobs) >= 24
    assert len({e2e_h200.key(job) for job in jobs}) == len(jobs)
    for model in ("distilbert", "t5-large"):
        own = [job for job in jobs if job.model == model]
        assert len({job.precision for job in own}) >= 4
        assert len({(job.batch, job.length) for job in own}) >= 4
    assert {job.beams for job in jobs} == {1, 4}
    first = BENCHMARKS / "reference" / "h200_sxm_141gb" / "e2e_runs.jsonl"
    before = {json.loads(line)["key"] for line in first.open()}
    pilot = {e2e_h200.key(job) for job in e2e_h200.configurations(pilot=True)}
    assert not {e2e_h200.key(job) for job in jobs} & (before | pilot)  # Blind to all of them.


def test_a_score_is_the_error_of_a_step(tmp_path, capsys):
    runs, predictions = tmp_path / "runs.jsonl", tmp_path / "predictions.jsonl"
    measured = [{"key": name, "step_s": 0.01} for name in "abc"]
    predicted = [{"key": "a", "step_s": 0.012}, {"key": "b", "step_s": 0.0095}, {"key": "x"}]
    runs.write_text("".join(json.dumps(line) + "\n" for line in measured))
    predictions.write_text("".join(json.dumps(line) + "\n" for line in predicted))
    e2e_h200.score(runs, predictions)
    said = capsys.readouterr().out
    assert "+20.0%" in said
    assert "-5.0%" in said
    assert "2 runs: median error 12.5%, worst 20.0%" in said
    predictions.write_text("")
    with pytest.raises(SystemExit):
        e2e_h200.score(runs, predictions)


def test_a_run_is_resumed_where_it_stopped(tmp_path, monkeypatch):
    made = []

    def one(wanted, device, models, busy_s):
        made.append(e2e_h200.key(wanted))
        return {"key": made[-1]}

    monkeypatch.setattr(e2e_h200, "one", one)
    monkeypatch.setattr(e2e_h200, "_line", lambda record: record["key"])
    to = tmp_path / "runs.jsonl"
    first = e2e_h200.key(e2e_h200.configurations()[0])
    to.write_text(json.dumps({"key": first}) + "\n")
    e2e_h200.run(to, "cpu", budget_s=60.0, only="distilbert")
    assert first not in made
    assert len(made) == len(set(made)) > 10
    e2e_h200.run(to, "cpu", budget_s=-1.0, only="")
    assert all(name.startswith("distilbert") for name in made)
