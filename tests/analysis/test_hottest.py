"""Products and attentions of jobs, from their traces, against what the models' sizes say."""

from collections import Counter
from statistics import median

import pytest

from pymicro.analysis.cases import case
from pymicro.analysis.hottest import (
    RIDGE_FLOP_PER_ELEMENT,
    Attention,
    attentions,
    hottest,
    products,
    weight,
)
from pymicro.analysis.work import Product
from pymicro.devices.catalogue import catalogue
from pymicro.devices.peaks import peak_ops_per_s
from pymicro.dtypes import DTYPES


def calls_of(of_case):
    found = Counter()
    for work, times in of_case.program.calls.items():
        if work.product:
            found[work.product] += times
    return found


def test_flops_of_a_training_step_are_six_a_weight_and_token():
    """Forward 2, gradients of inputs 2, of weights 2; layers of DistilBERT hold 42.5 M."""
    weights = 6 * (4 * 768 * 768 + 2 * 768 * 3072)
    calls = calls_of(case("distilbert", batch=32, length=128))
    flop = sum(n * 2 * p.m * p.n * p.k for p, n in calls.items())
    classifier = 3 * 2 * 32 * (768 * 768 + 768 * 2)
    assert flop == 6 * weights * 32 * 128 + classifier


@pytest.mark.parametrize("beams", [1, 4])
def test_a_written_token_reads_each_weight_of_the_decoder_once(beams):
    """24 layers of 6 square and 2 wide matrices, and the words; keys of the article are kept."""
    calls = calls_of(case("t5-large", batch=1, beams=beams, output=100))
    read = sum(n * p.n * p.k for p, n in calls.items() if p.m == beams and p.batch == 1)
    assert read == 100 * (24 * (6 * 1024**2 + 2 * 1024 * 4096) + 32128 * 1024)


def test_a_weights_gradient_reads_both_operands_along_rows():
    layouts = {p.layout for _, p, _ in products(case("distilbert"))}
    assert layouts == {"nt", "nn", "tn"}
    gradients = [p for _, p, _ in products(case("distilbert")) if p.layout == "tn" and p.k == 4096]
    assert {(p.m, p.n) for p in gradients} == {(768, 768), (3072, 768), (768, 3072)}


def test_the_dearest_come_first_and_each_job_weighs_the_same():
    jobs = [[case("t5-large", batch=1), case("t5-large", batch=1, beams=1)], [case("distilbert")]]
    ranked = hottest(jobs, 20, lambda p: p.batch == 1)
    assert len(ranked) == len(set(ranked)) == 20
    assert ranked[:5] == hottest(jobs, 5, lambda p: p.batch == 1)
    # Each of two variants has a quarter of the whole, of which square products take 0.3 to 0.4.
    assert {p.m for p in ranked[:2]} == {1, 4}
    assert hottest([[case("distilbert")]], 9) == ranked_alone("distilbert", 9)


def ranked_alone(model, most):
    calls = calls_of(case(model))
    return sorted(calls, key=lambda p: -calls[p] * weight(p))[:most]


def test_a_product_weighs_by_what_bounds_it():
    thin, fat = Product(1, 1, 4096, 4096, "nt"), Product(1, 4096, 4096, 4096, "nt")
    assert weight(thin) == 4096 * (1 + 4096 + 1)
    assert weight(fat) == 2 * 4096**3 / RIDGE_FLOP_PER_ELEMENT
    assert weight(Product(7, 1, 4096, 4096, "nt")) == 7 * weight(thin)


def test_the_ridge_is_that_of_the_catalogues_middle_card():
    of_16_bits = [
        2 * peak / spec.memory_bytes_per_s
        for spec in catalogue().values()
        if (peak := peak_ops_per_s(spec, DTYPES["fp16"])) and spec.memory_bytes_per_s
    ]
    assert median(of_16_bits) == pytest.approx(RIDGE_FLOP_PER_ELEMENT, rel=0.2)


def test_attentions_fused_and_not():
    eager, fused = (case("t5-large", attention=path) for path in ("eager", "sdpa"))
    written = Attention(32 * 4, 16, 1, 320, 64, True)
    assert attentions([eager])[0] == written
    assert set(attentions([fused])) == set(attentions([eager]))
    assert Attention(32, 16, 320, 320, 64, True) in attentions([eager])
    # A decode step at its longest: 200 tokens, of which the last attends to all.
    assert Attention(32 * 4, 16, 1, 200, 64, True) in attentions([eager])
    for path in ("eager", "sdpa"):
        of_training = attentions([case("distilbert", attention=path)])
        assert of_training == [Attention(32, 12, 128, 128, 64, False)]
