"""Stored runs of whole jobs are compared like any others."""

from pathlib import Path

from click.testing import CliRunner

from pymicro.cli import cli

RUNS = Path(__file__).parents[2] / "benchmarks" / "reference" / "cpu_zen5_2cores" / "e2e.jsonl"


def test_two_files_of_jobs_are_joined_job_by_job(tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(RUNS.read_text(encoding="utf-8"), encoding="utf-8")
    done = CliRunner().invoke(cli, ["compare", str(RUNS), str(other), "--format", "csv"])
    assert done.exit_code == 0
    jobs = [line for line in done.output.splitlines() if "batch=" in line]
    # A line for each of the two files.
    assert len(jobs) == 2 * len(RUNS.read_text(encoding="utf-8").splitlines())
    assert all("model=distilbert" in line for line in jobs)


def test_jobs_are_a_metric_of_their_own():
    done = CliRunner().invoke(cli, ["compare", str(RUNS), str(RUNS), "--metric", "gemm"])
    assert done.exit_code != 0
