"""What rows claim to have run on, held against the stored results that say so."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import run_to_run
import transfer_vs_nvbandwidth

from pymicro import calls, paths, stats
from pymicro.results import Store

REFERENCE = Path(__file__).parents[2] / "benchmarks" / "reference"


def stored(device, name):
    file = REFERENCE / device / f"{name}.jsonl"
    if not file.exists():
        return []
    reading = Store(file).read()
    assert not reading.findings
    return [r for r in reading.results if r.outcome == "ok"]


def gpus(rows):
    return sorted({device for row in rows for device in row.ran_on if device != "cpu"})


@pytest.mark.parametrize("device", gpus(calls.ROWS))
def test_every_call_of_a_layer_that_ran_was_checked_there(device):
    seen = {
        (r.backend, r.variant, r.params["call"], r.params["side"])
        for r in stored(device, "launch")
        if r.verified.passed
    }
    for row in calls.ROWS:
        if device in row.ran_on and row.kind == "cuda":
            for call in row.makes:
                sides = ("host", "device") if calls.is_launch(call) else ("host",)
                for side in sides:
                    assert (row.backend, row.variant, call, side) in seen


@pytest.mark.parametrize("device", gpus(paths.ROWS))
def test_every_variant_that_ran_was_checked_there(device):
    results = stored(device, "transfer")
    seen = {(r.variant, r.params["path"]) for r in results if r.verified.passed}
    for row in paths.ROWS:
        if device in row.ran_on:
            assert {(row.variant, "h2d"), (row.variant, "d2h")} <= seen
        assert not row.peers_ran_on or any(paths.is_peer(path) for _, path in seen)


def rate(results, variant, path, host):
    found = [
        r
        for r in results
        if (r.variant, r.params["path"], r.params["host"]) == (variant, path, host)
    ]
    largest = max(found, key=lambda r: r.params["size"])
    return largest.bytes / stats.median(largest.samples_s)


def test_the_figures_of_the_reference_are_what_the_readme_says():
    results = stored("h200_sxm_141gb", "transfer")
    told = {
        ("engine", "h2d", "pinned"): 55.3,
        ("engine", "d2h", "pinned"): 55.2,
        ("sm", "h2d", "pinned"): 51.2,
        ("sm", "d2h", "pinned"): 52.6,
        ("engine", "h2d", "pageable"): 7.8,
        ("engine", "d2h", "pageable"): 15.1,
        ("staged", "h2d", "pageable"): 46.1,
        ("staged", "d2h", "pageable"): 46.2,
    }
    readme = (REFERENCE.parents[1] / "README.md").read_text(encoding="utf-8")
    for (variant, path, host), figure in told.items():
        assert rate(results, variant, path, host) / 1e9 == pytest.approx(figure, abs=0.051)
        assert f"{figure}" in readme
    plain = rate(results, "engine", "h2d", "pageable")
    assert rate(results, "staged", "h2d", "pageable") > 3 * plain


def test_what_the_documents_say_of_nvbandwidth_is_what_was_kept():
    file = REFERENCE / "h200_sxm_141gb" / "transfer_vs_nvbandwidth.jsonl"
    rows = transfer_vs_nvbandwidth.read(file)[-len(transfer_vs_nvbandwidth.ROWS) :]
    text = (REFERENCE.parents[1] / "docs" / "memory-and-links.md").read_text(encoding="utf-8")
    told = " ".join(text.split())
    for row in rows:
        assert len(row.ours) == len(row.theirs) == 5
        assert f"{100 * row.spread:.2f} %" in told
        assert f"{100 * row.their_spread:.2f}" in told
        # A ratio of what lies a tenth apart tells nothing.
        assert (f"{row.ratio:.4f}" in told) == (row.spread < 0.1)
        if row.variant == "engine":
            assert row.ratio >= row.least


def test_launches_of_two_processes_agree_or_say_that_the_host_was_noisy():
    rows = run_to_run.read(REFERENCE / "h200_sxm_141gb" / "run_to_run.jsonl")
    assert {row.verdict for row in rows} == {"", "noisy host"}
    for row in rows:
        if row.case.endswith("device"):
            assert row.apart < 0.005
