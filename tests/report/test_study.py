"""A published anomaly in words: numbers first, the largest cause first, on eighty columns."""

import io
import json
import re

import pytest

from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.study import studies, study
from pymicro.devices.catalogue import catalogue
from pymicro.report import study as report
from pymicro.report.terminal import Terminal


@pytest.fixture(scope="module", params=list(studies()))
def found(request):
    return study(request.param, lambda key: primitives(catalogue()[key], measured=False))


def shown(found):
    out = io.StringIO()
    report.show(found, Terminal(out, width=80))
    return out.getvalue()


def test_every_line_fits_and_every_cause_is_named_once_a_job(found):
    text = shown(found)
    assert all(len(line) <= 80 for line in text.splitlines() if "://" not in line)
    flat = " ".join(text.split("The causes:")[0].split())
    for cause in found.jobs[0].causes:
        assert flat.count(f"({cause.name})") + (cause.name in flat) > 0
    assert text.count("\nSo: ") == len(found.jobs)


def test_numbers_come_before_sentences(found):
    lines = shown(found).splitlines()
    assert lines[1].startswith(("Published: ", "Expected: "))
    for number, job in enumerate(found.jobs, 1):
        at = lines.index(f"{number}. {job.name}")
        assert lines[at + 1].startswith("Simulated with no fault: ")


def test_the_largest_fault_stands_first(found):
    for job in found.jobs:
        faults = [c for c in job.causes if c.kind == "cause"]
        largest = max(faults, key=lambda c: c.adds_s.value).name.split()[0]
        first = re.search(r"─{10,} *\n *(\S+)", shown(found).split(job.name, 1)[1])
        assert first[1] == largest


def test_a_published_ratio_is_that_of_the_published_times():
    made = study("5090", lambda key: primitives(catalogue()[key], measured=False))
    slow_s, fast_s = made.times_s
    assert f"{slow_s / fast_s:.2f} times as long" in shown(made)
    job = made.jobs[0]
    assert job.slow_s + job.gap_s == pytest.approx(job.fast_s * slow_s / fast_s)


def test_the_document_carries_the_numbers(found):
    document = json.loads(report.render(found))
    assert document["schema"] == 1
    for told, job in zip(document["study"]["jobs"], found.jobs, strict=True):
        assert told["slow_s"] == job.slow_s
        assert [c["name"] for c in told["causes"]] == [c.name for c in job.causes]
