"""A whole job as text: what it was, how long it took, and where the time lay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymicro.report.terminal import Terminal
from pymicro.results import Result, summary
from pymicro.units import binary_bytes, percent, si
from pymicro.workloads.jobs import settings
from pymicro.workloads.models import Model

_TITLES = ("phase", "device done", "as the host sees it", "host alone", "device busy", "kernels")


def show(row: Model, result: Result, terminal: Terminal | None = None) -> None:
    """Print the job, its headline, and a line a phase."""
    out = terminal or Terminal()
    details = result.details
    out.say(f"{row.title} on {result.device.get('name', 'this machine')}, {_words(row, result)}")
    out.say(_headline(result))
    lines = [_phase(name, details) for name in details["phases_s"]]
    out.table(_TITLES, lines, numbers=set(range(1, len(_TITLES))))
    if "step" in details["busy_s"]:
        busy_s, kernels = details["busy_s"]["step"], details["kernels"]["step"]
        out.say(f"device busy {si(busy_s, 's')} a step, {kernels} kernels.")
    out.say(_around(details))
    for note in result.notes:
        out.say(f"note: {note}")


def _words(row: Model, result: Result) -> str:
    """The job's settings; those of a published one say on what they rest."""
    published = settings(row)
    words = []
    for name in ("batch", "length", "output", "beams", "records", "epochs"):
        value = result.params.get(name)
        setting = published.get(name)
        if not value:
            continue
        basis = f" ({setting.basis})" if setting and setting.value == value else ""
        words.append(f"{name} {value}{basis}")
    attention = result.variant
    return ", ".join((result.dtype, f"{attention} attention", *words))


def _headline(result: Result) -> str:
    details = result.details
    step_s = summary(result)["median_s"]
    whole = f"{si(details['job_s'], 's')} the job ({details['batches']} batches)"
    told = "extrapolated" if details["extrapolated"] else "measured"
    text = f"{si(step_s, 's')} a {details['unit']}, {whole}, {told}"
    telemetry = result.telemetry
    if telemetry is not None and telemetry.sm_clock_hz:
        text += f"; SM clock {si(telemetry.sm_clock_hz, 'Hz')}"
    if telemetry is not None and telemetry.power_w:
        text += f", {si(telemetry.power_w, 'W')}"
    return text


def _phase(name: str, details: Mapping[str, Any]) -> tuple[str, ...]:
    span_s = details["phases_s"][name]
    probes = details["host_probe_s"]
    alone = [probe[name] for probe in probes.values() if name in probe]
    busy_s = details["busy_s"].get(name)
    busy = f"{si(busy_s, 's')} ({percent(busy_s / span_s)})" if busy_s else ""
    return (
        name,
        si(span_s, "s"),
        si(details["host_s"].get(name, 0.0), "s"),
        si(sum(alone) / len(alone), "s") if alone else "",
        busy,
        str(details["kernels"].get(name, "")),
    )


def _around(details: Mapping[str, Any]) -> str:
    parts = [
        f"start-up {si(details['start_up_s'], 's')}",
        f"load {si(details['load_s'], 's')}",
        f"tokeniser {si(details['tokenise_s'], 's')}",
        f"first, cold run {si(details['first_s'], 's')}",
        f"peak memory {binary_bytes(details['peak_bytes'])}",
    ]
    return ", ".join(parts) + "."
