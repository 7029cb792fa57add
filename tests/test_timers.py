"""Clocks without a device: what an event timer and the clock probe make of scripted readings."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from pymicro import driver, timers


class Row:
    """Stands in for the device buffer that one launch of the clock probe fills."""

    def __init__(self):
        self.values = np.zeros((2, 1024), np.uint64)

    def set(self, sm, cycles, nanoseconds):
        self.values[:, sm] = cycles, nanoseconds

    def download(self):
        return self.values.copy()


@pytest.fixture
def probe():
    made = object.__new__(timers.gate.ClockProbe)
    made._rows, made._last_ns = [Row(), Row()], 0
    return made


def sample(probe, sms, start_ns, span_ns, hz, missed=()):
    for sm in sms:
        if sm not in missed:
            probe._rows[0].set(sm, 1_000_000, start_ns)
        probe._rows[1].set(sm, 1_000_000 + round(span_ns * hz / 1e9), start_ns + span_ns)


def test_the_mean_clock_over_sms(probe):
    sample(probe, (0, 1), 10**9, 10**6, 1.5e9)
    sample(probe, (7,), 10**9, 10**6, 1.8e9)
    assert probe.mean_hz() == pytest.approx(1.6e9)


def test_a_span_too_short_to_tell_has_no_clock(probe):
    sample(probe, (0, 1), 10**9, 20_000, 1.5e9)
    assert probe.mean_hz() is None


def test_an_sm_that_the_first_launch_missed_does_not_count_with_an_old_reading(probe):
    sample(probe, (0, 1, 2), 10**9, 10**6, 1.5e9)
    probe.mean_hz()
    sample(probe, (0, 1, 2), 2 * 10**9, 10**6, 1.2e9, missed=(2,))
    assert probe.mean_hz() == pytest.approx(1.2e9)


def test_nothing_read_is_no_clock(probe):
    assert probe.mean_hz() is None


def event_timer(monkeypatch, elapsed_ms, times_out=False):
    log = []
    fake = SimpleNamespace(
        cuEventRecord=lambda event, stream: log.append(event) or (0,),
        cuStreamSynchronize=lambda stream: log.append("wait") or (0,),
        cuCtxSynchronize=lambda: log.append("wait") or (0,),
        cuEventElapsedTime=lambda start, stop: (0, elapsed_ms),
    )
    monkeypatch.setattr(driver, "cuda", lambda: fake)
    timer = object.__new__(timers.EventTimer)
    timer._stream, timer._start, timer._stop = None, "start", "stop"
    gate = object.__new__(timers.gate.Gate)
    gate._words = [0, 0]

    def launch():
        log.append("gate")
        gate._words[1] = int(times_out)

    gate.launch = launch
    timer._gate, timer._pace = gate, timers._Pace()
    timer._clock = SimpleNamespace(read=lambda which: log.append(which), mean_hz=lambda: 1.4e9)
    return timer, gate, log


def test_work_is_queued_between_events_behind_the_closed_gate(monkeypatch):
    timer, gate, log = event_timer(monkeypatch, 3.0)
    opened = []

    def call():
        log.append("call")
        opened.append(gate._words[0])

    timing = timer.time(call, 3, before=lambda: log.append("flush"))
    assert log == ["flush", "gate", 0, "start", "call", "call", "call", "stop", 1, "wait"]
    assert opened == [0, 0, 0]
    assert gate._words[0] == 1
    assert timing.seconds == pytest.approx(1e-3)
    assert timing.sm_clock_hz == 1.4e9


def test_calls_that_lead_run_untimed_right_before_the_timed_ones(monkeypatch):
    timer, _, log = event_timer(monkeypatch, 3.0)
    timing = timer.for_requests(4, lead=2).time(lambda: log.append("call"), 3)
    assert log == ["gate", 0, "call", "call", "start", "call", "call", "call", "stop", 1, "wait"]
    assert timing.seconds == pytest.approx(1e-3)


def test_a_long_call_known_from_before_leaves_the_device_idle_for_a_few_only(monkeypatch):
    """The host needs 10 us a call, the device 250: what cools meanwhile is repaid with clock."""
    timer, gate, _ = event_timer(monkeypatch, 25.0)
    now = iter(range(10**6))
    monkeypatch.setattr(timer, "now", lambda: next(now) * 1e-3)  # Queueing 100 calls takes 1 ms.
    opened = []
    call = lambda: opened.append(gate._words[0])  # noqa: E731
    timer.time(call, 100)
    assert opened == [0] * 100
    timer.time(call, 100)
    queued = opened[100:].index(1)
    assert 4 <= queued <= 20
    assert opened[100 + queued :] == [1] * (100 - queued)
    opened.clear()
    timer.time(lambda: opened.append(gate._words[0]), 100)  # Another call: nothing is known of it.
    assert opened == [0] * 100


def test_a_call_that_the_host_makes_slower_than_the_device_runs_it_waits_for_all(monkeypatch):
    timer, gate, _ = event_timer(monkeypatch, 0.5)
    now = iter(range(10**6))
    monkeypatch.setattr(timer, "now", lambda: next(now) * 1e-3)
    opened = []
    call = lambda: opened.append(gate._words[0])  # noqa: E731
    for _ in range(3):
        timer.time(call, 100)
    assert opened == [0] * 300


def test_the_gate_opens_though_the_call_raises(monkeypatch):
    timer, gate, _ = event_timer(monkeypatch, 1.0)

    def call():
        raise RuntimeError("launch failed")

    with pytest.raises(RuntimeError):
        timer.time(call, 1)
    assert gate._words[0] == 1


def test_a_gate_that_timed_out_has_no_time(monkeypatch):
    timer, _, _ = event_timer(monkeypatch, 1.0, times_out=True)
    assert math.isnan(timer.time(lambda: None, 1).seconds)


def test_the_host_timer_divides_by_repeats_and_leaves_the_flush_out(monkeypatch):
    clock = iter([10.0, 16.0])
    monkeypatch.setattr(timers.time, "perf_counter", lambda: next(clock))
    calls = []
    timing = timers.HostTimer().time(lambda: calls.append(1), 3, lambda: calls.append(0))
    assert calls == [0, 1, 1, 1]
    assert timing.seconds == 2.0
