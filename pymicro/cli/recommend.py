"""`pymicro recommend`: which card suits a job."""

from __future__ import annotations

from typing import Any

import click

from pymicro.cli import job_words
from pymicro.cli.checked import Command

_EPILOG = """\b
Examples:
  pymicro recommend distilbert
  pymicro recommend llama-1b --for training --price H100=2.5 --price 4090=0.4
  pymicro recommend bert-large --gpus 4 --link pcie
"""


@click.command(
    "recommend",
    cls=Command,
    needs={"link": ("gpus",)},
    short_help="Which card suits a job, and why.",
    epilog=_EPILOG,
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(("training", "inference")),
    help="refuse a model whose job is the other",
)
@job_words.job_options
@job_words.device_options
@click.option("--card", "cards", multiple=True, metavar="CARD", help="only these (repeat it)")
@click.option("--price", "prices", multiple=True, metavar="CARD=N", help="price of an hour")
@click.option("--gpus", type=click.IntRange(1, 1024), default=1, help="cards with a batch each")
@click.option("--link", type=click.Choice(("nvlink", "pcie")), help="what joins several cards")
def command(model: str, purpose: str | None, **values: Any) -> int:
    """Simulate MODEL's job on every card of the catalogue: fits, time, bound, energy, cost."""
    from pymicro.analysis.recommend import choice, ranked, why_no_link
    from pymicro.devices.catalogue import catalogue
    from pymicro.devices.finder import find
    from pymicro.errors import Unavailable, UsageError
    from pymicro.report.jobs import choice_rows
    from pymicro.report.terminal import Terminal

    case = job_words.case(model, values)
    does = "training" if case.trace.task == "train" else "inference"
    if purpose and purpose != does:
        raise UsageError(f"{model}'s job is {does}; --for {purpose} has no trace of it.")
    specs = catalogue(values["spec"])
    chosen = [find(c, specs).spec.key for c in values["cards"]] or list(specs)
    prices = _prices(values["prices"], specs)
    link, found, left_out = values["link"] or "", [], []
    for key in dict.fromkeys(chosen):
        try:
            known = job_words.device(key, values).primitives
        except Unavailable as error:
            left_out.append(str(error))
            continue
        if why_no_link(known, link):
            continue
        found.append(choice(case, known, prices.get(key), values["gpus"], link))
    if not found:
        raise Unavailable(" ".join(left_out) or "no card has that link.")
    out = Terminal()
    out.say(f"{does}: {case.label}")
    titles, rows = choice_rows(ranked(found), bool(prices))
    out.table(titles, rows, numbers=())
    for said in (*case.notes, *left_out):
        out.say(f"note: {said}")
    return 0


def _prices(texts: tuple[str, ...], specs: Any) -> dict[str, float]:
    from pymicro.analysis.recommend import prices
    from pymicro.devices.finder import find

    words = {t.partition("=")[0] for t in texts}
    return prices(texts, {w: find(w, specs).spec.key for w in words if w})
