"""Cards for a job, as a table and as JSON: does it fit, how long, what bounds it, what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pymicro.analysis.recommend import Choice, needs_nvlink
from pymicro.report.jobs import document, plain, seconds
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA
from pymicro.units import binary_bytes, si

# A smaller cost is hard to read and to compare.
_READABLE = 0.001
_LINKS = {"nvlink": "NVLink", "pcie": "PCIe"}


def show(choices: Sequence[Choice], terminal: Terminal | None = None) -> None:
    """The table and what its columns mean; choices come in the order to show."""
    terminal = terminal or Terminal()
    titles, rows = table(choices)
    numbers = [i for i, t in enumerate(titles) if t.split("/")[0] in ("time", "energy", "cost")]
    leaving = [titles.index(title) for title in ("energy", "bound by", "evidence")]
    once = [titles.index(title) for title in ("fits",)]
    terminal.table(titles, rows, numbers, leaving, once)
    for said in meanings(choices):
        terminal.say(said)


def table(choices: Sequence[Choice]) -> tuple[list[str], list[list[str]]]:
    """Titles and rows of the cards."""
    scale, cost, _ = _scale(choices)
    has_cost = any(c.cost is not None for c in choices)
    joined = list(dict.fromkeys((m.gpus, m.link) for c in choices for m in c.several))
    titles = ["card", "fits", "time", "bound by", "energy", *([cost] if has_cost else [])]
    titles += [f"{gpus} over {_LINKS[link]}" for gpus, link in joined]
    titles += ["NVLink"] if joined and any(needs_nvlink(c) is not None for c in choices) else []
    return [*titles, "evidence"], [_row(c, titles, joined, scale) for c in choices]


def _scale(choices: Sequence[Choice]) -> tuple[float, str, str]:
    """By what to multiply costs to read them, what they are then called, and of what they are:
    where the whole job's are too small, of so many records, each gone through once."""
    costs = [c.cost.value for c in choices if c.cost is not None and c.cost.value > 0]
    if not costs or min(costs) >= _READABLE:
        return 1.0, "cost", "the job"
    job = choices[0].prediction.case.job
    done = (job.records or job.batch) * job.epochs
    if min(costs) * 1000 / done >= _READABLE:
        return 1000 / done, "cost/1k", "1,000 records"
    return 10**6 / done, "cost/1M", "1,000,000 records"


def _row(
    c: Choice, titles: Sequence[str], joined: Sequence[tuple[int, str]], scale: float
) -> list[str]:
    energy = c.prediction.energy_j
    row = [
        _name(c),
        "yes" if c.fits else f"no: {binary_bytes(int(c.need.total))} needed",
        seconds(c.seconds),
        _bound(c),
        si(energy.value, "J", 3) if energy else "",
    ]
    if any(title.startswith("cost") for title in titles):
        row.append(f"{c.cost.value * scale:.3g}" if c.cost is not None else "")
    for pair in joined:
        many = next((m for m in c.several if (m.gpus, m.link) == pair), None)
        row.append(
            f"{si(many.seconds.value, 's', 3)}, {100 * many.efficiency:.0f} %" if many else ""
        )
    if "NVLink" in titles:
        row.append({True: "needed", False: "no", None: ""}[needs_nvlink(c)])
    return [*row, _evidence(c)]


def _evidence(c: Choice) -> str:
    """Of the primitive that bounds the job: all others move its time less."""
    made = c.prediction
    return (made.bound_by if c.fits else made.primitives.link_bytes_per_s).kind


def _name(c: Choice) -> str:
    return c.prediction.primitives.name.removeprefix("NVIDIA ")


def _bound(c: Choice) -> str:
    """What bounds the job, without shares: a table of cards has no room for them."""
    return c.prediction.bound.split(":")[0].split(" (")[0] if c.fits else "link (it spills)"


def meanings(choices: Sequence[Choice]) -> Iterator[str]:
    """What the columns mean, as far as there are any of them."""
    yield "Time is that of the whole job on one card, with its interval; energy is the card's own."
    scale, _, of = _scale(choices)
    priced = [(c.cost.value * scale, _name(c)) for c in choices if c.cost is not None and c.fits]
    if any(c.cost is not None for c in choices):
        yield f"Cost is that of {of} on one card at your price an hour, in the unit of --price."
    if len(priced) > 1:
        (least, name), (next_, other) = sorted(priced)[:2]
        yield f"Cheapest of those that fit: {name}, {least:.3g}; then {other}, {next_:.3g}."
    if any(c.several for c in choices):
        yield (
            "Several cards, a batch each: the time, and how much of their joint speed is left; "
            "NVLink is needed where PCIe leaves too little of it."
        )
    yield (
        "Evidence is that of the figure that bounds the job; `pymicro predict` lists every figure "
        "with its source."
    )
    if any(_bound(c) == "the host" and _evidence(c) == "assumed" for c in choices):
        yield "The host is assumed: --host tells of yours."


def render(choices: Sequence[Choice]) -> str:
    """The same as a JSON document: one prediction a card, with its cost."""
    cards = [
        document(c.prediction, c) | {"cost": plain(c.cost) if c.cost is not None else None}
        for c in choices
    ]
    found: dict[str, Any] = {"schema": SCHEMA, "cards": cards}
    return json.dumps(found, indent=1) + "\n"
