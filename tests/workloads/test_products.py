"""The jobs' products from their configurations, against what the models' sizes say."""

from collections import Counter

import pytest

from pymicro.workloads import traces
from pymicro.workloads.products import attentions, distilbert, hottest, t5_large
from pymicro.workloads.sizes import evaluate
from pymicro.workloads.trace import runs_of


def test_flops_of_a_training_step_are_six_a_weight_and_token():
    """Forward 2, gradients of inputs 2, of weights 2; layers of DistilBERT hold 42.5 M."""
    weights = 6 * (4 * 768 * 768 + 2 * 768 * 3072)
    flop = sum(p.calls * 2 * p.m * p.n * p.k for p in distilbert(32, 128))
    assert flop == 6 * weights * 32 * 128


def test_a_written_token_reads_each_weight_of_the_decoder_once():
    """24 layers of 6 square and 2 wide matrices, and the words; keys of the article are kept."""
    per_token = [p for p in t5_large(1) if p.m == 1]
    read = sum(p.calls * p.n * p.k for p in per_token) / 100
    assert read == 24 * (6 * 1024**2 + 2 * 1024 * 4096) + 32128 * 1024


def test_the_dearest_come_first_and_none_twice():
    products = hottest(20)
    keys = [(p.m, p.n, p.k, p.layout) for p in products]
    assert len(products) == len(set(keys)) == 20
    assert products[0].m in (1, 8)  # Writing is most of T5; training is spread over nine products.
    assert {p.layout for p in products} == {"nt", "nn"}
    assert hottest(5) == products[:5]


def test_attentions_of_both_jobs():
    shapes = attentions()
    assert any(a.has_bias for a in shapes)
    assert any(a.queries == 1 for a in shapes)
    assert shapes[0].flop == 4 * 32 * 12 * 128 * 128 * 64


def from_trace(model, values):
    """Products of two matrices that a recorded job asks for: (m, n, k) -> calls a batch."""
    recorded = traces.find(model, "fp32", "sdpa", "cpu")
    asked: Counter[tuple[int, int, int]] = Counter()
    for phase in recorded.phases:
        runs = runs_of(phase, values)
        for op in phase.operators:
            if op.name.split("::")[1].split(".")[0] in ("mm", "addmm"):
                left, right = ([evaluate(d, values) for d in t.shape] for t in op.reads[-2:])
                asked[left[0], right[1], left[1]] += runs * op.calls
    return asked


@pytest.mark.parametrize("batch", [1, 8])
def test_what_a_recorded_summary_asks_for(batch):
    values = {"batch": batch, "length": 512, "output": 101, "past": 50, "keys": 51, "next": 52}
    ours = Counter()
    for p in t5_large(batch):
        ours[p.m, p.n, p.k] += p.calls
    recorded = from_trace("t5-large", values)
    for shape, calls in ours.items():
        # The first token is a phase of its own; ours has 100 tokens, all alike.
        assert recorded[shape] == pytest.approx(calls, rel=0.02), shape
    assert set(recorded) == set(ours)


def test_what_a_recorded_step_of_training_asks_for():
    ours = Counter()
    for p in distilbert():
        ours[p.m, p.n, p.k] += p.calls
    recorded = from_trace("distilbert", {"batch": 32, "length": 128})
    assert {shape: recorded[shape] for shape in ours} == ours
    rest = sum(calls for shape, calls in recorded.items() if shape not in ours)
    assert rest <= 7  # The classifier's: a few rows a step.
