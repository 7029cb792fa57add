"""Whatever stands in a trace: a split that adds up, or a sentence; never a traceback."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_trace import GEMM, NCCL, Job

from pymicro.analysis import profile
from pymicro.errors import UsageError
from pymicro.report import profile as report


def job():
    made = Job()
    for _ in range(3):
        with made.step():
            with made.range("enumerate(DataLoader)#x.__next__"):
                made.wait(50)
            made.op("aten::mm", 6, 40, GEMM)
            made.op("c10d::allreduce_", 6, 20, NCCL, stream=9)
            made.item()
            with made.range("Optimizer.step#SGD.step"):
                made.op()
    return made


EVENTS = job().events
ODD = (None, -1, 0, 1e30, float("nan"), "", "x", [], {}, [1], {"a": 1}, True, "ProfilerStep#9")
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
CHANGE = st.tuples(st.integers(0, len(EVENTS) - 1), st.sampled_from(KEYS), st.sampled_from(ODD))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(CHANGE, max_size=6),
    removed=st.sets(st.integers(0, len(EVENTS) - 1), max_size=len(EVENTS)),
    head=st.dictionaries(
        st.sampled_from(("deviceProperties", "pymicro", "schemaVersion")), st.sampled_from(ODD)
    ),
)
def test_damage_never_ends_in_a_traceback(tmp_path_factory, changes, removed, head):
    events = [dict(e) for e in EVENTS]
    for number, key, value in changes:
        events[number][key] = value
    events = [e for n, e in enumerate(events) if n not in removed]
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    path.write_text(json.dumps(job().document(**head) | {"traceEvents": events}))
    try:
        told = profile.explain(path)
    except UsageError:
        return
    split = told.shown.split
    assert sum(p.s for p in split.parts) == pytest.approx(split.wall_s, rel=1e-6)
    assert told.causes
    for format_ in ("json", "csv", "markdown", "table"):
        assert report.render(told, format_)
