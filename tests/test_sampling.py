import pytest
from fakes import ScriptedTimer

from pymicro import sampling
from pymicro.sampling import Plan


def nothing():
    pass


def test_batches_are_long_enough_for_the_clock():
    assert sampling.repeats_for(ScriptedTimer(lambda i: 10e-6), nothing, 200e-6) == 20
    assert sampling.repeats_for(ScriptedTimer(lambda i: 5e-3), nothing, 200e-6) == 1
    assert sampling.repeats_for(ScriptedTimer(lambda i: 1e-9), nothing, 1.0) == 1000


def test_steady_samples_stop_early():
    timer = ScriptedTimer(lambda i: 1e-3)
    (samples,) = sampling.sustained(timer, [nothing], Plan(budget_s=10))
    assert samples.stopped == "steady"
    assert samples.times_s == [1e-3] * 10


def test_noise_goes_on_until_the_budget():
    timer = ScriptedTimer(lambda i: 1e-2 * (1 + i % 7))
    (samples,) = sampling.sustained(timer, [nothing], Plan(budget_s=1.0))
    assert samples.stopped == "budget"
    assert 1.0 <= timer.clock_s <= 1.1


def test_warm_up_waits_for_a_falling_time_to_settle():
    timer = ScriptedTimer(lambda i: 1e-3 * (1 + 10 * 0.7**i))
    (samples,) = sampling.sustained(timer, [nothing], Plan(budget_s=10, spread=0.02))
    assert max(samples.times_s) < 1.02 * min(samples.times_s)


def test_at_least_three_samples_even_over_budget():
    timer = ScriptedTimer(lambda i: 100.0 + i)
    (samples,) = sampling.sustained(timer, [nothing], Plan(budget_s=1.0))
    assert len(samples.timings) == 3


def test_sustained_lasts_its_minimum_though_steady():
    timer = ScriptedTimer(lambda i: 1e-3)
    (samples,) = sampling.sustained(timer, [nothing], Plan(budget_s=10, min_seconds=2.0))
    assert sum(samples.times_s) == pytest.approx(2.0, rel=0.01)


def test_two_calls_take_turns_and_the_order_reverses():
    def first():
        pass

    def second():
        pass

    timer = ScriptedTimer(lambda i: 1e-3)
    plan = Plan(budget_s=10, block_s=2.5e-3, min_samples=12)
    one, two = sampling.sustained(timer, [first, second], plan)
    assert len(one.blocks) == len(two.blocks) == 4
    assert one.block_means_s() == pytest.approx([1e-3] * 4)
    turns = [call for call, _ in timer.timed[-24:]]
    assert turns == [first] * 3 + [second] * 6 + [first] * 6 + [second] * 6 + [first] * 3


def test_negative_times_are_rejected_counted_and_never_made_positive():
    timer = ScriptedTimer(lambda i: -1e-3 if i == 12 else 1e-3)
    (samples,) = sampling.sustained(timer, [nothing], Plan(min_samples=30))
    assert samples.rejected == 1
    assert min(samples.times_s) > 0


def test_a_clock_that_often_runs_backwards_is_refused():
    timer = ScriptedTimer(lambda i: -1e-3 if i % 2 else 1e-3)
    with pytest.raises(sampling.UnsteadyClock, match="no positive time"):
        sampling.sustained(timer, [nothing], Plan(min_samples=1000))


def test_burst_is_twenty_milliseconds_of_work_after_a_rest():
    timer = ScriptedTimer(lambda i: 1e-3)
    samples = sampling.burst(timer, nothing, Plan())
    assert timer.slept == [sampling.BURST_REST_S]
    assert len(samples.timings) == 20


def test_cold_runs_the_flush_before_every_single_call():
    flushed = []
    timer = ScriptedTimer(lambda i: 1e-6)
    samples = sampling.burst(timer, nothing, Plan(), before=lambda: flushed.append(1))
    assert samples.repeats == 1
    assert len(flushed) == len(samples.timings)


def test_interrupt_keeps_the_samples_so_far():
    timer = ScriptedTimer(lambda i: 1e-3)
    (samples,) = sampling.sustained(
        timer, [nothing], Plan(min_samples=100), interrupted=lambda: timer.clock_s > 0.02
    )
    assert samples.stopped == "interrupt"
    assert 3 <= len(samples.timings) < 20


def test_interrupt_ends_the_warm_up_too():
    timer = ScriptedTimer(lambda i: 1e-3 * (1 + i % 2))
    plan = Plan(budget_s=1000.0)
    sampling.sustained(timer, [nothing], plan, interrupted=lambda: timer.clock_s > 0.1)
    assert timer.clock_s < 0.2


@pytest.mark.parametrize("bad", [float("nan"), -1.0])
def test_a_rejected_sample_neither_ends_nor_lengthens_a_burst(bad):
    timer = ScriptedTimer(lambda i: bad if i == 10 else 1e-3)
    samples = sampling.burst(timer, nothing, Plan())
    assert samples.rejected == 1
    assert len(samples.timings) == 20
