"""`--format json` of every command: one document on stdout, its schema in it, nothing else."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pymicro.cli import cli

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "benchmarks/reference/h200_sxm_141gb"
COMMANDS = (
    ["show", str(REFERENCE / "bandwidth.jsonl")],
    ["compare", "H100", "4090", "--metric", "power"],
    ["roofline", "H100"],
    ["predict", "distilbert", "--device", "4090"],
    ["explain", "distilbert", "--device", "4090"],
    ["explain", "--case", "h100"],
    ["recommend", "distilbert", "--card", "4090"],
    ["readiness", "--device", "5090", "--stack", "torch=2.7,cuda=12.8"],
    ["gemm", "--size", "64", "--device", "cpu", "--backend", "native", "--budget", "0.3"],
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_stdout_is_one_document_of_this_schema(words, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    more = ["--store", str(tmp_path / "s.jsonl"), "--dtype", "fp32"] if words[0] == "gemm" else []
    done = CliRunner().invoke(cli, [*words, *more, "--format", "json"])
    assert done.exception is None or done.exception.code == 0, done.exception
    assert json.loads(done.stdout)["schema"] == 1


def test_the_table_in_the_readme_is_what_the_command_beside_it_prints(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "108")
    readme = Path("README.md").read_text(encoding="utf-8")
    sample = readme.split("<!-- sample -->\n```text\n")[1].split("\n```")[0]
    done = CliRunner().invoke(
        cli, ["show", "benchmarks/reference/h200_sxm_141gb/gemm_fp16.jsonl"], standalone_mode=False
    )
    printed = "\n".join(line.rstrip() for line in done.output.splitlines())
    assert sample in printed
