"""The split of a job's time and a comparison of two cards, as text or as JSON."""

from __future__ import annotations

import json
from typing import Any

from pymicro.analysis.against import Against
from pymicro.analysis.explain import Explanation
from pymicro.analysis.memory_need import missing_bytes, need
from pymicro.analysis.what_if import Outcome
from pymicro.report.jobs import _time, seconds
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA
from pymicro.units import binary_bytes, percent


def show(
    told: Explanation, outcomes: list[Outcome], versus: Against | None = None, note: str = ""
) -> None:
    """Everything about one job on one device, and against another."""
    out = Terminal()
    made = told.prediction
    out.say(f"{made.case.label}\non {made.primitives.name}{f' ({note})' if note else ''}")
    for said in made.case.notes:
        out.say(f"note: {said}")
    if missing := missing_bytes(need(made.case), made.primitives.memory_bytes):
        out.say(
            f"note: {binary_bytes(round(missing))} of the job do not fit the card; the parts below "
            "are of a card that held them, and `pymicro predict` says what spilling them costs."
        )
    if told.measured_s is not None:
        word = "inside" if told.agrees else "outside"
        out.say(f"measured {_time(told.measured_s)}, {word} the prediction {seconds(made.seconds)}")
    else:
        out.say(f"predicted {seconds(made.seconds)}; one {made.unit}: {seconds(made.unit_s)}")
    out.say(f"bound by {made.bound}")
    out.table(("part", "time", "share", "rests on"), rows(told), numbers=(2,))
    if outcomes:
        out.table(("what if", "time", "speed-up", "bound by"), what_if_rows(told, outcomes), (2,))
    if versus is not None:
        _show_against(out, versus)


def rows(told: Explanation) -> list[tuple[str, str, str, str]]:
    """Parts, the longest first, then what is not explained and the sum."""
    total = told.total_s
    found = [
        (part.title, seconds(part.seconds), percent(part.seconds.value / total), part.why)
        for part in told.ranked()
        if abs(part.seconds.value) > 1e-4 * total or part.seconds.high > 1e-3 * total
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
    for said in versus.flips or ("none of the remedies tried turns the order round.",):
        out.say(said if said.endswith(".") else f"would turn the order round: {said}")


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
        "parts": {p.name: dict(vars(p.seconds)) | {"why": p.why} for p in told.parts},
        "what_if": {o.word: o.prediction and o.prediction.seconds.value for o in outcomes},
    }
    if versus is not None:
        plain["against"] = {
            "device": versus.second.prediction.primitives.name,
            "ratio": versus.ratio,
            "verdict": versus.verdict,
            "flips": versus.flips,
            "parts": dict(versus.parts),
        }
    return plain


def render(told: Explanation, outcomes: list[Outcome], versus: Against | None) -> str:
    found = {"schema": SCHEMA, **document(told, outcomes, versus)}
    return json.dumps(found, indent=1) + "\n"
