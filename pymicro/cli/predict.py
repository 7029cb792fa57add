"""`pymicro predict`: the time of a job on a card, simulated."""

from __future__ import annotations

from typing import Any

import click

from pymicro.cli import job_words
from pymicro.cli.checked import Command

_EPILOG = """\b
Examples:
  pymicro predict t5 --device "RTX 4090" --batch 1 --output 60
  pymicro predict distilbert --device H100-PCIe --precision amp_fp16
  pymicro predict bert-large --device A100 --gpus 4 --link pcie
  pymicro predict t5 --device H200 --timeline t5.json   (for ui.perfetto.dev)
"""


@click.command(
    "predict",
    cls=Command,
    needs={"link": ("gpus",)},
    short_help="The time of a job on a card, at hand or not.",
    epilog=_EPILOG,
)
@click.argument("model", metavar="MODEL")
@click.option("--device", metavar="CARD", help="a card of the catalogue, cpu, or this one's (auto)")
@job_words.job_options
@job_words.device_options
@click.option("--gpus", type=click.IntRange(1, 1024), default=1, help="cards with a batch each")
@click.option("--link", type=click.Choice(("nvlink", "pcie")), help="what joins several cards")
@click.option("--timeline", metavar="FILE", help="write the last batch as a Chrome trace (JSON)")
@click.option("--format", "format_", type=click.Choice(("table", "json")), default="table")
def command(model: str, device: str | None, **values: Any) -> int:
    """Simulate MODEL's job on a card: time with interval, what bounds it, where figures are from.

    MODEL is a key of the models (t5, distilbert, bert-base, gpt2, llama-1b, ...). Nothing is
    measured, and no torch is needed. The range of a time follows from the intervals of the figures
    that it rests on; how often it held what others measured stands in the README.
    """
    from pymicro.analysis.predict import predict
    from pymicro.analysis.recommend import choice, why_no_link
    from pymicro.errors import Unavailable
    from pymicro.report import jobs as report

    job_words.check(model)
    known = job_words.device(device, values, model)
    case = job_words.case(model, values, known.kind)
    link = values["link"] or ""
    if why := why_no_link(known.primitives, link):
        raise Unavailable(why)
    if values["timeline"]:
        _timeline(case, known.primitives, values["timeline"])
    made = predict(case, known.primitives)
    chosen = choice(case, known.primitives, gpus=values["gpus"], link=link)
    if values["format_"] == "json":
        click.echo(report.prediction_json(made, chosen), nl=False)
    else:
        report.show_prediction(made, chosen, known.note)
    return 0


def _timeline(case: Any, primitives: Any, path: str) -> None:
    from pathlib import Path

    from pymicro.analysis.simulate import simulate
    from pymicro.analysis.timeline import chrome
    from pymicro.errors import UsageError

    found = simulate(case.program, primitives, case.config, keep_events=True)
    try:
        Path(path).write_text(chrome(found, primitives.name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--timeline {path} cannot be written: {error.strerror}.") from error
    click.echo(f"timeline in {path}; open it at ui.perfetto.dev", err=True)
