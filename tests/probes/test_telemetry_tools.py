"""NVML and the monitor program: what fails is named, and what is no number becomes None."""

import pynvml
import pytest

from pymicro.probes import monitor, nvml
from pymicro.probes.child import Report

MISMATCH = "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"


@pytest.mark.parametrize(
    "cell",
    ["N/A", "[N/A]", "[ N/A ]", "Not Supported", "[Not Supported]", "Unknown Error",
     "[Unknown Error]", "ERR!", "[ERR!]", "", " ", "[GPU is lost]", "[Insufficient Permissions]"],
)  # fmt: skip
def test_every_way_of_saying_nothing_is_none(cell):
    assert monitor.number(cell) is None
    assert monitor.text(cell) is None


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("12.5 W", 12.5),
        ("97 %", 97),
        ("1980 MHz", 1980),
        ("0", 0),
        ("81559 MiB", 81559),
        ("-3", -3),
    ],
)
def test_units_are_stripped(cell, value):
    assert monitor.number(cell) == value


@pytest.mark.parametrize("cell", ["12,5 W", "1.2.3", "P0", "Default", "12 5"])
def test_what_is_no_number_is_not_guessed(cell):
    assert monitor.number(cell) is None


def test_rows_of_several_cards_and_the_c_locale(fake_tool):
    body = (
        'test "$LC_ALL" = C || exit 1\n'
        "echo 'GPU-1, NVIDIA H200, 580.95.05, 700.00 W, 345 MHz, [N/A]'\n"
        "echo 'GPU-2, \"Card, with comma\", 580.95.05, [Not Supported], ERR!, 30 %'"
    )
    env = fake_tool("nvidia-smi", body) | {"LC_ALL": "de_DE.UTF-8"}
    said = monitor.ask_monitor(env)
    assert said.trouble == ""
    assert [row["uuid"] for row in said.rows] == ["GPU-1", "GPU-2"]
    assert said.rows[0]["fan.speed"] is None
    assert monitor.number(said.rows[0]["power.limit"]) == 700
    assert said.rows[1]["name"] == "Card, with comma"
    assert said.rows[1]["power.limit"] is None
    assert said.rows[1]["clocks.sm"] is None


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        (MISMATCH, "mismatch"),
        ("exit 18", "mismatch"),
        ("echo 'NVIDIA-SMI has failed because it could not communicate'; exit 9", "no driver"),
        ("exit 3", "fails"),
        ("kill -SEGV $$", "fails"),
        ("sleep 60", "hangs"),
    ],
)
def test_troubles_of_the_monitor(fake_tool, body, trouble):
    said = monitor.ask_monitor(fake_tool("nvidia-smi", body), timeout_s=1.5)
    assert said.trouble == trouble


def test_no_monitor_at_all():
    assert monitor.ask_monitor({"PATH": "/nonexistent"}).trouble == "absent"


def test_mismatch_by_the_monitor_alone(scripted, fake_tool, codes):
    env = fake_tool("nvidia-smi", MISMATCH)
    e = scripted.evidence(env=env)
    e.given = dict(e.given) | {"nvml": Report("ok", facts={"installed": True})}
    assert codes(nvml.nvml, e) == {"nvml-mismatch": "error"}


def test_mismatch_by_nvml(scripted, fake_nvml):
    fake_nvml.failing["nvmlInit"] = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    (found,) = nvml.nvml(scripted.evidence(nvml=fake_nvml))
    assert found.code == "nvml-mismatch"
    assert found.do.startswith("reboot")
    assert "benchmarks go on" in found.why


def test_nvml_that_hangs_or_is_not_installed(scripted, codes):
    stuck = Report("timeout", "initialise", "no answer within 20 s", {"installed": True})
    e = scripted.evidence()
    e.given = dict(e.given) | {"nvml": stuck}
    assert codes(nvml.nvml, e) == {"nvml-hangs": "error"}
    assert codes(nvml.nvml, scripted.evidence()) == {"nvml-absent": "warning"}


def test_monitor_that_lists_other_cards_than_nvml(scripted, fake_nvml, fake_tool, codes):
    env = fake_tool(
        "nvidia-smi", "echo 'GPU-1, A, 1, 1 W, 1 MHz, 1 %'; echo 'GPU-2, B, 1, 1, 1, 1'"
    )
    assert codes(nvml.monitor, scripted.evidence(env=env, nvml=fake_nvml)) == {
        "monitor-differs": "warning"
    }
