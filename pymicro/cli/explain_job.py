"""The body of `pymicro explain MODEL` and `--case`: a simulated job's time in parts."""

from __future__ import annotations

import re
from dataclasses import replace
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

    job_words.check(model)
    if values["plot"]:
        plots.check(values["plot"])
    words = what_if.parse(values["what_if"]) if values["what_if"] else []
    run = _stored(values)
    if run is not None:
        values = _with_job_of(run, model, values)
        device = device or run.device.get("key") or run.device.get("kind")
    known = job_words.device(device, values, model)
    case, primitives = job_words.case(model, values, known.kind), known.primitives
    measured_s = seconds(values["measured"]) if values["measured"] else None
    if run is not None:
        measured_s = float(run.details["job_s"])
        primitives = _on_its_host(run, case, primitives)
    told = analysis.explain(case, primitives, measured_s)
    outcomes = list(what_if.outcomes(case, primitives, words))
    versus = None
    if values["against"]:
        other = job_words.device(values["against"], values, model)
        second = job_words.case(model, values, other.kind)
        versus = against(case, primitives, other.primitives, second, first=told)
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
    from pymicro.report import study as report

    found = run(name, lambda key: job_words.device(key, values).primitives)
    if values["format_"] == "json":
        click.echo(report.render(found), nl=False)
    else:
        report.show(found)
    return 0


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


def _stored(values: dict[str, Any]) -> Any:
    """The run of `pymicro e2e` that --result names, None without the flag.

    Raises:
        UsageError: no such run, or a measured time was given beside it.
    """
    from pymicro.errors import UsageError

    word = values["result"]
    if not word:
        return None
    if values["measured"]:
        raise UsageError("--measured and --result are two measurements; give one.")
    found = [
        r
        for r in job_words.stored(values)
        if r.benchmark == "e2e" and r.outcome == "ok" and r.run_id.startswith(word)
    ]
    if not found:
        raise UsageError(f"--result {word}: the store has no run of a job that begins so.")
    return found[-1]


def _with_job_of(run: Any, model: str, values: dict[str, Any]) -> dict[str, Any]:
    """The flags with the job of a stored run in place of what was left out.

    Raises:
        UsageError: the run is of another model, or a flag contradicts it.
    """
    from pymicro.errors import UsageError
    from pymicro.workloads.models import model as row

    if run.params["model"] != row(model).key:
        raise UsageError(f"--result {values['result']} is of {run.params['model']}, not {model}.")
    told = {k: run.params[k] for k in ("batch", "length", "output", "beams", "records", "epochs")}
    told |= {"precision": run.dtype, "attn": run.variant.split("-")[0]}
    for name, value in told.items():
        if values[name] not in (None, value):
            raise UsageError(f"--{name} {values[name]}: that run has {value}; leave it out.")
    return values | told


def _on_its_host(run: Any, case: Any, primitives: Any) -> Any:
    """The device with the host as it was probed around the run, where it was."""
    from pymicro.analysis.host_probe import host_costs

    probes = run.details.get("host_probe_s") or {}
    known = [probe for when in ("before", "after") if (probe := probes.get(when))]
    if not known:
        return primitives
    return replace(primitives, host=host_costs(known, case.program))


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


_OF_A_MODEL = ("device", "against", "measured", "result", "what_if", "plot", *job_words.JOB_FIELDS)


def refuse_unused(values: dict[str, Any]) -> None:
    """Flags of a simulated job beside a trace or a study, which would change nothing.

    Raises:
        UsageError: one was given.
    """
    from pymicro.errors import UsageError

    subject = "trace" if values["trace"] else "case"
    if not values[subject]:
        return
    unused = (*_OF_A_MODEL, *(job_words.DEVICE_FIELDS if values["trace"] else ()))
    for name in unused:
        if values[name] not in (None, False):
            word = name.replace("_", "-")
            raise UsageError(f"--{word} means nothing beside --{subject}; it goes with MODEL.")
