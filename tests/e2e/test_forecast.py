"""How long a job will take on a CPU is said before it begins, from the rate of its products."""

import pytest
from click.testing import CliRunner

from pymicro.cli import cli
from pymicro.e2e import forecast
from pymicro.workloads.jobs import job
from pymicro.workloads.models import model


def told(name, rates, **given):
    row = model(name)
    return forecast.forecast(row, job(row, **given), lambda precision, trained: rates[precision])


def test_seconds_follow_the_rate_and_the_number_of_batches():
    slow = told("distilbert", {"fp32": 1e9})
    fast = told("distilbert", {"fp32": 4e9})
    one = told("distilbert", {"fp32": 1e9}, epochs=1)
    assert slow.whole_s == pytest.approx(4 * fast.whole_s)
    assert 4 < slow.whole_s / one.whole_s < 5.1
    assert slow.quick_s < slow.whole_s / 10
    assert slow.quick_s == one.quick_s


def test_generating_is_told_by_the_token():
    long, short = (told("t5", {"fp32": 1e11}, output=n) for n in (200, 50))
    assert long.whole_s > 2 * short.whole_s


def test_a_format_without_a_fast_path_names_the_one_that_has_it():
    text = told("distilbert", {"amp_fp16": 2.5e9, "fp32": 100e9}, precision="amp_fp16").sentence(
        quick=False
    )
    assert "amp_fp16" in text
    assert "2.5 GFLOP/s (in fp32 at 100 GFLOP/s)" in text
    assert "--quick takes" in text
    assert "in fp32" not in told("t5", {"fp16": 90e9, "fp32": 100e9}, precision="fp16").sentence(
        quick=False
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp_bf16"])
@pytest.mark.parametrize("trained", [False, True])
def test_the_rate_is_measured_in_every_precision(precision, trained, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(forecast, "_ROWS", 4)
    monkeypatch.setattr(forecast, "_TRYING_S", 0.0)
    assert forecast.flop_per_s(precision, trained) > 0


def test_a_job_of_hours_says_so_before_it_begins(monkeypatch):
    pytest.importorskip("transformers")
    from pymicro.e2e import runner

    begun = []
    monkeypatch.setattr(forecast, "flop_per_s", lambda precision, trained: 2.5e9)
    monkeypatch.setattr(runner, "refuse", lambda *wanted: None)
    monkeypatch.setattr(runner, "run", lambda *wanted: begun.append(1) or 1 / 0)
    words = ["e2e", "distilbert", "--precision", "amp_fp16", "--device", "cpu", "--no-store"]
    done = CliRunner().invoke(cli, words)
    assert begun
    assert "distilbert in amp_fp16 will take about" in done.output
    assert "h on this CPU" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--text", "/nowhere/text"], "--text /nowhere/text"),
        (["--label", "a/b"], "label 'a/b'"),
        (["--graphs"], "CUDA graphs"),
        (["--weights", "nowhere"], "--weights nowhere"),
        (["--tf32"], "a CPU has fp32"),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_built(words, said, monkeypatch):
    from pymicro.e2e import runner

    monkeypatch.setattr(runner, "run", lambda *wanted: 1 / 0)
    done = CliRunner().invoke(cli, ["e2e", "t5-small", *words, "--device", "cpu", "--no-store"])
    assert done.exception.exit_code in (2, 3)
    assert said in str(done.exception)
