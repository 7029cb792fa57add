"""Traces recorded on a GPU, of jobs none of which is ours: see benchmarks/planted_causes.py."""

import gzip
import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from planted_causes import LATER, PLANTED

from pymicro.analysis import profile

KEPT = Path(__file__).parents[2] / "data" / "profiles"
PATHS = sorted(KEPT.glob("*.json.gz"))
PLAIN = [p for p in PATHS if "stacks" not in p.name]


def name(path):
    return path.name.split(".")[0]


def edited(tmp_path, path, edit):
    """The trace with each event passed through `edit`, which may drop it."""
    with gzip.open(path) as file:
        document = json.load(file)
    document["traceEvents"] = [e for e in map(edit, document["traceEvents"]) if e is not None]
    out = tmp_path / "edited.json"
    out.write_text(json.dumps(document))
    return profile.explain(out)


def of(told):
    return {p.code: p.s for p in told.shown.split.parts}


def test_every_job_is_kept():
    assert {name(p) for p in PLAIN} == set(PLANTED | LATER)


@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_the_planted_cause_is_named_first(path):
    assert profile.explain(path).causes[0].code == (PLANTED | LATER)[name(path)]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.name)
def test_the_parts_add_up_and_have_owners(path):
    split = profile.explain(path).shown.split
    assert sum(p.s for p in split.parts) == pytest.approx(split.wall_s, rel=1e-9)
    assert abs(split.part("unexplained").s) < 0.01 * split.wall_s
    assert all(p.s >= 0 for p in split.parts if p.code != "unexplained")
    assert sum(r.s for r in split.kernels) == pytest.approx(split.busy_s)
    assert split.part("other").s < 0.02 * split.wall_s
    assert len(split.steps_s) in (2, 3)
    assert split.shift_s == 0


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.name)
def test_what_is_kept_is_small_and_tells_nothing_of_its_machine(path):
    assert path.stat().st_size < 350_000
    text = gzip.decompress(path.read_bytes()).decode()
    assert not re.search(r"host_name|/(?:home|root|opt|usr|tmp)/(?!\w+\.py\()", text)
    # Frames of packages keep their place in the package, and no more.
    frames = re.findall(r'"([^"]*)\.py\(\d+\): ', text)
    assert not [f for f in frames if f.startswith("/")]


def test_stacks_name_the_line():
    told = profile.explain(KEPT / "item-in-every-step.stacks.json.gz")
    owners = [name for name, _ in told.shown.split.part("synchronisation").owners]
    assert any(re.search(r"\.item\(\) in .* at planted_jobs\.py\(\d+\): step", o) for o in owners)


def test_copies_tell_their_size_and_rate():
    seen = profile.explain(KEPT / "pageable-copies.json.gz").causes[0].seen
    assert re.search(r"1 × Memcpy DtoH \(Device -> Pageable\) of 268 MB at \d.* [MG]B/s", seen)


def test_shapes_change_nothing_but_rates(tmp_path):
    path = KEPT / "vision-transformer.json.gz"

    def without(event):
        event.get("args", {}).pop("Input Dims", None)
        return event

    told, bare = profile.explain(path), edited(tmp_path, path, without)
    assert of(bare) == pytest.approx(of(told))
    rows = [r for r in told.shown.split.kernels if r.kind.group == "gemm" and r.flop]
    assert rows
    assert all(0 < r.peak_fraction < 1 for r in rows)
    assert not any(r.flop for r in bare.shown.split.kernels)


def test_without_marks_the_same_work_is_found(tmp_path):
    path = KEPT / "tiny-kernels.json.gz"
    told = profile.explain(path)
    bare = edited(tmp_path, path, lambda e: None if e["name"].startswith("ProfilerStep") else e)
    assert len(bare.shown.split.steps_s) == 1
    assert "no-steps" in [f.code for f in bare.findings]
    assert bare.shown.split.busy_s == pytest.approx(told.shown.split.busy_s, rel=1e-3)
    assert bare.causes[0].code == told.causes[0].code


def test_a_slower_host_is_the_hosts_and_only_the_hosts(tmp_path):
    """Half a millisecond of Python more before each step moves that part, by that much."""
    path = KEPT / "tiny-kernels.json.gz"
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    marks = [e for e in events if e.get("cat") == "user_annotation"]
    starts = sorted(e["ts"] for e in marks if e["name"].startswith("ProfilerStep"))
    steps = len(starts)

    def later(event):
        event = dict(event)
        if "ts" in event:
            event["ts"] += 500.0 * sum(event["ts"] >= s for s in starts[1:])
        return event

    told, slower = profile.explain(path), edited(tmp_path, path, later)
    before, after = of(told), of(slower)
    moved_s = 500e-6 * (steps - 1)
    assert slower.shown.split.wall_s - told.shown.split.wall_s == pytest.approx(moved_s, rel=0.01)
    changes = {code: after.get(code, 0) - before.get(code, 0) for code in {*before, *after}}
    # The recorder's own measure of a step stands in the file, so what exceeds it is the profiler's.
    assert changes["host"] + changes["profiler"] == pytest.approx(moved_s, rel=0.02)
    others = {c: s for c, s in changes.items() if c not in ("host", "profiler")}
    assert all(abs(s) < 0.02 * moved_s for s in others.values())
