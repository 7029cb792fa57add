"""The split of a job's time and a comparison of two cards, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pymicro.analysis.against import Against
from pymicro.analysis.explain import Explanation, Part
from pymicro.analysis.memory_need import missing_bytes, need
from pymicro.analysis.recommend import choice
from pymicro.analysis.what_if import Outcome
from pymicro.report.jobs import _time, format_notes, seconds
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA
from pymicro.units import binary_bytes, percent


def show(
    told: Explanation, outcomes: list[Outcome], versus: Against | None = None, note: str = ""
) -> None:
    """Everything about one job on one device, and against another."""
    out = Terminal()
    made = told.prediction
    if said := does_not_fit(told):
        out.say(said)
    out.say(f"{made.case.label}\non {made.primitives.name}{f' ({note})' if note else ''}")
    for said in (*made.case.notes, *format_notes(made)):
        out.say(f"note: {said}")
    if told.measured_s is not None:
        word = "inside" if told.agrees else "outside"
        out.say(f"measured {_time(told.measured_s)}, {word} the prediction {seconds(made.seconds)}")
    else:
        out.say(f"predicted {seconds(made.seconds)}; one {made.unit}: {seconds(made.unit_s)}")
    out.say(f"bound by {made.bound}")
    out.table(("part", "time", "share", "what it is"), rows(told), numbers=(1, 2))
    for said in sources(told):
        out.say(said)
    if outcomes:
        out.table(("what if", "time", "speed-up", "bound by"), what_if_rows(told, outcomes), (1, 2))
    if versus is not None:
        _show_against(out, versus)


def does_not_fit(told: Explanation) -> str:
    """That the job needs more memory than the card has, and what it then takes; else nothing."""
    made = told.prediction
    held, wanted = made.primitives.memory_bytes, need(made.case)
    if held is None or not missing_bytes(wanted, held):
        return ""
    spilt = choice(made.case, made.primitives)
    return (
        f"DOES NOT FIT: the job needs {binary_bytes(round(wanted.total))}, the card has "
        f"{binary_bytes(held)}. The rest would lie in the host's memory and the job would take "
        f"{seconds(spilt.seconds)}. The parts below are of a card of this kind with memory enough."
    )


def _shown(told: Explanation) -> list[Part]:
    """The parts, the longest first, without those that are nothing even at their far end."""
    total = told.total_s
    return [
        part
        for part in told.ranked()
        if abs(part.seconds.value) > 1e-4 * total or part.seconds.high > 1e-3 * total
    ]


def _what(part: Part) -> tuple[str, str]:
    """What a part is, and where its figures are from."""
    what, _, sources = part.why.partition(" [")
    return what, sources.removesuffix("]")


def sources(told: Explanation) -> Iterator[str]:
    """A line a part: where its figures are from."""
    named = [(part.title, _what(part)[1]) for part in _shown(told)]
    if any(found for _, found in named):
        yield "Where the figures are from:"
    yield from (f"- {title}: {found}" for title, found in named if found)


def rows(told: Explanation) -> list[tuple[str, str, str, str]]:
    """Parts, the longest first, then what is not explained and the sum."""
    total = told.total_s
    found = [
        (part.title, seconds(part.seconds), percent(part.seconds.value / total), _what(part)[0])
        for part in _shown(told)
    ]
    if told.unexplained_s is not None:
        why = "measured less predicted" + (
            "" if not told.agrees else "; inside the interval of the prediction: cannot tell more"
        )
        share = percent(told.unexplained_s / total)
        found.append(("unexplained", _time(told.unexplained_s), share, why))
    found.append(("sum", _time(total), percent(1.0), ""))
    return found


def what_if_rows(told: Explanation, outcomes: list[Outcome]) -> list[tuple[str, str, str, str]]:
    before = told.prediction.unit_s.value
    found = []
    for outcome in outcomes:
        made = outcome.prediction
        if made is None:
            found.append((outcome.word, outcome.why_not, "", ""))
            continue
        # Another batch makes steps that are not alike: whole jobs are compared.
        whole = told.prediction.seconds.value / made.seconds.value
        alike = made.case.units == told.prediction.case.units
        times = before / made.unit_s.value if alike else whole
        found.append((outcome.word, seconds(made.seconds), f"{times:.2f} x", made.bound))
    return found


def _show_against(out: Terminal, versus: Against) -> None:
    first, second = (e.prediction for e in (versus.first, versus.second))
    out.say(f"against {second.primitives.name}: {seconds(second.seconds)}, {second.bound}")
    out.say(versus.verdict)
    titles = {p.name: p.title for p in versus.first.parts}
    table = [
        (
            titles[name],
            _time(_part(versus.first, name)),
            _time(_part(versus.second, name)),
            f"{'+' if by >= 0 else ''}{_time(by)}",
        )
        for name, by in versus.parts
        if abs(by) > 1e-3 * first.seconds.value
    ]
    names = (first.primitives.name, second.primitives.name)
    out.table(("part", *names, "difference"), table, numbers=(1, 2, 3))
    if not versus.flips:
        out.say("None of the remedies tried would turn the order round.")
        return
    out.say("What would turn the order round, or may:")
    for said in versus.flips:
        out.say(f"- {said}")


def _part(told: Explanation, name: str) -> float:
    return next(p.seconds.value for p in told.parts if p.name == name)


def document(
    told: Explanation, outcomes: list[Outcome], versus: Against | None = None
) -> dict[str, Any]:
    """The same as plain values."""
    made = told.prediction
    plain: dict[str, Any] = {
        "job": dict(vars(made.case.job)),
        "device": made.primitives.name,
        "predicted_s": dict(vars(made.seconds)),
        "measured_s": told.measured_s,
        "unexplained_s": told.unexplained_s,
        "bound": made.bound,
        "fits": not missing_bytes(need(made.case), made.primitives.memory_bytes),
        "parts": {p.name: dict(vars(p.seconds)) | {"why": p.why} for p in told.parts},
        "what_if": {o.word: o.prediction and o.prediction.seconds.value for o in outcomes},
    }
    if versus is not None:
        plain["against"] = {
            "device": versus.second.prediction.primitives.name,
            "ratio": versus.ratio,
            "verdict": versus.verdict,
            "decided": versus.is_decided,
            "flips": versus.flips,
            "parts": dict(versus.parts),
        }
    return plain


def render(told: Explanation, outcomes: list[Outcome], versus: Against | None) -> str:
    found = {"schema": SCHEMA, **document(told, outcomes, versus)}
    return json.dumps(found, indent=1) + "\n"
