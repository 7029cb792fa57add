"""What rows claim to have run on, held against the stored results that say so."""

from pathlib import Path

import pytest

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
