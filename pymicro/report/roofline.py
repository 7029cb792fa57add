"""A roofline as text: a drawing in characters, the roofs with their ridges, and the points."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pymicro.analysis.roofline import Placed, Roof, Roofline
from pymicro.dtypes import rate_unit
from pymicro.report.terminal import Terminal
from pymicro.results import SCHEMA
from pymicro.units import percent, si

_WIDEST, _NARROWEST, _HEIGHT = 64, 24, 16
# Characters left of the drawing, and a blank between it and the names of its roofs.
_MARGIN = 15
_MOST_MARKS = 26
_BOUNDS = {"compute": "compute", "dram": "DRAM", "": ""}


def show(model: Roofline, terminal: Terminal | None = None) -> None:
    """Print the drawing and the tables."""
    terminal = terminal or Terminal()
    terminal.say(f"Roofline of {model.name}")
    for line in drawing(model, terminal.width):
        terminal.say(line)
    terminal.table(roof_titles(model), list(roof_rows(model)), numbers={3, 4})
    if model.points:
        rows = [list(r) for r in point_rows(model)]
        terminal.table(point_titles(model), rows, {3, 4, 5, 6, 8}, _POINTS_LEAVING, _POINTS_ONCE)
    for said in (*notes(model), *model.absent):
        terminal.say(said)


def render(model: Roofline, format_: str) -> str:
    """The roofline as text in one of the report's formats."""
    if format_ == "json":
        return _json(model)
    if format_ == "csv":
        return _csv(model)
    if format_ == "markdown":
        return _markdown(model)
    out = io.StringIO()
    show(model, Terminal(out, width=200))
    return out.getvalue()


# What a narrow screen leaves out first, and what it says once where all rows agree.
_POINTS_LEAVING, _POINTS_ONCE = (5, 3), (2, 7)


def roof_titles(model: Roofline) -> list[str]:
    return ["roof", "of", "from", "rate", f"ridge ({model.operations}/B)", "source"]


def point_titles(model: Roofline) -> list[str]:
    return [
        "mark", "what", "dtype", f"{model.operations}/B", "rate", "attainable", "of attainable",
        "bound by", "of the time",
    ]  # fmt: skip


def roof_rows(model: Roofline) -> Iterator[list[str]]:
    for roof in model.roofs:
        unit = rate_unit(roof.of) if roof.kind == "compute" else "B/s"
        ridge = model.ridge(roof) if roof.kind == "compute" else None
        rate = si(roof.rate, unit)
        if roof.origin == "published" and roof.low < roof.high:
            rate = f"{si(roof.low, unit)} to {rate}"
        elif roof.origin == "probe":
            rate = f"{rate} ±{_half_percent(roof):.1f} %"
        yield [
            roof.kind, roof.of, roof.origin, rate, f"{ridge:.1f}" if ridge else "", roof.source
        ]  # fmt: skip


def point_rows(model: Roofline) -> Iterator[list[str]]:
    for mark, placed in zip(_marks(), model.points, strict=False):
        p = placed.point
        unit = rate_unit(p.dtype)
        yield [
            mark, p.label, p.dtype, f"{p.intensity:.4g}", si(p.rate, unit),
            si(placed.attainable, unit) if placed.attainable else "",
            percent(placed.fraction) if placed.fraction else "", _BOUNDS[placed.bound_by],
            percent(p.share_of_time) if p.share_of_time is not None else "",
        ]  # fmt: skip


def _marks() -> Iterator[str]:
    for number in range(10**6):
        yield chr(ord("A") + number) if number < _MOST_MARKS else f"{number + 1}"


def notes(model: Roofline) -> Iterator[str]:
    """What a reader must know of the drawing."""
    if model.points:
        yield f"{model.operations}/B counts compulsory traffic only: each operand once."
    above = [p for p in model.points if p.fraction and p.fraction > 1]
    yield from dict.fromkeys(_why_above(p.roof) for p in above if p.roof)


def _why_above(roof: Roof) -> str:
    """How a point can lie above a roof of this kind and origin."""
    head = f"Above 100 % of {'DRAM' if roof.kind == 'memory' else roof.of}"
    measured = f"(±{_half_percent(roof):.1f} %, {roof.source})"
    if roof.kind == "memory":
        also = f", or memory was slower when it was probed {measured}"
        return f"{head}: data came from a cache{also if roof.origin == 'probe' else ''}."
    if roof.origin == "probe":
        return (
            f"{head}: its roof was probed at another time {measured}; `pymicro peak` probes it "
            "again."
        )
    return f"{head}: the clock was above the one that the {roof.origin} counts with."


def _half_percent(roof: Roof) -> float:
    """Half the width of its interval, in percent of the rate."""
    return 100 * (roof.high - roof.low) / 2 / roof.rate


