"""A recording is of the job's real operators, and says when a job has none that always hold."""

from dataclasses import replace

import pytest

from pymicro.workloads import traces
from pymicro.workloads.models import MODELS
from pymicro.workloads.trace import UNLESS


@pytest.fixture(scope="module")
def recordings():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from pymicro.e2e import recordings

    return recordings


@pytest.mark.parametrize(
    ("name", "precision", "attention", "beams"),
    [
        ("distilbert", "fp32", "sdpa", 1),
        ("distilbert", "amp_bf16", "eager", 1),
        ("t5-small", "fp32", "eager", 1),
        ("t5-small", "fp32", "sdpa", 4),
        ("gpt2", "fp32", "sdpa", 1),
    ],
)
def test_recorded_afresh_it_is_what_ships(recordings, name, precision, attention, beams):
    shipped = traces.find(name, precision, attention, "cpu", beams)
    if dict(shipped.software) != recordings.software():
        pytest.skip(f"shipped of {shipped.software}, here is {recordings.software()}")
    fresh = recordings.record(MODELS[name], precision, attention, "cpu", beams)
    assert fresh.key == shipped.key
    assert fresh.phases == shipped.phases  # Whatever sizes either was recorded at.


@pytest.mark.parametrize(
    ("name", "attention", "beams"),
    [("distilbert", "sdpa", 1), ("t5-small", "sdpa", 1), ("t5-small", "eager", 3)],
)
def test_fake_tensors_dispatch_what_real_ones_do(recordings, name, attention, beams):
    row = MODELS[name]
    fake, real = (
        recordings.record(row, "fp32", attention, "cpu", beams, tiny=True, fake=is_fake)
        for is_fake in (True, False)
    )
    assert fake == real


def test_a_narrow_model_dispatches_what_the_true_one_does(recordings):
    """The host probe rests on it: the same calls, on tensors of a few KB."""
    for name in ("distilbert", "t5-small"):
        shipped = traces.find(name, "fp32", "sdpa", "cpu")
        if dict(shipped.software) != recordings.software():
            pytest.skip(f"shipped of {shipped.software}, here is {recordings.software()}")
        narrow = recordings.record(MODELS[name], "fp32", "sdpa", "cpu", tiny=True)
        for one, other in zip(narrow.phases, shipped.phases, strict=True):
            assert [o.name for o in one.operators] == [o.name for o in other.operators]


def test_operators_that_a_batch_of_one_lacks_are_marked(recordings):
    trace = recordings.record(MODELS["t5-small"], "fp32", "eager", "cpu", tiny=True)
    encode = trace.phases[0].operators
    marked = [o for o in encode if UNLESS in o.details]
    assert {o.name for o in marked} == {"aten::clone"}
    assert len(marked) == 3 * MODELS["t5-small"].config.get("num_layers", 6)


def test_another_path_at_another_size_is_refused(recordings):
    trace = recordings.record(MODELS["distilbert"], "fp32", "sdpa", "cpu", tiny=True)
    operators = trace.phases[1].operators
    other = (*operators[:3], replace(operators[3], name="aten::else"), *operators[4:])
    with pytest.raises(recordings.RecordingError, match=r"forward, operator 3: .*aten::else"):
        recordings._refuse_difference("forward", operators, other)
    with pytest.raises(recordings.RecordingError, match="a batch of one takes another path"):
        recordings._marked("forward", operators, other)
    with pytest.raises(recordings.RecordingError, match="nothing"):
        recordings._refuse_difference("forward", operators, operators[:-1])


def test_a_number_that_the_job_computes_and_reads_is_refused(recordings):
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from pymicro.e2e.recorder import Recorder

    recorder = Recorder("cpu", {})
    with (
        FakeTensorMode(),
        recorder,
        pytest.raises(recordings.RecordingError, match=r"a number that aten::sum made"),
    ):
        torch.ones(3).sum().item()


def test_operators_have_products_in_place_of_numbers(recordings):
    trace = traces.find("distilbert", "fp32", "sdpa", "cpu")
    forward = next(p for p in trace.phases if p.name == "forward").operators
    product = next(o for o in forward if o.name == "aten::addmm")
    assert product.reads[1].shape == ("batch*length", "768")
    assert product.transposed == "b"
    assert product.module == "distilbert.transformer.layer.*.attention.q_lin"
    rows = next(o for o in forward if o.name == "aten::embedding").reads[0]
    assert rows.shape == ("batch", "length", "768")  # What is looked up, not the table.
    optimiser = next(p for p in trace.phases if p.name == "optimiser").operators
    update = [o for o in optimiser if o.name == "aten::_fused_adamw_"]
    assert sum(o.tensors for o in update) == 104
    assert sum(o.synchronises for o in optimiser) == 2
