"""Clocks for what is asked of a device, without one."""

import pytest

from pymicro import timers, workbench
from pymicro.backends.base import Place
from pymicro.benchmark import Clock
from pymicro.errors import Unavailable
from pymicro.timers import MAX_QUEUED_CALLS, EventTimer, HostTimer, RequestTimer


def test_the_device_is_idle_before_requests_are_timed():
    order = []
    timer = RequestTimer(lambda: order.append("settle"), 100)
    timing = timer.time(lambda: order.append("call"), 3, lambda: order.append("before"))
    assert order == ["before", "settle", "call", "call", "call"]
    assert timing.ended_s >= timing.started_s


@pytest.mark.parametrize(("requests", "most"), [(1, 500), (100, 5), (500, 1), (300, 1)])
def test_requests_fit_the_queue(requests, most):
    assert RequestTimer(lambda: None, requests).max_repeats == most
    assert most * requests <= MAX_QUEUED_CALLS


def test_more_requests_than_the_queue_holds_are_refused():
    with pytest.raises(Unavailable, match="501 requests"):
        RequestTimer(lambda: None, 501)
    with pytest.raises(Unavailable):
        object.__new__(EventTimer).for_requests(501)


def test_calls_that_lead_take_room_in_the_queue():
    timer = object.__new__(EventTimer).for_requests(4, lead=1)
    assert timer.max_repeats == MAX_QUEUED_CALLS // 4 - 1
    with pytest.raises(Unavailable, match="600 requests"):
        object.__new__(EventTimer).for_requests(300, lead=1)


def test_a_workbench_has_the_clock_that_is_wanted():
    on_cpu = workbench.Workbench("cpu")
    assert isinstance(on_cpu.clock(Clock("host", 100)), HostTimer)
    assert on_cpu.clock(Clock()) is on_cpu.timer
    on_gpu = object.__new__(workbench.Workbench)
    on_gpu.timer = object.__new__(timers.EventTimer)
    on_gpu.place = Place("cuda")
    assert on_gpu.clock(Clock()) is on_gpu.timer
    host, device = on_gpu.clock(Clock("host", 100)), on_gpu.clock(Clock("device", 100))
    assert (type(host), type(device)) == (RequestTimer, EventTimer)
    assert (host.max_repeats, device.max_repeats) == (5, 5)
    assert on_gpu.clock(Clock(lead=1)).max_repeats == MAX_QUEUED_CALLS - 1
    assert on_gpu.timer.max_repeats == MAX_QUEUED_CALLS
