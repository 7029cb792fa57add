"""`pymicro e2e`: run a whole job here and time its phases, or record its operator trace."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pymicro.cli import job_words
from pymicro.cli.checked import Command
from pymicro.report import FORMATS

if TYPE_CHECKING:
    from pymicro.devices.here import Device
    from pymicro.results import Result
    from pymicro.workloads.jobs import Job
    from pymicro.workloads.models import Model

_LONG_S = 120.0
_EXAMPLES = """\b
Examples:
  pymicro e2e distilbert                        fine-tune as published, here
  pymicro e2e t5 --batch 1 --beams 1 --quick    a minute's answer
  pymicro e2e distilbert --precision amp_fp16   a remedy; or tf32, --compile
  pymicro e2e t5 --trace-only --to traces       which operators it dispatches
  pymicro e2e ./config.json --trace-only        of any model of transformers
"""


@click.command(
    "e2e",
    cls=Command,
    needs={"to": ("trace_only",)},
    short_help="Run a whole job (T5, DistilBERT, others).",
    epilog=_EXAMPLES,
)
@click.argument("model")
@job_words.run_options
@click.option("--tf32", is_flag=True, help="short for --precision tf32")
@click.option("--compile", "compiled", is_flag=True, help="torch.compile")
@click.option("--graphs", is_flag=True, help="torch.compile with CUDA graphs")
@click.option("--quick", is_flag=True, help="a part of the job, the rest extrapolated")
@click.option("--text", metavar="FILE", help="real text, a record a line")
@click.option("--weights", metavar="hub|PATH", help="real weights instead of random ones")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda:N or a UUID")
@click.option("--trace-only", is_flag=True, help="record the operators, run nothing")
@click.option("--to", metavar="FOLDER", default=".", help="where a trace is written")
@click.option("--no-profile", is_flag=True, help="leave out the pass that counts kernels")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table")
@click.option("--store", metavar="FILE", help="append the result to this file")
@click.option("--no-store", is_flag=True, help="keep no result")
@click.option("--label", help="name of this machine in results")
def command(model: str, **given: Any) -> int:
    """Run MODEL's job: t5, t5-small, t5-base, distilbert, bert-base, bert-large, gpt2, llama-1b.

    What is not given is as the published experiment had it, or as we assume it did; the table
    says which. Weights are random, since time does not depend on them.
    """
    began_s = time.perf_counter()
    from pymicro.devices.here import resolve

    row = _row(model)
    wanted = _job(row, given)
    device = resolve(given["device"])
    if given["trace_only"]:
        return _record(row, wanted, device.word, Path(given["to"]))
    return _run(row, wanted, device, given, began_s)


def _row(word: str) -> Model:
    from pymicro.workloads.models import model

    if word.endswith(".json"):
        from pymicro.e2e.foreign import from_file

        return from_file(Path(word))
    return model(word)


def _job(row: Model, given: dict[str, Any]) -> Job:
    from pymicro.errors import UsageError
    from pymicro.workloads.jobs import job

    fields = job_words.fields(given)
    if given["tf32"]:
        if fields["precision"] not in (None, "tf32"):
            raise UsageError(f"--tf32 and --precision {fields['precision']} contradict each other.")
        fields["precision"] = "tf32"
    return job(row, **fields)


def _record(row: Model, wanted: Job, device: str, folder: Path) -> int:
    from pymicro.e2e import build, recordings
    from pymicro.errors import UsageError
    from pymicro.workloads import trace, traces
    from pymicro.workloads.precisions import PRECISIONS

    if not folder.is_dir():
        raise UsageError(f"--to {folder}: no such folder.")
    build.need_packages()
    wide = PRECISIONS[wanted.precision].recorded_as
    made = recordings.record(row, wide, wanted.attention, device, wanted.beams)
    path = traces.path_of(made.key, folder)
    trace.save(made, path)
    counts = ", ".join(f"{len(phase.operators)} in {phase.name}" for phase in made.phases)
    click.echo(f"{path}: operators: {counts}.")
    return 0


def _run(row: Model, wanted: Job, device: Device, given: dict[str, Any], began_s: float) -> int:
    from pymicro import environment, results
    from pymicro.e2e import runner

    _refuse_early(wanted, given, device)
    store = None if given["no_store"] else results.Store(given["store"])
    if store is not None:
        store.check_writable()
    uuid = device.gpu.uuid if device.gpu else None
    choices = runner.Choices(
        device=device.word,
        uuid=uuid,
        quick=given["quick"],
        compiled=given["compiled"],
        graphs=given["graphs"],
        weights=given["weights"],
        records=given["text"],
        profiled=not given["no_profile"],
        expect=_expect if device.kind == "cuda" else lambda seconds: None,
    )
    if device.kind == "cpu":
        _forecast(row, wanted, choices)
    made = runner.run(row, wanted, choices, began_s)
    made = replace(
        made,
        device=_facts(device),
        environment=environment.capture(uuid, label=given["label"]),
        run_id=results.new_run_id(),
    )
    if store is not None:
        store.append(made)
    _show(row, made, given["format_"])
    return 0


def _refuse_early(wanted: Job, given: dict[str, Any], device: Device) -> None:
    """What would otherwise fail only when the model is built, or when all is measured.

    Raises:
        UsageError: no such text, label, weights or format. Unavailable: this asks for a GPU.
    """
    from pymicro.e2e import loader
    from pymicro.environment.node import node_name
    from pymicro.errors import Unavailable, UsageError
    from pymicro.workloads.precisions import PRECISIONS

    loader.texts(given["text"], 1)
    node_name(given["label"])
    weights = given["weights"]
    if weights not in (None, "hub") and not Path(weights).exists():
        raise UsageError(f"--weights {weights}: there is no such folder; `hub` downloads.")
    if PRECISIONS[wanted.precision].allows_tf32 and device.kind == "cpu":
        raise UsageError("tf32 is a format of GPUs' matrix units; a CPU has fp32.")
    if given["graphs"] and device.kind == "cpu":
        raise Unavailable("--graphs replays CUDA graphs, and this run is on the CPU.")


def _forecast(row: Model, wanted: Job, choices: Any) -> None:
    """Say how long a CPU will need, before it begins, where that is long enough to wonder."""
    from pymicro.e2e import forecast, runner

    runner.refuse(row, wanted, choices)
    told = forecast.forecast(row, wanted)
    seconds = told and (told.quick_s if choices.quick else told.whole_s)
    if told and seconds and seconds > _LONG_S:
        click.echo(told.sentence(choices.quick), err=True)


def _expect(seconds: float) -> None:
    """Say how long it will take where that is long enough to wonder."""
    if seconds > _LONG_S:
        click.echo(f"the job will take about {seconds / 60:.0f} min; --quick takes one.", err=True)


def _facts(device: Device) -> dict[str, Any]:
    from pymicro.devices import peaks

    facts: dict[str, Any] = {"kind": device.kind, "name": device.name}
    if device.gpu is not None:
        facts["capability"] = ".".join(map(str, device.capability or ()))
        facts["memory_bytes"] = device.gpu.memory_bytes
    return facts | dict(peaks.facts(device.spec)) | {"identified": device.note}


def _show(row: Model, made: Result, format_: str) -> None:
    from pymicro import report

    if format_ == "table":
        from pymicro.report import whole_job

        whole_job.show(row, made)
    else:
        click.echo(report.render([made], (), format_), nl=False)
