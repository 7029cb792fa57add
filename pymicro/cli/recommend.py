"""`pymicro recommend`: which card suits a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from pymicro.cli import job_words
from pymicro.cli.checked import Command

_EPILOG = """\b
Examples:
  pymicro recommend distilbert
  pymicro recommend bert-large --for training --price H100=2.5,4090=0.4
  pymicro recommend t5 --batch 1 --card "H100 PCIe,RTX 4090,L4"
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
@click.option(
    "--card", "cards", multiple=True, metavar="CARD[,CARD]", help="only these cards (default: all)"
)
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="CARD=N[,CARD=N]",
    help="price of an hour of a card, in any currency: H100=2.5,4090=0.4",
)
@click.option("--gpus", type=click.IntRange(1, 1024), default=1, help="cards with a batch each")
@click.option("--link", type=click.Choice(("nvlink", "pcie")), help="what joins several cards")
@click.option("--format", "format_", type=click.Choice(("table", "json")), default="table")
def command(model: str, purpose: str | None, **values: Any) -> int:
    """Simulate MODEL's job on every card of the catalogue: fits, time, bound, energy, cost."""
    from pymicro.analysis.recommend import ranked
    from pymicro.devices.catalogue import catalogue
    from pymicro.errors import UsageError
    from pymicro.report import choices as report
    from pymicro.report.terminal import Terminal

    case = job_words.case(model, values)
    does = "training" if case.trace.task == "train" else "inference"
    if purpose and purpose != does:
        raise UsageError(f"{model}'s job is {does}; --for {purpose} has no trace of it.")
    words = _Words(catalogue(values["spec"]))
    keys = [words.key(word) for word in _listed(values["cards"])]
    prices = _prices(_listed(values["prices"]), words, keys)
    found, left_out = _choices(case, values, keys or list(words.specs), prices)
    if values["format_"] == "json":
        click.echo(report.render(ranked(found)), nl=False)
        return 0
    out = Terminal()
    out.say(f"{does}: {case.label}")
    report.show(ranked(found), out)
    for said in (*case.notes, *words.notes, *left_out):
        out.say(f"note: {said}")
    return 0


def _choices(
    case: Any, values: dict[str, Any], keys: Sequence[str], prices: dict[str, float]
) -> tuple[list[Any], list[str]]:
    """A choice a card, and why others were left out.

    Raises:
        Unavailable: none is left.
    """
    from pymicro.analysis.recommend import choice, why_no_link
    from pymicro.errors import Unavailable

    link = values["link"] or ""
    found: list[Any] = []
    left_out: list[str] = []
    for key in dict.fromkeys(keys):
        try:
            known = job_words.device(key, values).primitives
        except Unavailable as error:
            left_out.append(str(error))
            continue
        if why := why_no_link(known, link):
            left_out.append(why)
            continue
        found.append(choice(case, known, prices.get(key), values["gpus"], link))
    if not found:
        raise Unavailable(" ".join(left_out))
    return found, left_out


class _Words:
    """Cards by the words for them, and what to know of a word that means several."""

    def __init__(self, specs: Mapping[str, Any]) -> None:
        self.specs = specs
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    def key(self, word: str) -> str:
        from pymicro.devices.finder import find

        match = find(word, self.specs)
        if match.note:
            self._notes[match.note] = None
        return str(match.spec.key)


def _listed(texts: Sequence[str]) -> list[str]:
    """The words of comma lists, given once or several times."""
    return [word.strip() for text in texts for word in text.split(",")]


def _prices(texts: Sequence[str], words: _Words, keys: Sequence[str]) -> dict[str, float]:
    """Prices an hour by the key of the card.

    Raises:
        UsageError: no such card, no price, or one of a card that is not looked at.
    """
    from pymicro.analysis.recommend import prices
    from pymicro.errors import UsageError

    named = {t.partition("=")[0] for t in texts}
    found = prices(texts, {word: words.key(word) for word in named if word})
    if idle := [words.specs[key].name for key in found if keys and key not in keys]:
        raise UsageError(f"--price of {', '.join(idle)}, which --card leaves out.")
    return found
