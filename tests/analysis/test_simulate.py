"""Two queues, to the last digit: who waits for whom, and what a stretch adds up to."""

import itertools
import json
from dataclasses import replace

import pytest

from pymicro.analysis.program import compiled
from pymicro.analysis.simulate import Config, simulate
from pymicro.analysis.timeline import chrome
from pymicro.workloads.trace import Operator, Phase, Tensor, Trace
from tests.analysis.devices import device, host, value
from tests.analysis.traces import generation, sizes, training

# One array of this many floats is read and written: 8 bytes each at 0.9 TB/s, after 2 us.
COUNT = 9_000_000
KERNEL_S = 2e-6 + 8 * COUNT / 0.9e12


def trace(*operators: Operator, name: str = "forward") -> Trace:
    phase = Phase(name, "1", operators)
    return Trace("m", "train", "fp32", "sdpa", "cuda", {}, {}, 10, (phase,))


def stream(count: int = COUNT, **more) -> Operator:
    array = Tensor((str(count),), "float32")
    return Operator("aten::add.Tensor", (array,), (array,), **more)


ITEM = Operator("aten::_local_scalar_dense", (Tensor((), "float32"),), (), synchronises=True)


def run(made: Trace, p=None, **how):
    return simulate(compiled(made, sizes(1, 1)), p or device(), Config(**how))


def test_long_kernels_follow_each_other_and_hide_the_host():
    found = run(trace(*[stream()] * 5))
    # The host asks in 20 us, the first kernel starts 3 us later; then only gaps.
    assert found.seconds == pytest.approx(20e-6 + 3e-6 + 5 * KERNEL_S + 4 * 1e-6)
    assert found.total.busy_s == pytest.approx(5 * KERNEL_S)
    assert found.total.kernels == 5


def test_short_kernels_wait_for_the_host():
    found = run(trace(*[stream(1)] * 5))
    assert found.seconds == pytest.approx(5 * 20e-6 + 3e-6 + 2e-6, rel=1e-3)
    assert found.total.starved_s > 0.8 * found.seconds


def test_a_synchronisation_ends_the_lead_of_the_host():
    free = run(trace(*[stream()] * 4), batches=1)
    tied = run(trace(stream(), ITEM, stream(), ITEM, stream(), ITEM, stream()))
    # Each wait costs the host's way back, the item, and the next call's way to the device.
    extra = 10e-6 + 20e-6 + 3e-6 - 1e-6
    assert tied.seconds - free.seconds == pytest.approx(3 * extra)


def test_calls_in_a_row_count_as_often():
    once, often = run(trace(*[stream()] * 3)), run(trace(stream(calls=3)))
    assert often.seconds == pytest.approx(once.seconds)


def test_views_and_lists_cost_the_host():
    slow = device(host=host(20e-6).faster(1.0))
    costs = {"view_s": value(2e-6), "tensor_s": value(5e-6)}
    import dataclasses

    slow = dataclasses.replace(slow, host=dataclasses.replace(slow.host, **costs))
    plain = run(trace(stream(1)), slow).seconds
    assert run(trace(stream(1, views=4)), slow).seconds == pytest.approx(plain + 8e-6)
    # Sixty tensors are two launches: two floors instead of one, and a gap.
    listed = run(trace(stream(1, tensors=60)), slow).seconds
    assert listed == pytest.approx(plain + 60 * 5e-6 + 2e-6)


def test_a_graph_asks_once():
    many = trace(*[stream(1)] * 50)
    assert run(many, graphs=True).seconds == pytest.approx(20e-6 + 3e-6 + 50 * 2e-6 + 49 * 0.5e-6,
                                                           rel=1e-3)  # fmt: skip


def test_copies_over_the_link_are_not_busy_time():
    there = Tensor(("1000000",), "float32", "host")
    copy = Operator("aten::_to_copy", (there,), (Tensor(("1000000",), "float32"),))
    found = run(trace(copy))
    assert found.total.busy_s == 0
    assert found.total.copying_s == pytest.approx(10e-6 + 4e6 / 20e9)


def test_batches_multiply_a_steady_one():
    made = trace(*[stream()] * 3)
    one, many = run(made, batches=1).seconds, run(made, batches=100).seconds
    assert 99 * 3 * KERNEL_S < many < 100 * one


