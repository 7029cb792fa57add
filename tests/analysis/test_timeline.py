"""The timeline file against the Trace Event format, as strictly as Perfetto's importer reads it.

Perfetto's trace processor is a binary that its package downloads, so it is asked only where it is
there (`PERFETTO_SHELL` names it); the rules below are those by which it drops events.
"""

import json
import os
from collections import defaultdict
from dataclasses import replace

import pytest

from pymicro.analysis.cases import of_job
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.simulate import simulate
from pymicro.analysis.timeline import chrome
from pymicro.devices.catalogue import catalogue
from pymicro.workloads.jobs import job
from pymicro.workloads.models import MODELS

JOBS = {
    "training": ("distilbert", {"precision": "amp_fp16", "batch": 16, "length": 128}),
    "generating": ("t5-large", {"precision": "fp16", "batch": 2, "length": 64, "beams": 4,
                                "output": 8, "attention": "sdpa"}),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(JOBS))
def text(request):
    model, settings = JOBS[request.param]
    case = of_job(MODELS[model], job(MODELS[model], **settings))
    p = primitives(catalogue()["h200_sxm_141gb"])
    p = replace(p, host=p.host.faster(1.0371))  # Costs that are no whole nanoseconds.
    return chrome(simulate(case.program, p, case.config, keep_events=True), p.name)


def _ns(microseconds):
    whole = round(microseconds * 1000)
    assert microseconds * 1000 == pytest.approx(whole, abs=1e-3)  # Nothing below a nanosecond.
    return whole


def _slices(events):
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = _ns(event["ts"])
            found[event["pid"], event["tid"]].append((start, start + _ns(event["dur"]), event))
    return found


def _refuse_constants(word):
    raise AssertionError(f"{word} is no JSON")


def test_every_event_has_what_its_kind_needs(text):
    file = json.loads(text, parse_constant=_refuse_constants)
    assert set(file) == {"displayTimeUnit", "traceEvents"}
    assert file["displayTimeUnit"] in ("ms", "ns")
    assert len(file["traceEvents"]) > 1000
    for event in file["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        assert event["name"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            continue
        assert event["ph"] in ("X", "s", "f")
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        else:
            assert isinstance(event["id"], int)


def test_bars_of_a_thread_lie_inside_or_beside_each_other(text):
    """A bar that ends inside another one is dropped, or taken for its parent."""
    for bars in _slices(json.loads(text)["traceEvents"]).values():
        open_until = []
        for start, end, event in sorted(bars, key=lambda bar: (bar[0], -bar[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], event
            open_until.append(end)


def test_each_launch_arrow_joins_one_bar_of_the_host_to_one_of_the_device(text):
    events = json.loads(text)["traceEvents"]
    bars = _slices(events)
    starts = {thread: {start: end for start, end, _ in those} for thread, those in bars.items()}
    ends = defaultdict(list)
    for event in events:
        if event["ph"] in ("s", "f"):
            ends[event["id"]].append(event)
            begins = starts[event["pid"], event["tid"]]
            assert _ns(event["ts"]) in begins, event
    for number, (first, last) in ends.items():
        assert (first["ph"], last["ph"]) == ("s", "f"), number
        assert last["bp"] == "e"  # Binds to the bar around it, not to the next one.
        assert first["tid"] != last["tid"]
        assert _ns(first["ts"]) <= _ns(last["ts"])


def test_threads_that_have_bars_have_names(text):
    events = json.loads(text)["traceEvents"]
    named = {e["tid"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert named == {tid for _, tid in _slices(events)}


@pytest.mark.skipif(
    "PERFETTO_SHELL" not in os.environ,
    reason="PERFETTO_SHELL names no trace_processor_shell",
)
def test_perfettos_own_trace_processor_drops_nothing(text, tmp_path):
    perfetto = pytest.importorskip("perfetto.trace_processor")
    file = tmp_path / "timeline.json"
    file.write_text(text)
    config = perfetto.TraceProcessorConfig(bin_path=os.environ["PERFETTO_SHELL"])
    with perfetto.TraceProcessor(trace=str(file), config=config) as processor:
        bars = next(iter(processor.query("select count(*) as n from slice"))).n
        flows = next(iter(processor.query("select count(*) as n from flow"))).n
        lost = processor.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        )
        assert [(row.name, row.value) for row in lost] == []
    events = json.loads(text)["traceEvents"]
    assert bars == sum(e["ph"] == "X" for e in events)
    assert flows == sum(e["ph"] == "s" for e in events)
