"""A published anomaly and the causes that were tried on it: numbers first, then short sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pymicro.analysis.study import OneJob, Study, Tested
from pymicro.analysis.values import Value
from pymicro.report.jobs import plain, seconds
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA

# Less of what is missing, even at the far end of its range, is told in one line with its like.
_LITTLE = 0.02


def show(found: Study, terminal: Terminal | None = None) -> None:
    """The study as text: what was published, a table a job, what would settle it."""
    out = terminal or Terminal()
    for said in heading(found):
        out.say(said)
    for number, job in enumerate(found.jobs, 1):
        out.say(f"\n{number}. {job.name}\n{_simulated(found, job)}")
        _show_causes(out, found, job)
        for said in _changes(job):
            out.say(said)
        out.say(f"So: {found.verdict[number - 1]}")
    for said in endings(found):
        out.say(said)


def heading(found: Study) -> Iterator[str]:
    """What was published, with how far it can be trusted."""
    yield found.title
    if found.times_s is not None:
        slow_s, fast_s = found.times_s
        yield (
            f"Published: {_card(found.slow)} {slow_s:g} s, {_card(found.fast)} {fast_s:g} s: "
            f"{slow_s / fast_s:.2f} times as long."
        )
    if found.promise is not None:
        yield f"Expected: {_card(found.slow)} {found.promise:g} times as fast as the other card."
    for said in found.known:
        yield f"- {said}"
    yield f"- trust: {found.trust}"


def _simulated(found: Study, job: OneJob) -> str:
    slow, fast = _card(found.slow), _card(found.fast)
    text = (
        f"Simulated with no fault: {slow} {seconds(job.slow_s)}, {fast} {seconds(job.fast_s)}: "
        f"{job.slow_s / job.fast_s:.2f} times as long."
    )
    if job.gap_s > 0:
        gap = f"the {slow} has to lose {seconds(job.gap_s)} more, the gap"
        return f"{text} For the published ratio {gap}."
    return f"{text} There is no gap: the faults below would only slow the {slow} further."


def _show_causes(out: Terminal, found: Study, job: OneJob) -> None:
    """Faults in a table, the largest first; those that make nearly nothing in a line."""
    faults = sorted((c for c in job.causes if c.kind == "cause"), key=lambda c: -c.adds_s.value)
    scale = job.gap_s if job.gap_s > 0 else job.slow_s
    small = [c for c in faults if c.adds_s.high < _LITTLE * scale]
    large = [c for c in faults if c not in small]
    titles = ["cause", f"costs the {_card(found.slow)}"]
    titles += ["of the gap", "alone enough"] if job.gap_s > 0 else []
    titles.append("ratio then")
    rows = [_row(c, job) for c in large]
    if rows:
        out.table(titles, rows, range(1, len(titles)), optional=[len(titles) - 1])
    if small:
        names = ", ".join(c.name for c in small)
        of = "the gap" if job.gap_s > 0 else "its time"
        out.say(f"Less than {100 * _LITTLE:.0f} % of {of}, at most: {names}.")


def _row(cause: Tested, job: OneJob) -> list[str]:
    cells = [cause.name, seconds(cause.adds_s)]
    if job.gap_s > 0:
        adds = cause.adds_s
        share = (adds.value / job.gap_s, adds.low / job.gap_s, adds.high / job.gap_s)
        middle, low, high = (f"{100 * x:.0f}" for x in share)
        cells += [f"{middle} % ({low} to {high})", cause.verdict]
    return [*cells, _ratio(cause.ratio)]


def _ratio(ratio: Value) -> str:
    if f"{ratio.low:.2f}" == f"{ratio.high:.2f}":
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _changes(job: OneJob) -> Iterator[str]:
    before = f"{job.slow_s / job.fast_s:.2f}"
    for c in job.causes:
        if c.kind != "cause":
            after = f"{before} becomes {_ratio(c.ratio)}; the order {c.verdict}"
            yield f"With {c.how} ({c.name}): {after}."


def endings(found: Study) -> Iterator[str]:
    """The causes with their sources, and the command that would decide each."""
    causes: Sequence[Tested] = found.jobs[0].causes
    yield "\nThe causes:"
    for c in causes:
        yield f"- {c.name}: {c.what} ({c.source})"
    yield "\nWhat would settle it, on such a card:"
    for c in causes:
        yield f"- {c.name}: {c.settle}"


def _card(name: str) -> str:
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def render(found: Study) -> str:
    """The study as a JSON document."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "study": {
            **{k: v for k, v in vars(found).items() if k not in ("jobs", "verdict")},
            "jobs": [
                _plain(job) | {"verdict": verdict}
                for job, verdict in zip(found.jobs, found.verdict, strict=True)
            ],
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _plain(job: OneJob) -> dict[str, Any]:
    return {
        "name": job.name,
        "job": dict(vars(job.case.job)),
        "slow_s": job.slow_s,
        "fast_s": job.fast_s,
        "missing_s": max(job.gap_s, 0.0),
        "together_s": plain(job.together),
        "causes": [asdict(cause) for cause in job.causes],
    }
