"""A machine that others keep busy is said to be, beside the figures of its CPU."""

import json

import pytest
from click.testing import CliRunner

from pymicro.cli import cli
from pymicro.environment import pressure

TOLD = "some avg10={} avg60=46.44 avg300=83.15 total=8943952894\nfull avg10=0.00 avg60=0.00\n"
QUICK = ["gemm", "--size", "64", "--budget", "0.3", "--dtype", "fp32", "--backend", "native"]


def machine(folder, text):
    (folder / "proc/pressure").mkdir(parents=True)
    (folder / "proc/pressure/cpu").write_text(text)
    return folder


def test_the_share_of_ten_seconds_is_read(tmp_path):
    assert pressure.cpu_pressure(machine(tmp_path, TOLD.format("7.11"))) == pytest.approx(0.0711)


@pytest.mark.parametrize("text", ["", "some\n", "some avg10=much\n"])
def test_what_cannot_be_read_is_no_pressure(tmp_path, text):
    assert pressure.cpu_pressure(machine(tmp_path, text)) is None
    assert pressure.cpu_pressure(tmp_path / "nowhere") is None


@pytest.mark.parametrize(("share", "is_said"), [(None, False), (0.05, False), (0.46, True)])
def test_a_busy_machine_is_noted_in_every_result(share, is_said, monkeypatch):
    pytest.importorskip("pymicro._native")
    monkeypatch.setattr(pressure, "cpu_pressure", lambda: share)
    monkeypatch.setattr(pressure, "load", lambda: 0.0)
    words = [*QUICK, "--device", "cpu", "--no-store", "--format", "json"]
    done = CliRunner().invoke(cli, words)
    notes = [note for r in json.loads(done.stdout)["results"] for note in r["notes"]]
    assert any("46 % of the time" in note for note in notes) == is_said


@pytest.mark.parametrize(
    ("share", "tasks", "words"),
    [
        (None, 9.0, ["load 9.0 on 2 cores"]),
        (0.46, 9.0, ["load 9.0 on 2 cores", "46 %"]),
        (0.46, 1.0, ["46 %"]),
    ],
)
def test_a_load_beyond_the_cores_is_said(share, tasks, words):
    told = pressure.said(share, tasks, 2)
    assert all(word in told for word in words)


@pytest.mark.parametrize("tasks", [None, 0.0, 2.0])
def test_a_load_that_the_cores_carry_is_not_said(tasks):
    assert pressure.said(0.0, tasks, 2) is None


@pytest.mark.parametrize(("tasks", "codes"), [(10.0**6, ["busy"]), (0.0, [])])
def test_doctor_sees_a_busy_machine(tasks, codes, monkeypatch):
    from pymicro.probes import Evidence, host

    monkeypatch.setattr(pressure, "load", lambda: tasks)
    assert [f.code for f in host.busy(Evidence())] == codes


def test_without_a_driver_both_cuda_parts_are_named_alike(tmp_path):
    from pymicro.devices.here import install_line
    from pymicro.devices.nvml import NvmlView

    line = install_line(NvmlView(), tmp_path)
    assert "cuda13" in line
    assert "cuda12" in line
