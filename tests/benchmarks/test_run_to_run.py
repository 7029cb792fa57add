"""The study of processes beside each other: results in, rows out, and a command from end to end."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import run_to_run as study
from fakes import gemm_result as result

from pymicro.results import Store


def launch(run_id, seconds, side="host", looks=()):
    return replace(
        result(),
        benchmark="launch",
        backend="cuda",
        variant="cpp",
        params={"call": "args3", "side": side, "calls": 100},
        steps=100,
        flop=0,
        bytes=0,
        times_s=tuple(100 * s for s in seconds),
        burst_s=(),
        run_id=run_id,
        details={"look_medians_s": list(looks)},
    )


def transfer(run_id, seconds, **params):
    known = {"size": 2**26, "path": "h2d", "host": "pinned"}
    return replace(
        launch(run_id, [seconds]),
        benchmark="transfer",
        variant="engine",
        params=known | params,
        steps=0,
        bytes=2**26,
        times_s=(seconds,) * 5,
    )


def test_processes_beside_each_other():
    quiet = [launch("a", [3e-6] * 5), launch("b", [3.1e-6] * 5), launch("c", [2.9e-6] * 5)]
    (row,) = study.rows(quiet, "pymicro launch")
    assert row.seconds == pytest.approx((3e-6, 3.1e-6, 2.9e-6))
    assert row.apart == pytest.approx(0.2 / 3)
    assert (row.case, row.verdict) == ("cuda cpp args3 host", "apart")


@pytest.mark.parametrize(("side", "verdict"), [("host", "noisy host"), ("device", "apart")])
def test_only_what_the_host_times_can_be_noisy(side, verdict):
    """One of two processes saw its host change pace between looks, and says so."""
    found = [launch("a", [3e-6] * 5, side, [2e-4, 4e-4]), launch("b", [4e-6] * 5, side)]
    (row,) = study.rows(found, "")
    assert row.verdict == verdict
    within = [launch("a", [3e-6] * 5, side, [2e-4, 4e-4]), launch("b", [3.1e-6] * 5, side)]
    assert study.rows(within, "")[0].verdict == ""


def test_copies_of_pinned_memory_are_held_to_less():
    near = [transfer("a", 1.000), transfer("b", 1.004)]
    far = [transfer("a", 1.000, path="d2h"), transfer("b", 1.006, path="d2h")]
    other = [transfer(run, t, host="pageable") for run, t in (("a", 1.0), ("b", 2.0))]
    verdicts = [row.verdict for row in study.rows([*near, *far, *other], "")]
    assert verdicts == ["", "apart", "not judged"]


@pytest.mark.parametrize(("name", "apart", "verdict"), [
    ("bandwidth", 1.004, ""), ("bandwidth", 1.006, "apart"),
    ("latency", 1.009, ""), ("latency", 1.011, "apart"),
])  # fmt: skip
def test_memory_is_held_to_half_a_percent_and_its_latencies_to_one(name, apart, verdict):
    pair = [replace(transfer(run, t), benchmark=name) for run, t in (("a", 1.0), ("b", apart))]
    assert [row.verdict for row in study.rows(pair, "")] == [verdict]


def test_a_case_that_a_process_lacks_is_left_out_and_one_process_is_none():
    assert study.rows([launch("a", [3e-6])], "") == []
    assert study.rows([launch("a", [3e-6]), transfer("b", 1.0)], "") == []


def test_what_was_kept_is_judged_again(tmp_path, capsys):
    store = Store(tmp_path / "runs.jsonl")
    for one in (launch("a", [3e-6] * 5), launch("b", [4e-6] * 5), launch("b", [3.05e-6] * 5)):
        store.append(one)
    words = ["launch", "--stored", str(tmp_path / "runs.jsonl"), "--out", str(tmp_path)]
    assert study.main(words) == 0  # The later record of a run replaces the earlier.
    (kept,) = tmp_path.glob("*/run_to_run.jsonl")
    assert json.loads(kept.read_text())["command"] == "pymicro launch"
    capsys.readouterr()
    assert study.main(["--read", str(kept)]) == 0
    assert "1.65 %" in capsys.readouterr().out


def test_processes_of_the_command_itself(tmp_path, capsys):
    words = ["--call", "args0", "--backend", "native", "--device", "cpu", "--budget", "0.3"]
    code = study.main(["launch", "--runs", "2", "--out", str(tmp_path), "--", *words])
    assert code in (0, 1)  # How far they lie apart is this machine's affair.
    (kept,) = tmp_path.glob("*/run_to_run.jsonl")
    found = study.read(kept)
    assert {row.case for row in found} >= {"native python args0"}
    assert all(len(row.seconds) == 2 for row in found)


def test_a_command_that_fails_is_said(tmp_path, capsys):
    assert study.main(["launch", "--out", str(tmp_path), "--", "--call", "nothing"]) == 3
    assert "nothing" in capsys.readouterr().err
    assert study.main(["launch", "--stored", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
