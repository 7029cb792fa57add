"""Predictions and choices of cards in words and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pymicro.analysis.memory_need import Need
from pymicro.analysis.predict import Prediction
from pymicro.analysis.recommend import Choice, Several, needs_nvlink
from pymicro.analysis.values import Value
from pymicro.report.terminal import Terminal
from pymicro.units import binary_bytes, percent, si


def seconds(value: Value | float) -> str:
    """A time with its interval: `25.4 s (16.9 to 46.0)`; small ones with a prefix."""
    if not isinstance(value, Value):
        return _time(value)
    return f"{_time(value.value)} ({_time(value.low)} to {_time(value.high)})"


def _time(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f} s"
    # Nothing on a device is shorter than a clock; what is, is rounding of a difference.
    return si(value if abs(value) >= 1e-10 else 0.0, "s", 3)


def show_prediction(made: Prediction, chosen: Choice, note: str = "") -> None:
    """A prediction as text."""
    out = Terminal()
    out.say(f"{made.case.label}\non {made.primitives.name}{f' ({note})' if note else ''}")
    for said in made.case.notes:
        out.say(f"note: {said}")
    rows = [
        ("time" if chosen.fits else "time if it fitted", seconds(made.seconds)),
        (f"one {made.unit}", seconds(made.unit_s)),
        ("bound by", made.bound),
        ("device busy", percent(made.busy_share)),
        ("kernels", f"{made.simulation.total.kernels / max(made.case.units[0], 1):.0f} "
                    f"a {made.unit}"),
        ("memory", _memory(chosen)),
    ]  # fmt: skip
    if made.energy_j is not None:
        rows.append(
            ("energy", f"{made.energy_j.low / 1e3:.3g} to {made.energy_j.high / 1e3:.3g} kJ")
        )
    if not chosen.fits:
        rows.append(("spilling", f"with the rest in the host's memory: {seconds(chosen.seconds)}"))
    rows += [(f"on {many.gpus} cards", _several(many)) for many in chosen.several]
    if needs_nvlink(chosen) is not None:
        rows.append(("NVLink", "needed" if needs_nvlink(chosen) else "not needed"))
    out.table(None, rows, numbers=())
    show_sources(made)


def show_sources(made: Prediction) -> None:
    """Where the primitives are from."""
    rows = []
    for name, value in made.primitives.values().items():
        rows.append((name, _quantity(name, value), value.kind, value.source))
    count = len(made.primitives.products)
    if count:
        rows.append(("products", f"{count} shapes", "measured", "at exactly these shapes"))
    Terminal().table(("primitive", "value", "evidence", "source"), rows, numbers=())


_UNITS = {"rates": "FLOP/s", "dram": "B/s", "l2": "B/s", "link": "B/s", "allreduce": "B/s"}


def _quantity(name: str, value: Value) -> str:
    unit = _UNITS.get(name.split()[0], "s")
    if name.startswith(("clock", "batched_share")):
        return f"{value.value:.3g} ({value.low:.3g} to {value.high:.3g})"
    return f"{si(value.value, unit, 3)} ({si(value.low, unit, 3)} to {si(value.high, unit, 3)})"


def _memory(chosen: Choice) -> str:
    whole = binary_bytes(int(chosen.need.total))
    held = chosen.prediction.primitives.memory_bytes
    if held is None:
        return f"{whole} needed"
    parts = ", ".join(f"{n} {binary_bytes(int(b))}" for n, b in chosen.need.parts().items() if b)
    word = "fits" if chosen.fits else "does not fit"
    most = f"; batch {chosen.most_batch} at most" if chosen.most_batch else "; no batch fits"
    return f"{whole} of {binary_bytes(held)}: {word} ({parts}){most}"


def _several(many: Several) -> str:
    text = f"{seconds(many.seconds)} over {many.link}"
    if many.allreduce_s.value:
        text += (
            f"; all-reduce {seconds(many.allreduce_s)} a step, {seconds(many.exposed_s)} of it "
            f"not hidden; {percent(many.efficiency)} of {many.gpus} times one card"
        )
    return text


def _links(chosen: Choice) -> str:
    """What is left of several cards over each link, and whether NVLink is needed."""
    kept = [f"{m.link} {percent(m.efficiency)}, {_time(m.seconds.value)}" for m in chosen.several]
    need = {True: ": NVLink needed", False: ": NVLink not needed", None: ""}[needs_nvlink(chosen)]
    return "; ".join(kept) + need


def choice_rows(choices: Sequence[Choice], has_prices: bool) -> tuple[list[str], list[list[str]]]:
    """Titles and rows of a table of cards."""
    titles = ["card", "fits", "time", "bound by", "energy", "evidence"]
    titles += ["cost"] if has_prices else []
    titles += ["several cards"] if any(c.several for c in choices) else []
    rows = []
    for c in choices:
        energy = c.prediction.energy_j
        row = [
            c.prediction.primitives.name.removeprefix("NVIDIA "),
            "yes" if c.fits else f"no: {binary_bytes(int(c.need.total))} needed",
            seconds(c.seconds),
            c.prediction.bound.split(":")[0] if c.fits else "the link: it spills",
            f"{energy.value / 1e3:.3g} kJ" if energy else "",
            c.prediction.seconds.kind,
        ]
        if has_prices:
            row.append(f"{c.cost.value:.3g}" if c.cost else "")
        if "several cards" in titles:
            row.append(_links(c))
        rows.append(row)
    return titles, rows


def prediction_json(made: Prediction, chosen: Choice) -> str:
    """A prediction as a JSON document."""
    return json.dumps(document(made, chosen), indent=1) + "\n"


def document(made: Prediction, chosen: Choice) -> dict[str, Any]:
    job = {k: v for k, v in vars(made.case.job).items()}
    return {
        "job": job,
        "device": made.primitives.name,
        "seconds": _plain(made.seconds),
        f"{made.unit}_s": _plain(made.unit_s),
        "bound": made.bound,
        "busy_share": made.busy_share,
        "memory_bytes": _need(chosen.need),
        "fits": chosen.fits,
        "most_batch": chosen.most_batch,
        "spilling_s": None if chosen.fits else _plain(chosen.seconds),
        "energy_j": _plain(made.energy_j) if made.energy_j is not None else None,
        "several": [_plain_several(many) for many in chosen.several],
        "primitives": {k: _plain(v) for k, v in made.primitives.values().items()},
    }


def _plain_several(many: Several) -> dict[str, Any]:
    return {
        "gpus": many.gpus,
        "link": many.link,
        "seconds": _plain(many.seconds),
        "allreduce_s": _plain(many.allreduce_s),
        "exposed_s": many.exposed_s,
        "efficiency": many.efficiency,
    }


def _need(need: Need) -> dict[str, float]:
    return {**need.parts(), "total": need.total}


def _plain(value: Value) -> dict[str, Any]:
    return dict(vars(value))
