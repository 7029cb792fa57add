"""The body of `pymicro explain MODEL` and `--case`: a simulated job's time in parts."""

from __future__ import annotations

import re
from typing import Any

import click

from pymicro.cli import job_words

_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}


def explain(model: str, device: str | None, values: dict[str, Any]) -> int:
    """Explain one job, from nothing, a time typed in, or a stored run."""
    from pymicro.analysis import explain as analysis
    from pymicro.analysis import what_if
    from pymicro.analysis.against import against
    from pymicro.report import explained as report
    from pymicro.report import plots

    if values["plot"]:
        plots.check(values["plot"])
    words = what_if.parse(values["what_if"]) if values["what_if"] else []
    known = job_words.device(device, values)
    case = job_words.case(model, values, known.kind)
    told = analysis.explain(case, known.primitives, _measured_s(values, case))
    outcomes = list(what_if.outcomes(case, known.primitives, words))
    versus = None
    if values["against"]:
        other = job_words.device(values["against"], values)
        second = job_words.case(model, values, other.kind)
        versus = against(case, known.primitives, other.primitives, second)
    if values["format_"] == "json":
        click.echo(report.render(told, outcomes, versus), nl=False)
    else:
        report.show(told, outcomes, versus, known.note)
    if values["plot"]:
        plots.draw_waterfall(told, values["plot"])
        click.echo(f"drawn to {values['plot']}", err=True)
    return 0


def study(name: str, values: dict[str, Any]) -> int:
    """A published anomaly that ships as a study."""
    from pymicro.analysis.study import study as run
    from pymicro.report import explained as report

    report.show_study(run(name, lambda key: job_words.device(key, values).primitives))
    return 0


def _measured_s(values: dict[str, Any], case: Any) -> float | None:
    """Seconds of the whole job: typed in, or of a stored run of `pymicro e2e`.

    Raises:
        UsageError: both were given, or it is no time.
    """
    from pymicro.errors import UsageError

    typed, result = values["measured"], values["result"]
    if typed and result:
        raise UsageError("--measured and --result are two measurements; give one.")
    if result:
        return _stored_s(result, case, values["store"])
    return seconds(typed) if typed else None


def seconds(text: str) -> float:
    """Seconds in `38.2s`, `31 ms`, `2min`; below zero is left for the explanation to refuse.

    Raises:
        UsageError: it is no time.
    """
    from pymicro.errors import UsageError

    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*([a-z]*)\s*", text)
    if match is None or match[2] not in _UNITS:
        raise UsageError(f"--measured '{text}' is no time; write 38.2s, 31ms or 2min.")
    return float(match[1]) * _UNITS[match[2]]


def _stored_s(word: str, case: Any, store: str | None) -> float:
    """Seconds of this job in the store's run that begins with `word`, scaled to all records.

    Raises:
        UsageError: no such run, or it is of another job.
    """
    from pymicro.errors import UsageError
    from pymicro.results import Store

    found = [
        r
        for r in Store(store).read().results
        if r.benchmark == "e2e" and r.outcome == "ok" and r.run_id.startswith(word)
    ]
    if not found:
        raise UsageError(f"--result {word}: the store has no run of a job that begins so.")
    result = found[-1]
    told = {k: result.params.get(k) for k in ("model", "batch", "length")}
    ours = {"model": case.model.key, "batch": case.job.batch, "length": case.job.length}
    for name, value in told.items():
        if value is not None and value != ours[name]:
            raise UsageError(f"--result {word} is of {name} {value}, not {ours[name]}.")
    steps = result.samples_s
    return sum(steps) / len(steps) * case.config.batches


def refuse(model: str | None, trace: str | None, case: str | None) -> None:
    """Exactly one of a model, a trace and a study.

    Raises:
        UsageError: none or several were given.
    """
    from pymicro.errors import UsageError

    given = [w for w in (model, trace, case) if w]
    if len(given) != 1:
        raise UsageError(
            "explain needs one of MODEL, --trace FILE and --case NAME; "
            "`pymicro profile -- PROGRAM` makes a trace of any job."
        )
