"""Parts add up, each moves with its own cause alone, and swapping cards swaps the verdict."""

import dataclasses

import pytest

from pymicro.analysis.against import against
from pymicro.analysis.cases import Case
from pymicro.analysis.explain import NAMES, explain, split
from pymicro.analysis.predict import predict
from pymicro.analysis.what_if import REMEDIES, factor, outcomes, parse
from pymicro.errors import UsageError
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import model
from tests.analysis.devices import device, host, value
from tests.analysis.traces import generation, training


def train(batch: int = 32, precision: str = "fp32") -> Case:
    wanted = Job("distilbert", batch, 128, records=10 * batch, precision=precision)
    return Case(model("distilbert"), wanted, training(3))


def generate(batch: int = 1) -> Case:
    wanted = Job("t5-large", batch, 64, output=16, records=batch)
    return Case(model("t5-large"), wanted, generation(4))


@pytest.mark.parametrize("made", [train(), train(1), generate(), generate(16)])
def test_the_parts_add_up_to_the_simulated_time(made):
    found = split(made, device())
    assert tuple(found) == NAMES
    assert sum(found.values()) == pytest.approx(predict(made, device()).seconds.value)


def test_with_a_measured_time_the_rest_is_unexplained_and_signed():
    seconds = predict(train(), device()).seconds.value
    for measured in (0.9 * seconds, 1.5 * seconds):
        told = explain(train(), device(), measured)
        parts = sum(p.seconds.value for p in told.parts)
        assert parts + told.unexplained_s == pytest.approx(measured)
        assert told.unexplained_s == pytest.approx(measured - seconds)


def test_every_part_has_an_interval_that_holds_it_and_says_what_it_rests_on():
    for part in explain(train(), device()).parts:
        assert part.seconds.low <= part.seconds.value <= part.seconds.high
        assert part.why


@pytest.mark.parametrize(
    ("made", "group", "step", "own"),
    [
        (train(64), "flop_per_s", 1.1, "quality"),
        (train(64), "dram_bytes_per_s", 1.1, "quality"),
        (train(64), "floor_s", 1.1, "shape"),
        (train(64), "gap_s", 1.1, "shape"),
        (generate(1), "host", 1.1, "host"),
    ],
)
def test_one_primitive_moves_its_part_alone(made, group, step, own):
    """By a tenth; what another part moves is less than a tenth of what its own does."""
    p = device(host=host(1e-6, 0.0)) if group != "host" else device(host=host(20e-6, 0.0))
    before, after = split(made, p), split(made, p.scaled(group, step))
    moved = {name: abs(after[name] - before[name]) for name in NAMES}
    assert max(moved, key=lambda name: moved[name]) == own
    others = sum(by for name, by in moved.items() if name != own)
    assert others < 0.1 * moved[own], moved


def test_swapping_the_rows_of_two_cards_swaps_the_verdict():
    fast, slow = device("fast", 80e12), device("slow", 40e12)
    made = train(64)
    one, other = against(made, fast, slow), against(made, slow, fast)
    swapped = (dataclasses.replace(fast, name="slow", key="slow"),
               dataclasses.replace(slow, name="fast", key="fast"))  # fmt: skip
    assert one.ratio[0] > 1 > other.ratio[0]
    assert "slow is slower than fast" in one.verdict
    assert "slow is slower than fast" in other.verdict
    assert "fast is slower than slow" in against(made, *swapped).verdict


def test_the_part_that_makes_the_order_is_named():
    a = device("a", 80e12, host=host(1e-6, 0.0))
    slower = device("b", 80e12, host=host(100e-6, 0.0))
    made = against(generate(), a, slower)
    assert made.parts[0][0] == "host"
    assert "Host and launches makes the largest difference" in made.verdict


def test_intervals_that_overlap_cannot_tell():
    made = against(train(64), device("a", 50e12), device("b", 51e12))
    assert not made.is_decided
    assert made.verdict.startswith("cannot tell")


def test_a_change_turns_the_order_only_where_its_interval_says_so():
    """tf32 is no faster on the first: by how much the second's is decides what may be said."""

    def turned(tf32_flop_per_s):
        peaks = {"tf32": value(tf32_flop_per_s)}
        a, b = device("a", 60e12, host=host(1e-6, 0.0)), device("b", 40e12, host=host(1e-6, 0.0))
        a = dataclasses.replace(a, flop_per_s={**a.flop_per_s, "tf32": value(60e12)})
        b = dataclasses.replace(b, flop_per_s={**b.flop_per_s, **peaks})
        return [x for x in against(train(64), a, b).flips if x.startswith("tf32 on both")]

    (sure,), (open_,) = turned(400e12), turned(70e12)
    assert "b is then the faster one" in sure
    assert "b may then be the faster one" in open_
    low, high = (float(x) for x in open_.split("allows ")[1].split(" to "))
    assert low < 1.0 <= high


def test_a_card_against_itself_is_refused():
    with pytest.raises(UsageError, match="the device itself"):
        against(train(), device(), device())


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(seconds):
    with pytest.raises(UsageError, match="no time"):
        explain(train(), device(), seconds)


def test_faster_than_physics_is_refused():
    floor = split(train(), device())["floor"]
    with pytest.raises(UsageError, match="faster than physics"):
        explain(train(), device(), 0.5 * floor)


def test_a_clock_below_the_nominal_one_has_a_part_of_its_own():
    slow = device(
        clock_share={"fp32": value(0.5)}, flop_per_s={**device().flop_per_s, "fp32": value(24e12)}
    )
    found = split(train(64), slow)
    assert found["clock"] > 5 * abs(found["quality"]) > 0


def test_remedies_are_simulated_anew():
    words = parse("graphs,host=2x")
    before = predict(generate(), device()).seconds.value
    for outcome in outcomes(generate(), device(), words):
        assert outcome.prediction is not None
        assert outcome.prediction.seconds.value < 0.7 * before


@pytest.mark.parametrize(
    ("text", "said"),
    [("tf33", "unknown change"), ("batch", "needs a value"), ("tf32=1", "takes no value"),
     ("host", "needs a value")],
)  # fmt: skip
def test_a_change_that_means_nothing_is_one_sentence(text, said):
    with pytest.raises(UsageError, match=said):
        parse(text)


@pytest.mark.parametrize("text", ["0x", "-2x", "fast", "", "1e9x"])
def test_a_factor_is_a_number_above_zero(text):
    with pytest.raises(UsageError, match="no factor"):
        factor(text)


def test_every_remedy_says_what_it_does():
    assert all(r.what for r in REMEDIES.values())
