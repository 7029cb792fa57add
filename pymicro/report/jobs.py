"""Predictions and choices of cards in words and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pymicro.analysis.memory_need import Need
from pymicro.analysis.predict import Prediction, used
from pymicro.analysis.recommend import Choice, Several, needs_nvlink
from pymicro.analysis.values import Value
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA
from pymicro.units import binary_bytes, percent, si
from pymicro.workloads.precisions import PRECISIONS

# Longer times are read in hours.
_LONG_S = 2 * 3600


def seconds(value: Value | float) -> str:
    """A time with its interval: `25.4 s (16.9 to 46.0)`; small ones with a prefix."""
    if not isinstance(value, Value):
        return _time(value)
    return _interval([_time(x) for x in (value.value, value.low, value.high)])


def _interval(texts: list[str]) -> str:
    """A value with its ends, the unit once where it is that of all three."""
    units = {text.rsplit(" ", 1)[1] for text in texts if not text.startswith("0 ")}
    middle, low, high = texts
    if len(units) == 1:
        low, high = low.rsplit(" ", 1)[0], high.rsplit(" ", 1)[0]
    return f"{middle} ({low} to {high})"


def _time(value: float) -> str:
    if abs(value) >= _LONG_S:
        return f"{value / 3600:,.3g} h"
    if abs(value) >= 1000:
        return f"{value:,.0f} s"
    # Nothing on a device is shorter than a clock; what is, is rounding of a difference.
    return si(value if abs(value) >= 1e-10 else 0.0, "s", 3)


def show_prediction(made: Prediction, chosen: Choice, note: str = "") -> None:
    """A prediction as text."""
    out = Terminal()
    out.say(f"{made.case.label}\non {made.primitives.name}{f' ({note})' if note else ''}")
    for said in (*made.case.notes, *format_notes(made)):
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
            ("energy", f"{si(made.energy_j.low, 'J', 3)} to {si(made.energy_j.high, 'J', 3)}")
        )
    if not chosen.fits:
        rows.append(("spilling", f"with the rest in the host's memory: {seconds(chosen.seconds)}"))
    rows += [(f"on {many.gpus} cards", _several(many)) for many in chosen.several]
    if needs_nvlink(chosen) is not None:
        rows.append(("NVLink", "needed" if needs_nvlink(chosen) else "not needed"))
    out.table(None, rows, numbers=())
    show_sources(made, [many.link for many in chosen.several])


def format_notes(made: Prediction) -> Iterator[str]:
    """That a format has no path of its own on this card, so that FP32 stands in for it."""
    short = PRECISIONS[made.case.job.precision].products
    peaks = made.primitives.peak_flop_per_s
    if short != "fp32" and peaks.get(short, 0.0) < peaks.get("fp32", 0.0):
        yield f"{short} has no fast path here; its products run at the rate of fp32."


def show_sources(made: Prediction, links: Iterable[str] = ()) -> None:
    """Where the primitives of this job are from; addresses stand whole below the table."""
    rows, addresses = [], dict[str, int]()

    def numbered(found: re.Match[str]) -> str:
        return f"[{addresses.setdefault(found[0], len(addresses) + 1)}]"

    for name, value in used(made, links).items():
        source = _ADDRESS.sub(numbered, value.source)
        rows.append((*quantity(name, value), value.kind, source))
    count = len(made.primitives.product_s)
    if count:
        rows.append(("products", f"{count} shapes", "measured", "at exactly these shapes"))
    out = Terminal()
    out.table(("primitive", "value", "evidence", "source"), rows, numbers=(1,))
    for address, number in addresses.items():
        out.say(f"[{number}] {address}")


_ADDRESS = re.compile(r"https?://[^\s,;)]+")


# What primitives are called where they are shown.
_TITLES = {
    "flop_per_s": "products,",
    "clock_share": "share of the clock,",
    "batched_share": "share in batches,",
    "allreduce_bytes_per_s": "all-reduce,",
    "dram_bytes_per_s": "memory",
    "l2_bytes_per_s": "L2 cache",
    "floor_s": "shortest kernel",
    "gap_s": "gap between kernels",
    "graph_gap_s": "gap inside a graph",
    "reach_s": "call to start of kernel",
    "link_bytes_per_s": "link to the host",
    "link_start_s": "start of a copy",
    "host_operator_s": "host, an operator",
}
# What the end of a primitive's name says of its unit; a share has none.
_UNITS = {"flop_per_s": "FLOP/s", "bytes_per_s": "B/s", "_s": "s"}


def quantity(name: str, value: Value) -> tuple[str, str]:
    """What a primitive is called, and its value with its interval and unit."""
    field, _, of = name.partition(" ")
    of = f"({of})" if of and field == "host_operator_s" else of
    title, ends = f"{_TITLES[field]} {of}".strip(), (value.value, value.low, value.high)
    unit = next((unit for end, unit in _UNITS.items() if field.endswith(end)), None)
    if unit is None:
        return title, f"{ends[0]:.3g} ({ends[1]:.3g} to {ends[2]:.3g})"
    return title, _interval([si(x, unit, 3) for x in ends])


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


def prediction_json(made: Prediction, chosen: Choice) -> str:
    """A prediction as a JSON document."""
    return json.dumps({"schema": SCHEMA, **document(made, chosen)}, indent=1) + "\n"


def document(made: Prediction, chosen: Choice) -> dict[str, Any]:
    job = {k: v for k, v in vars(made.case.job).items()}
    return {
        "job": job,
        "device": made.primitives.name,
        "seconds": plain(made.seconds),
        f"{made.unit}_s": plain(made.unit_s),
        "bound": made.bound,
        "bound_evidence": made.bound_by.kind,
        "busy_share": made.busy_share,
        "memory_bytes": _need(chosen.need),
        "fits": chosen.fits,
        "most_batch": chosen.most_batch,
        "spilling_s": None if chosen.fits else plain(chosen.seconds),
        "energy_j": plain(made.energy_j) if made.energy_j is not None else None,
        "several": [__plain_several(many) for many in chosen.several],
        "primitives": {k: plain(v) for k, v in made.primitives.values().items()},
    }


def __plain_several(many: Several) -> dict[str, Any]:
    return {
        "gpus": many.gpus,
        "link": many.link,
        "seconds": plain(many.seconds),
        "allreduce_s": plain(many.allreduce_s),
        "exposed_s": many.exposed_s,
        "efficiency": many.efficiency,
    }


def _need(need: Need) -> dict[str, float]:
    return {**need.parts(), "total": need.total}


def plain(value: Value) -> dict[str, Any]:
    return dict(vars(value))
