"""The jobs' products from their configurations, against what the models' sizes say."""

from pymicro.workloads.products import attentions, distilbert, hottest, t5_large


def test_flops_of_a_training_step_are_six_a_weight_and_token():
    """Forward 2, gradients of inputs 2, of weights 2; the layers of DistilBERT hold 42.5 million."""
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
