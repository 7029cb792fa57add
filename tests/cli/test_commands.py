"""The command line from outside: words in, text and exit code out."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

RUN = [sys.executable, "-m", "pymicro"]
QUICK = ["gemm", "--size", "64", "--budget", "0.5", "--dtype", "fp32"]


@pytest.fixture
def pymicro(tmp_path):
    def call(*words, **env):
        return subprocess.run(
            [*RUN, *words],
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"XDG_DATA_HOME": str(tmp_path), "COLUMNS": "160"} | env,
        )

    return call


@pytest.mark.parametrize(
    "words",
    [
        ["gemm", "--m", "0"],
        ["gemm", "--m", "-5"],
        ["gemm", "--k", "1.5"],
        ["gemm", "--n", "1e60"],
        ["gemm", "--dtype", "fp17"],
        ["gemm", "--backend", "tritn"],
        ["gemm", "--device", "gpu0"],
        ["gemm", "--format", "yaml"],
        ["gemm", "--layout", "tt"],
        ["gemm", "--store", "/nonexistent/folder/file.jsonl"],
        ["gemm", "--store", "/"],
        ["gemm", "--tune", "--device", "cpu", "--size", "64"],
        ["bandwidth", "--tune"],
        ["gem"],
        ["devices", "RTX 4091"],
    ],
    ids=" ".join,
)
def test_wrong_words_are_one_sentence_and_exit_2(pymicro, words):
    done = pymicro(*words)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.strip()


def test_json_is_one_document_and_nothing_else(pymicro):
    done = pymicro(*QUICK, "--backend", "torch,native,cuda", "--format", "json")
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    outcomes = {r["backend"]: r["outcome"] for r in document["results"]}
    assert outcomes["cuda"] == "skipped"
    ok = [r for r in document["results"] if r["outcome"] == "ok"]
    assert ok
    for result in ok:
        summary = result["summary"]
        median = sorted(result["times_s"])[len(result["times_s"]) // 2]
        assert summary["flop_per_s"] == pytest.approx(result["flop"] / median, rel=0.5)
        assert summary["ci95_s"][0] <= summary["median_s"] <= summary["ci95_s"][1]


def test_csv_and_markdown(pymicro):
    rows = list(csv.DictReader(io.StringIO(pymicro(*QUICK, "--format", "csv").stdout)))
    assert {"native", "torch"} & {r["backend"] for r in rows if r["outcome"] == "ok"}
    text = pymicro(*QUICK, "--format", "markdown").stdout
    assert text.startswith("| backend |")


def test_results_are_kept_and_shown_again(pymicro):
    pymicro(*QUICK, "--backend", "native,torch")
    again = json.loads(pymicro("show", "--format", "json").stdout)
    assert {r["outcome"] for r in again["results"]} <= {"ok", "skipped"}
    assert len(again["results"]) == 2
    assert pymicro("show", "--benchmark", "latency").returncode == 3


def test_no_store_keeps_nothing(pymicro):
    pymicro(*QUICK, "--no-store")
    assert pymicro("show").returncode == 3


def test_nothing_measured_is_exit_3(pymicro):
    done = pymicro(*QUICK, "--backend", "cuda")
    assert done.returncode == 3
    assert "for GPUs only" in done.stdout


def test_no_names_of_host_user_or_folders_in_results(pymicro, tmp_path):
    import getpass
    import pathlib
    import socket

    text = pymicro(*QUICK, "--format", "json").stdout
    names = (socket.gethostname(), str(pathlib.Path.home()), os.getcwd(), str(tmp_path))
    for name in names:
        assert name not in text
    assert f'"{getpass.getuser()}"' not in text
    label = json.loads(pymicro(*QUICK, "--label", "bench-1", "--format", "json").stdout)
    assert label["results"][0]["environment"]["node"] == "bench-1"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_can_show_no_more(pymicro, encoding):
    env = {"LC_ALL": "C", "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "TERM": "dumb"}
    done = pymicro(*QUICK, COLUMNS="40", **env)
    assert done.returncode == 0, done.stderr
    assert "FLOP/s" in done.stdout


def test_interrupt_keeps_what_is_done(tmp_path):
    env = os.environ | {"XDG_DATA_HOME": str(tmp_path)}
    words = [*RUN, "gemm", "--size", "256", "--backend", "native,torch", "--budget", "60"]
    process = subprocess.Popen(
        [*words, "--dtype", "fp32,fp64", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    store = tmp_path / "pymicro" / "results.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (store.exists() and store.stat().st_size):
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130), err
    assert json.loads(out)["results"]
    assert "Traceback" not in err


LAUNCH = ("launch", "--device", "cpu", "--no-store", "--budget", "0.5")


def test_launch_shows_rows_and_findings(pymicro):
    done = pymicro(*LAUNCH, "--call", "args0,args3")
    assert done.returncode == 0, done.stderr
    assert "args3" in done.stdout
    assert "a tenth of its time to the call" in done.stdout


def test_a_call_that_nothing_here_makes_is_one_sentence(pymicro):
    done = pymicro(*LAUNCH, "--call", "record", "--backend", "torch,numba")
    assert done.returncode == 3
    assert "none of these backends" in done.stderr
    assert pymicro(*LAUNCH, "--side", "device").returncode == 2


def test_transfer_without_a_gpu_is_skipped_and_says_so(pymicro):
    done = pymicro("transfer", "--device", "cpu", "--no-store", "--size", "4KiB")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "for GPUs only" in done.stdout
    assert pymicro("transfer", "--device", "cpu", "--path", "h2d").returncode == 2
