"""What cannot be measured, drawn or shown is said in a sentence, before anything is measured."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes import gemm_result

from pymicro.cli import cli
from pymicro.errors import UsageError
from pymicro.results import Result, Store

REFERENCE = Path(__file__).parents[2] / "benchmarks/reference/h200_sxm_141gb"
CPU = ["--device", "cpu", "--backend", "native", "--no-store", "--budget", "0.5"]


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch):
    from pymicro import run

    monkeypatch.setattr(run, "run", lambda *wanted: 1 / 0)


def refused(*words):
    done = CliRunner().invoke(cli, [*map(str, words)])
    assert done.exception is not None, done.output
    return done.exception.exit_code, str(done.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["latency", "--size", "64"], "fewer than two places"),
        (["latency", "--size", "64KiB,64"], "fewer than two places"),
        (["latency", "--size", "64KiB", "--stride", "12"], "8 bytes"),
        (["bandwidth", "--size", "3"], "no element"),
        (["bandwidth", "--size", "1MiB", "--stride", "7"], "--access"),
        (["bandwidth", "--size", "1MiB", "--plot", "-"], "curve"),
        (["latency", "--size", "64KiB", "--plot", "x.html"], "curve"),
    ],
)
def test_sizes_at_which_there_is_nothing_to_measure_are_wrong_words(words, said):
    code, text = refused(*words, *CPU)
    assert code == 2
    assert said in text


def test_show_of_a_benchmark_that_is_not_there_names_those_that_are():
    code, text = refused("show", REFERENCE / "bandwidth.jsonl", "--benchmark", "latency")
    assert code == 3
    assert "bandwidth" in text
    assert "no results there yet" not in text


@pytest.mark.parametrize("command", ["predict", "explain", "recommend"])
def test_a_store_without_results_is_refused_not_passed_over(command, tmp_path):
    store = tmp_path / "garbage.jsonl"
    store.write_text("garbage\n")
    words = ["--card", "4090"] if command == "recommend" else ["--device", "4090"]
    code, text = refused(command, "distilbert", *words, "--store", store)
    assert code == 2
    assert "holds no results" in text
    assert "not JSON" in text


def test_damage_of_a_store_is_told_once_and_the_rest_is_used(tmp_path):
    store = tmp_path / "s.jsonl"
    own = {"kind": "cuda", "name": "NVIDIA GeForce RTX 4090", "key": "rtx_4090"}
    shape = {"m": 64, "n": 64, "k": 64, "layout": "nt"}
    Store(store).append(
        Result("gemm", "torch", "matmul", "fp32", params=shape, device=own, times_s=(1.0,) * 5)
    )
    store.write_text(store.read_text() + "garbage\n")
    words = ["recommend", "distilbert", "--card", "4090", "--card", "H100", "--store", str(store)]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.output.count("cannot be read") == 1


def test_a_store_of_another_device_is_said_to_hold_nothing_of_this_one():
    store = REFERENCE / "bandwidth.jsonl"
    words = ["predict", "distilbert", "--device", "4090", "--store", str(store)]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert "holds nothing of this device" in " ".join(done.output.split())
    done = CliRunner().invoke(cli, [*words[:3], "H200", *words[4:]], catch_exceptions=False)
    assert "holds nothing" not in done.output


def test_the_document_of_a_prediction_is_versioned():
    words = ["predict", "distilbert", "--device", "4090", "--format", "json"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert json.loads(done.output)["schema"] == 1


def test_words_of_a_wrong_store_name_the_file(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere\.jsonl"):
        cli.main(["show", str(tmp_path / "nowhere.jsonl")], standalone_mode=False)


@pytest.mark.parametrize(("content", "code"), [("", 3), ("garbage\n", 1)])
def test_show_of_no_results_is_a_document_where_one_was_asked_for(tmp_path, content, code):
    store = tmp_path / "s.jsonl"
    store.write_text(content)
    done = CliRunner().invoke(cli, ["show", str(store), "--format", "json"], standalone_mode=False)
    assert json.loads(done.stdout)["results"] == []
    assert done.return_value == code
    done = CliRunner().invoke(cli, ["show", str(store)], standalone_mode=False)
    assert done.return_value == code
    assert done.stdout == ""
    assert done.stderr


def test_findings_in_a_line_are_sentences():
    from pymicro.report.findings import line
    from pymicro.results import Finding

    assert line(Finding("x", "warning", "It ends.", "a run was cut off", "run again")) == (
        "warning: It ends. A run was cut off; run again"
    )


def test_a_store_to_keep_nothing_in_is_a_contradiction():
    code, text = refused("gemm", "--store", "x.jsonl", "--no-store")
    assert code == 2
    assert "contradict" in text


def test_a_card_from_elsewhere_without_a_stack_says_what_is_missing():
    done = CliRunner().invoke(cli, ["readiness", "--device", "4090", "--no-store"])
    assert "--stack" in done.stderr


def test_show_of_every_run_is_a_table_a_run(tmp_path):
    store = tmp_path / "runs.jsonl"
    for run_id in ("aaaa11112222", "bbbb33334444"):
        Store(store).append(gemm_result(run_id=run_id))
    done = CliRunner().invoke(cli, ["show", str(store), "--all"])
    assert done.exit_code == 0
    first, second = (done.stdout.index(f"run {r}") for r in ("aaaa11112222", "bbbb33334444"))
    assert done.stdout.count("4096³") == 2
    assert first < done.stdout.index("4096³") < second


def test_suite_without_a_job_says_how_to_name_one():
    code, text = refused("suite", "--list")
    assert code == 2
    assert "--for" in text
