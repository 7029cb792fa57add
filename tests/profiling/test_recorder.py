"""Recording: which steps, when, and what the program notices of it."""

import json
import os
import subprocess
import sys

import pytest

from pymicro import profiling
from pymicro.errors import UsageError
from pymicro.profiling.inject import pymicro_recorder as recorder

torch = pytest.importorskip("torch")


def marks(path):
    events = json.loads(path.read_text())["traceEvents"]
    return [e["name"] for e in events if e.get("name", "").startswith("ProfilerStep")]


def loop(path, count, **settings):
    with profiling.trace(path, **settings) as step:
        for number in range(count):
            with torch.profiler.record_function(f"turn {number}"):
                torch.ones(3) + 1
            step()
    return path


@pytest.mark.parametrize(("skip", "steps"), [(0, 1), (0, 3), (1, 2), (4, 3)])
def test_exactly_the_steps_asked_for_are_recorded(tmp_path, skip, steps):
    path = loop(tmp_path / "t.json", skip + steps + 3, skip=skip, steps=steps)
    assert len(marks(path)) == steps
    events = json.loads(path.read_text())["traceEvents"]
    turns = {e["name"] for e in events if e.get("name", "").startswith("turn")}
    assert turns == {f"turn {n}" for n in range(skip, skip + steps)}


def test_a_loop_that_ends_early_leaves_what_there_was(tmp_path):
    path = loop(tmp_path / "t.json", 4, skip=2, steps=10)
    assert len(marks(path)) >= 2


def test_a_loop_that_ends_before_the_recording_leaves_nothing(tmp_path):
    for count in range(4):
        loop(tmp_path / "t.json", count, skip=4, steps=2)
    assert not (tmp_path / "t.json").exists()


def test_an_error_in_the_loop_is_the_loops(tmp_path):
    def failing():
        with profiling.trace(tmp_path / "t.json", skip=0, steps=5) as step:
            step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert marks(tmp_path / "t.json")


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"skip": -1}, {"path": "trace.txt"}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError), profiling.trace(**{"path": "t.json"} | wrong):
        pass


def test_ranks_write_a_file_each(monkeypatch):
    assert recorder.rank_path("a/t.json.gz") == "a/t.json.gz"
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert recorder.rank_path("a/t.json.gz") == "a/t.rank3.json.gz"
    assert recorder.rank_path("t.json") == "t.rank3.json"
    monkeypatch.setenv("RANK", "odd")
    assert recorder.rank_path("t.json") == "t.json"


def test_the_recorder_travels_alone():
    """It runs in other people's processes: nothing but the standard library, torch not at once."""
    code = "import sys, pymicro_recorder; assert 'torch' not in sys.modules"
    code += "; assert 'pymicro' not in sys.modules"
    environment = os.environ | {"PYTHONPATH": str(profiling.INJECTED)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_sitecustomize_that_was_there_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['SEEN'] = '1'")
    path = os.pathsep.join((str(profiling.INJECTED), str(tmp_path)))
    code = "import os; assert os.environ['SEEN'] == '1'"
    environment = os.environ | {"PYTHONPATH": path, profiling.ENVIRONMENT: "{}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def _watch(monkeypatch, calls, unit="auto", skip=3):
    """The units that a watcher counts for a sequence of forward calls and optimiser steps."""
    seen = []

    class Recording:
        count = 0

        def __init__(self, settings):
            self.settings = settings

        def step(self):
            self.count += 1
            seen.append(watcher._unit)

    monkeypatch.setattr(recorder, "Recorder", Recording)
    watcher = recorder.Watcher(recorder.Settings("t.json", skip=skip, unit=unit))
    for call in calls:
        if call == "optimizer":
            watcher._after_optimizer("the optimiser", (), {})
        else:
            with torch.set_grad_enabled(call == "forward"):
                if watcher._optimizer is None:
                    watcher._after_forward()
    return seen


def test_training_counts_optimiser_steps(monkeypatch):
    seen = _watch(monkeypatch, ["forward", "forward", "optimizer"] * 4)
    assert seen == ["optimizer"] * 4


def test_inference_counts_forward_calls(monkeypatch):
    assert _watch(monkeypatch, ["inference"] * 4) == ["forward"] * 4


def test_forward_calls_with_gradients_count_once_no_optimiser_came_for_long(monkeypatch):
    assert _watch(monkeypatch, ["forward"] * 32) == ["forward"] * 3


def test_a_look_at_the_data_before_training_does_not_count(monkeypatch):
    seen = _watch(monkeypatch, ["inference"] * 2 + ["forward", "optimizer"] * 3)
    assert seen == ["forward"] * 2 + ["optimizer"] * 3


@pytest.mark.parametrize(("skip", "timed"), [(0, 0), (3, 0), (4, 1), (8, 5), (20, 5)])
def test_steps_just_before_the_recording_are_timed(tmp_path, monkeypatch, skip, timed):
    """By a clock that each look moves on by a second."""
    looks = iter(range(100))
    monkeypatch.setattr(recorder.time, "perf_counter", lambda: float(next(looks)))
    path = loop(tmp_path / "t.json", skip + 2, skip=skip, steps=1)
    told = json.loads(path.read_text()).get("pymicro")
    noted = told and told["untraced_step_s"]
    assert noted == (pytest.approx(1 / timed) if timed else None)