def test_decode_steps_grow_with_the_past():
    keys = Tensor(("keys", "1000000"), "float32")
    grows = Operator("aten::add.Tensor", (keys,), (keys,))
    phase = Phase("decode", "output-1", (grows,), is_decode=True)
    made = Trace("m", "generate", "fp32", "eager", "cuda", {}, {}, 10, (phase,))
    found = simulate(compiled(made, sizes(1, 1, output=101)), device())
    # Steps see 2 to 101 keys: their sum is exact, as the time is a line.
    whole = sum(2e-6 + 8e6 * n / 0.9e12 for n in range(2, 102))
    assert found.total.busy_s == pytest.approx(whole, rel=1e-2)


def test_one_token_has_no_decode_step():
    found = simulate(compiled(generation(2), sizes(1, 8, output=1)), device())
    assert "decode" not in found.phases


def test_the_parts_of_busy_time_add_up_to_it():
    for made, values in ((training(2), sizes(8, 128)), (generation(2), sizes(2, 64, 8, 2))):
        found = simulate(compiled(made, values), device(), Config(batches=3))
        assert sum(found.total.parts) == pytest.approx(found.total.busy_s)
        assert sum(found.total.by_kind.values()) == pytest.approx(found.total.busy_s)


def test_tf32_is_another_path_for_the_same_operators():
    program = compiled(training(2), sizes(32, 128))
    plain, fast = (simulate(program, device(), Config(tf32=t)) for t in (False, True))
    assert fast.total.by_kind["product"] < 0.6 * plain.total.by_kind["product"]
    assert fast.total.by_kind["pointwise"] == plain.total.by_kind["pointwise"]


def test_a_timeline_is_a_chrome_trace():
    found = simulate(compiled(training(1), sizes(2, 16)), device(), Config(batches=2), True)
    document = json.loads(chrome(found, "a card"))
    complete = [e for e in document["traceEvents"] if e["ph"] == "X"]
    flows = {ph: [e["id"] for e in document["traceEvents"] if e["ph"] == ph] for ph in "sf"}
    assert flows["s"] == flows["f"] == list(range(len(found.events)))
    for event in complete:
        assert {"name", "pid", "tid", "ts", "dur"} <= event.keys()
        assert event["dur"] >= 0
    by_track = {}
    for event in complete:
        by_track.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    # On a track nothing overlaps: viewers would draw it as if one called the other.
    for spans in by_track.values():
        spans.sort()
        assert all(a[1] <= b[0] + 2e-3 for a, b in itertools.pairwise(spans))
    assert {e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"} >= {"a card"}


def test_a_cast_of_autocast_is_cheaper_for_the_host_and_only_there():
    array = Tensor(("1",), "float32")
    cast = Operator("aten::_to_copy", (array,), (Tensor(("1",), "float16"),))
    p = device(host=replace(host(), cast_s=value(5e-6)))
    plain = trace(*[stream(1)] * 5, *[cast] * 5)
    autocast = replace(plain, precision="amp_fp16")
    assert run(plain, p).total.host_s == pytest.approx(10 * 20e-6)
    assert run(autocast, p).total.host_s == pytest.approx(5 * 20e-6 + 5 * 5e-6)
    # A host of which it is not known asks for a cast as for any operator, and never dearer.
    assert run(autocast).total.host_s == pytest.approx(10 * 20e-6)
    dear = device(host=replace(host(), cast_s=value(50e-6)))
    assert run(autocast, dear).total.host_s == pytest.approx(10 * 20e-6)


def test_a_batch_takes_the_longer_to_make_the_more_tokens_it_has():
    p = device(host=replace(host(), token_s=value(1e-6)))
    made = trace(stream(1), name="input")
    short, long = (
        simulate(compiled(made, sizes(batch, 128)), p).seconds for batch in (1, 9)
    )  # fmt: skip
    assert long - short == pytest.approx(8 * 128 * 1e-6)
    assert p.host.faster(2.0).token_s.value == pytest.approx(0.5e-6)
    assert p.with_value("host", "high").host.token_s.value > 1e-6
    later = trace(stream(1))  # Only before the phase that takes the batch.
    assert simulate(compiled(later, sizes(9, 128)), p).seconds < 1e-4