def drawing(model: Roofline, room: int = 100) -> list[str]:
    """Both axes logarithmic: the data sheet's roofs as lines, points as letters.

    `room` is the number of characters in a line, with the names of the roofs on the right.
    """
    dram = model.best("memory", "dram")
    tops = [r for d in model.dtypes if (r := model.best("compute", d))]
    if dram is None or not tops:
        return []
    x_low, x_high, y_low, y_high = bounds(model, dram, tops)
    names = _names(tops, y_low, y_high)
    longest = max(map(len, names.values()))
    width = max(_NARROWEST, min(_WIDEST, room - _MARGIN - longest))
    grid = [[" "] * width for _ in range(_HEIGHT)]

    def put(x: float, y: float, mark: str) -> None:
        column = round((math.log10(x) - x_low) / (x_high - x_low) * (width - 1))
        row = round((math.log10(y) - y_low) / (y_high - y_low) * (_HEIGHT - 1))
        if 0 <= column < width and 0 <= row < _HEIGHT:
            grid[_HEIGHT - 1 - row][column] = mark

    for roof in tops:
        for step in range(4 * width):
            x = 10 ** (x_low + (x_high - x_low) * step / (4 * width - 1))
            slope = dram.rate * x < roof.rate
            put(x, min(roof.rate, dram.rate * x), "/" if slope else "-")
    for mark, placed in zip(_marks(), model.points[:_MOST_MARKS], strict=False):
        put(placed.point.intensity, placed.point.rate, mark)
    return _framed(grid, names, (x_low, x_high, y_low, y_high), model.operations)


def bounds(model: Roofline, dram: Roof, tops: list[Roof]) -> tuple[float, float, float, float]:
    """Decades of FLOP per byte and of FLOP/s that hold all ridges and points."""
    xs = [r.rate / dram.rate for r in tops] + [p.point.intensity for p in model.points]
    x_low, x_high = math.floor(math.log10(min(xs)) - 1), math.ceil(math.log10(max(xs)) + 0.5)
    ys = [p.point.rate for p in model.points] + [dram.rate * 10**x_low]
    return x_low, x_high, math.log10(min(ys)), math.log10(max(r.rate for r in tops)) + 0.1


def _framed(
    grid: list[list[str]],
    names: dict[int, str],
    span: tuple[float, float, float, float],
    operations: str,
) -> list[str]:
    x_low, x_high, y_low, y_high = span
    lines = []
    for number, row in enumerate(grid):
        at = 10 ** (y_high - (y_high - y_low) * number / (_HEIGHT - 1))
        label = si(at, f"{operations}/s", 2) if number % 5 == 0 else ""
        lines.append(f"{label:>12} |{''.join(row)} {names.get(number, '')}".rstrip())
    ends = f"{10**x_low:g}", f"{10**x_high:g} {operations}/B"
    lines.append(f"{'':>12} +{'-' * len(grid[0])}")
    lines.append(f"{'':>13} {ends[0]}{ends[1]:>{len(grid[0]) - len(ends[0])}}")
    return lines


def _names(tops: list[Roof], y_low: float, y_high: float) -> dict[int, str]:
    """The formats of the roofs that a row of the drawing shows."""
    names: dict[int, list[str]] = {}
    for roof in tops:
        names.setdefault(_row_of(roof.rate, y_low, y_high), []).append(roof.of)
    return {row: ", ".join(of) for row, of in names.items()}


def _row_of(rate: float, y_low: float, y_high: float) -> int:
    return _HEIGHT - 1 - round((math.log10(rate) - y_low) / (y_high - y_low) * (_HEIGHT - 1))


def _placed(placed: Placed) -> dict[str, Any]:
    own = {"attainable": placed.attainable, "fraction": placed.fraction}
    return asdict(placed.point) | own | {"bound_by": placed.bound_by or None}


def _json(model: Roofline) -> str:
    roofs = [asdict(r) | {"ridge": model.ridge(r)} for r in model.roofs if r.kind == "compute"]
    roofs += [asdict(r) for r in model.roofs if r.kind == "memory"]
    document = {
        "schema": SCHEMA,
        "roofline": {
            "device": model.name,
            "dtypes": model.dtypes,
            "roofs": roofs,
            "points": [_placed(p) for p in model.points],
            "absent": model.absent,
        },
    }
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _csv(model: Roofline) -> str:
    columns = (
        "what", "kind", "of", "origin", "rate", "low", "high", "intensity", "attainable",
        "fraction", "bound_by", "share_of_time", "source",
    )  # fmt: skip
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for roof in model.roofs:
        writer.writerow(asdict(roof) | {"what": "roof"})
    for placed in model.points:
        row = _placed(placed)
        writer.writerow(row | {"what": "point", "of": row["dtype"], "source": row["label"]})
    return out.getvalue()


def _markdown(model: Roofline) -> str:
    lines = [f"## Roofline of {model.name}", "", "```", *drawing(model), "```", ""]
    lines += _table(roof_titles(model), roof_rows(model))
    if model.points:
        lines += ["", *_table(point_titles(model), point_rows(model))]
    lines += ["", *(f"- {said}" for said in (*notes(model), *model.absent))]
    return "\n".join(lines).rstrip() + "\n"


def _table(titles: list[str], rows: Iterator[list[str]]) -> list[str]:
    head = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return head + ["| " + " | ".join(cell.replace("|", "\\|") for cell in r) + " |" for r in rows]
