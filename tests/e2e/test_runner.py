"""Real jobs on the CPU with narrow models: every phase is timed, and what cannot run says so."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pymicro.cli import cli
from pymicro.errors import Unavailable, UsageError
from pymicro.workloads import traces
from pymicro.workloads.jobs import job
from pymicro.workloads.models import MODELS


def narrow(name: str):
    """A row whose true configuration is the narrow one."""
    row = MODELS[name]
    return replace(row, config={**row.config, **row.tiny})


@pytest.mark.parametrize(
    ("name", "given", "phases"),
    [
        (
            "distilbert",
            {"batch": 2, "length": 16, "records": 6, "epochs": 2},
            ["loader", "input", "forward", "backward", "optimiser"],
        ),
        (
            "t5-small",
            {"batch": 2, "length": 16, "output": 5, "beams": 3, "records": 4},
            ["loader", "input", "encode", "first", "decode"],
        ),
        (
            "gpt2",
            {"batch": 2, "length": 16, "output": 5, "records": 2},
            ["loader", "input", "encode", "first", "decode"],
        ),
    ],
)
def test_a_job_is_timed_phase_by_phase(name, given, phases):
    from pymicro.e2e import runner

    row = narrow(name)
    wanted = job(row, **given)
    made = runner.run(row, wanted, runner.Choices(), began_s=0.0)
    assert made.outcome == "ok"
    assert sorted(made.details["phases_s"]) == sorted(phases)
    assert set(made.details["host_probe_s"]["before"]) == set(phases)
    batches = wanted.batches * wanted.epochs
    steps = batches if row.task == "train" else batches * (wanted.output - 1)
    assert len(made.times_s) == steps
    assert len(made.details["runs_s"]) == batches
    assert not made.details["extrapolated"]
    assert made.dtype == "fp32"
    assert made.details["attention_ran"] == wanted.attention


def test_a_quick_run_is_a_part_and_says_so():
    from pymicro.e2e import runner

    row = narrow("distilbert")
    wanted = job(row, batch=2, length=8, records=100, epochs=1)
    made = runner.run(row, wanted, runner.Choices(quick=True), began_s=0.0)
    assert made.details["extrapolated"]
    assert made.details["batches"] == 50
    assert len(made.times_s) == 10
    assert any("extrapolated" in note for note in made.notes)


def test_beyond_memory_is_said_before_starting_with_what_fits():
    from pymicro.analysis.cases import of_job
    from pymicro.analysis.memory_need import need
    from pymicro.e2e import memory

    row = MODELS["distilbert"]

    def case(batch):
        return of_job(row, job(row, batch=batch), "cpu")

    free = round(need(case(48)).total) + 1
    memory.refuse_too_large(case(48), free)
    with pytest.raises(Unavailable, match=r"batch 64 needs about .*; a batch of 48 fits"):
        memory.refuse_too_large(case(64), free)
    with pytest.raises(Unavailable, match="no batch fits"):
        memory.refuse_too_large(case(64), 1000)


def test_how_long_it_will_take_is_said_before():
    from pymicro.e2e import runner

    said = []
    row = narrow("t5-small")
    wanted = job(row, batch=1, length=8, output=4, beams=1, records=1)
    runner.run(row, wanted, runner.Choices(expect=said.append), began_s=0.0)
    assert len(said) == 1
    assert said[0] > 0


def test_running_out_of_memory_later_is_a_sentence_too(monkeypatch):
    import torch

    from pymicro.e2e import build, runner

    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(build, "build", full)
    row = narrow("distilbert")
    with pytest.raises(Unavailable, match="batch 2 and length 8 ran out of memory"):
        runner.run(row, job(row, batch=2, length=8), runner.Choices(), began_s=0.0)


def test_weights_that_are_nowhere_are_refused(tmp_path, monkeypatch):
    from pymicro.e2e import build

    with pytest.raises(UsageError, match=r"no model in .*; without a network"):
        build.load(MODELS["gpt2"], str(tmp_path), "fp32", "sdpa", "cpu")


def test_without_a_network_the_hub_is_asked_for_what_is_cached_alone(monkeypatch):
    import socket

    import transformers

    from pymicro.e2e import build

    asked = []

    def from_pretrained(where, **more):
        asked.append((where, more["local_files_only"]))
        raise OSError("not cached")

    def unreachable(address, timeout):
        raise OSError("no such name")

    monkeypatch.setattr(transformers.GPT2LMHeadModel, "from_pretrained", from_pretrained)
    monkeypatch.setattr(socket, "create_connection", unreachable)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="cannot be had from the hub; without a network"):
        build.load(MODELS["gpt2"], "hub", "fp32", "sdpa", "cpu")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    with pytest.raises(UsageError):
        build.load(MODELS["gpt2"], "hub", "fp32", "sdpa", "cpu")
    assert [only for _, only in asked] == [True, False]


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["nothing"], "unknown model 'nothing'", 2),
        (["distilbert", "--batch", "0"], "at least 1 makes a job", 2),
        (["distilbert", "--length", "600"], "512 positions, not 600", 2),
        (["t5", "--batch", "100000"], "are free; a batch of", 3),
        (["gpt2", "--attn", "flash", "--batch", "1"], "flash attention of gpt2", 3),
        (["distilbert", "--tf32", "--precision", "bf16"], "contradict", 2),
        (["gpt2", "--text", "/nowhere/text", "--batch", "1"], "--text /nowhere/text", 2),
        (["missing.json"], "no configuration of transformers", 2),
        (["gpt2", "--trace-only", "--to", "/nowhere"], "no such folder", 2),
    ],
)
def test_refused_in_a_sentence(words, said, code):
    done = CliRunner().invoke(cli, ["e2e", *words, "--device", "cpu", "--no-store"])
    assert done.exception.exit_code == code
    assert said in str(done.exception)


def test_a_trace_of_any_configuration_file(tmp_path):
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "hidden_size": 32,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 64,
        "max_position_embeddings": 512,
    }
    path = tmp_path / "small.json"
    path.write_text(json.dumps(config))
    words = ["e2e", str(path), "--trace-only", "--device", "cpu", "--to", str(tmp_path)]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert "in forward" in done.output
    made = traces.find("small", "fp32", "sdpa", "cpu", folder=tmp_path)
    assert [p.name for p in made.phases] == ["input", "forward", "backward", "optimiser"]


def test_the_table_and_the_document_of_a_job(tmp_path):
    words = ["distilbert", "--batch", "1", "--length", "8", "--records", "2", "--epochs", "1"]
    store = tmp_path / "results.jsonl"
    more = ["--device", "cpu", "--store", str(store)]
    done = CliRunner().invoke(cli, ["e2e", *words, *more], catch_exceptions=False)
    for word in ("a step", "forward", "optimiser", "random weights", "epochs 1"):
        assert word in done.output
    record = json.loads(store.read_text())
    assert record["benchmark"] == "e2e"
    assert record["params"]["batch"] == 1
    assert record["details"]["parameters"] == 66_955_010
    shown = CliRunner().invoke(cli, ["show", str(store)], catch_exceptions=False)
    assert "distilbert batch 1 length 8" in shown.output


def test_a_probe_keeps_the_device_busy_for_as_long_as_the_job_will(monkeypatch):
    import torch

    from pymicro.e2e import probe

    row = narrow("distilbert")
    ready = probe.HostProbe(row, job(row, batch=2, length=8), "cpu")
    assert ready.products_s == {}
    events = []
    monkeypatch.setattr(ready, "_device", "cuda")
    monkeypatch.setattr(ready, "_cycle_rate", 2e9)
    monkeypatch.setattr(torch.cuda, "_sleep", events.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *device: events.append("waited"))
    found = ready.seconds(busy_s=0.01)
    assert set(found) == {"loader", "input", "forward", "backward", "optimiser"}
    assert events == [20_000_000, "waited"] * 8
    events.clear()
    ready.seconds()
    assert events == []


def test_how_fast_the_sleeping_kernel_counts_is_measured(monkeypatch):
    import torch

    from pymicro.e2e import probe

    row = narrow("distilbert")
    ready = probe.HostProbe(row, job(row, batch=2, length=8), "cpu")
    times = iter([1.0, 1.01])
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
    monkeypatch.setattr(probe.time, "perf_counter", lambda: next(times))
    assert ready._cycles_per_s() == pytest.approx(2e9)
    assert ready._cycles_per_s() == pytest.approx(2e9)  # Once is enough.


def test_products_at_true_shapes_cost_the_host_what_tiny_ones_do_not(monkeypatch):
    from pymicro.e2e import products

    row = MODELS["distilbert"]
    trace = traces.find("distilbert", "fp32", "sdpa", "cpu")
    wanted = job(row, batch=2, length=64)

    def issue_s(product, device):
        return 3e-6 if all(max(shape) <= 16 for shape, *_ in product[1]) else 5e-6

    monkeypatch.setattr(products, "_issue_s", issue_s)
    found = products.excess_s(row, wanted, trace, "cpu")
    names = {p.name: [o.name for o in p.operators] for p in trace.phases}
    for phase, operators in names.items():
        count = sum(name in products._PRODUCTS for name in operators)
        assert found[phase] == pytest.approx(2e-6 * count)
    assert found["forward"] > 0 == found["optimiser"]


def test_a_product_is_issued_with_the_operands_of_its_trace():
    from pymicro.e2e import products

    product = ("addmm", (((8,), "float32", False), ((4, 6), "float32", False),
                         ((6, 8), "float32", True)))  # fmt: skip
    tensor = products._tensor(*product[1][2], "cpu")
    assert tensor.shape == (6, 8)
    assert tensor.stride() == (1, 6)
    assert products._issue_s(product, "cpu") > 0
    assert products._shrunk(("mm", (((40, 8), "float16", False),)))[1][0][0] == (16, 8)
