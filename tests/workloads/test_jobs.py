"""Jobs of a model: published settings, values that cannot be, and the sizes of a trace."""

import subprocess
import sys

import pytest

from pymicro.errors import Unavailable, UsageError
from pymicro.workloads import jobs, traces
from pymicro.workloads.models import ALIASES, MODELS, model
from pymicro.workloads.sizes import SYMBOLS
from pymicro.workloads.trace import pasts_of, running


def test_an_alias_is_the_published_model():
    assert {name: model(name).key for name in ALIASES} == ALIASES
    assert model("T5").key == "t5-large"


def test_an_unknown_model_gets_the_nearest():
    with pytest.raises(UsageError, match="did you mean distilbert"):
        model("distilbrt")


def test_published_settings_are_the_defaults_and_say_on_what_they_rest():
    row = model("distilbert")
    assert (jobs.job(row).batch, jobs.job(row).records, jobs.job(row).epochs) == (32, 7500, 5)
    assert jobs.job(row).batches == 235
    for published in jobs.PUBLISHED.values():
        assert {s.basis for s in published.values()} <= {"stated", "inferred", "assumed"}
        assert all(s.why for s in published.values())


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("t5", {"batch": 0}, "at least 1"),
        ("t5", {"output": 0}, "at least 1 token"),
        ("distilbert", {"length": 513}, "holds 512 positions, not 513"),
        ("gpt2", {"length": 1000, "output": 25}, r"holds 1024 positions, not 1000 \+ 25"),
        ("distilbert", {"beams": 4}, "mean nothing"),
        ("distilbert", {"precision": "fp8"}, "unknown precision"),
        ("distilbert", {"precision": "fp16"}, "train in amp_fp16"),
        ("t5", {"precision": "amp_bf16"}, "autocast is for training"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(name, given, said):
    with pytest.raises(UsageError, match=said):
        jobs.job(model(name), **given)


def test_positions_that_are_relative_have_no_limit():
    assert jobs.job(model("t5"), length=100_000).length == 100_000


def test_sizes_of_a_decode_step_follow_each_other():
    row = model("gpt2")
    wanted = jobs.job(row, batch=2, length=100, output=20, beams=3)
    first, later = jobs.sizes_of(row, wanted), jobs.sizes_of(row, wanted, past=105)
    assert (first["keys"], first["next"], first["limit"]) == (100, 101, 120)
    assert (later["past"], later["keys"], later["next"]) == (105, 106, 107)
    assert set(first) == set(SYMBOLS)
    encoder = model("t5")
    assert jobs.sizes_of(encoder, jobs.job(encoder, output=20))["limit"] == 21


@pytest.mark.parametrize("key", traces.keys())
def test_every_trace_that_ships_evaluates_at_a_jobs_sizes(key):
    path = traces.path_of(key)
    trace = traces.trace.load(path)
    assert trace.key == key
    row = MODELS[trace.model]
    more = {"beams": 4} if trace.search == "beam" else {}
    if trace.task == "generate":
        more["output"] = 5
    wanted = jobs.job(row, batch=2, length=64, **more)
    for phase in trace.phases:
        pasts = pasts_of(phase, jobs.sizes_of(row, wanted))
        values = jobs.sizes_of(row, wanted, pasts[-1] if pasts else None)
        assert len(pasts) == (4 if phase.is_decode else 0)
        assert sum(operator.bytes(values) for operator in running(phase, values)) > 0 or (
            phase.name == "input" and trace.device == "cpu"
        )


def test_past_begins_after_the_prompt_where_there_is_no_encoder():
    for name, start in (("gpt2", 64), ("t5-small", 1)):
        row = MODELS[name]
        trace = traces.find(name, "fp32", "sdpa", "cpu")
        wanted = jobs.job(row, batch=1, length=64, output=5, beams=1)
        decode = next(p for p in trace.phases if p.is_decode)
        assert pasts_of(decode, jobs.sizes_of(row, wanted)) == range(start, start + 4)


def test_a_trace_that_nobody_recorded_is_named_with_those_there_are(tmp_path):
    with pytest.raises(Unavailable, match="there is none of gpt2 for cuda"):
        traces.find("gpt2", "fp32", "sdpa", "cuda", folder=tmp_path)
    with pytest.raises(Unavailable, match=r"no trace of gpt2 in fp32 with flash.*gpt2-greedy-fp32"):
        traces.find("gpt2", "fp32", "flash", "cpu")


def test_tf32_has_the_operators_of_fp32():
    found = traces.find("distilbert", "tf32", "sdpa", "cpu")
    assert found == traces.find("distilbert", "fp32", "sdpa", "cpu")


def test_rows_load_no_torch():
    code = "import sys, pymicro.workloads.jobs, pymicro.workloads.traces\n"
    code += "print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
