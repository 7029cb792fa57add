"""The gauge of a host's pace, and a job that takes turns with its probe."""

from types import SimpleNamespace

import pytest


class Gauge:
    """Readings as told, one after another."""

    def __init__(self, readings, now=None):
        self._readings, self._now = iter(readings), now

    def read(self):
        if self._now is not None:
            self._now[0] += 100.0
        return next(self._readings)


@pytest.fixture
def now(monkeypatch):
    from pymicro.e2e import pace

    clock = [0.0]
    monkeypatch.setattr(pace.time, "perf_counter", lambda: clock[0])
    return clock


def test_a_reading_is_of_both_threads_where_one_trains():
    from pymicro.e2e.pace import Pace

    forward_s, backward_s = Pace("cpu", is_training=True).read()
    assert forward_s > 0
    assert backward_s > 0
    assert Pace("cpu", is_training=False).read()[1] == 0.0


def test_a_span_has_no_reading_in_it_and_knows_the_one_before(now):
    from pymicro.e2e.pace import Paced

    seen = Paced(Gauge([(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)], now), ("loader",))
    for _ in range(2):
        seen.at("loader")
        now[0] += 0.25
        seen.at("forward")
        now[0] += 0.5
        seen.pause()
        now[0] += 9.0  # Of nobody.
    seen.stop()
    assert seen.readings == [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]
    assert seen.spans == [
        ("loader", 0.25, 0), ("forward", 0.5, 0), ("loader", 0.25, 1), ("forward", 0.5, 1),
    ]  # fmt: skip


def test_job_and_probe_take_turns(now):
    from pymicro.e2e import turns
    from pymicro.e2e.pace import Paced

    order = []

    def run(at, tokens=None):
        order.append("job")
        for phase in ("loader", "forward"):
            at(phase)

    def paced(pace, phases, busy_s):
        order.append(f"probe {busy_s}")
        seen = Paced(pace, phases)
        seen.at(phases[0])
        seen.stop()
        return seen

    task = SimpleNamespace(device="cpu", row=SimpleNamespace(task="train"), run=run)
    gauge = Gauge([(1.0, 1.0)] * 99)
    found = turns.alternate(task, SimpleNamespace(paced=paced), gauge, 0.01, turns=2, steps=3)
    assert order == ["probe 0.01", *["job"] * 3] * 2 + ["probe 0.01"]
    assert [len(turn["spans"]) for turn in found.job] == [6, 6]
    assert [len(turn["readings"]) for turn in found.job] == [4, 4]
    assert len(found.probe) == 3
    task.row.task = "generate"
    order.clear()
    turns.alternate(task, SimpleNamespace(paced=paced), gauge, 0.0, turns=2, steps=3)
    assert order.count("job") == 2  # A run of generating is a whole turn.


def test_a_probe_of_a_batch_of_one_has_a_batch_of_one(monkeypatch):
    """A batch of one dispatches fewer operators."""
    from pymicro.e2e import probe
    from pymicro.workloads.jobs import job
    from tests.e2e.test_runner import narrow

    row = narrow("distilbert")
    asked = []
    monkeypatch.setattr(probe, "synthetic", lambda w, vocabulary: asked.append(w.batch) or [])
    monkeypatch.setattr(
        probe, "Task", lambda *a: SimpleNamespace(run=lambda at: None, loader_s=lambda n: 0.0)
    )
    for batch in (1, 32):
        probe.HostProbe(row, job(row, batch=batch, length=8), "cpu")
    assert asked == [1, 1, 2, 32]  # The narrow one and the full one of each.
