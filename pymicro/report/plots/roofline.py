"""A picture of a roofline: roofs by origin, points by format, a point's size its share of time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pymicro.analysis.roofline import Point, Roofline
from pymicro.errors import UsageError

# Apart for most colour-blind readers (Okabe and Ito 2008).
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
_DASHES = {
    "data sheet": ("solid", "-"),
    "probe": ("dash", "--"),
    "at the clock measured": ("dot", ":"),
    "published": ("dashdot", "-."),
}


@dataclass(frozen=True)
class Curve:
    """One roof as a polyline; the last two points of a compute roof are its flat part."""

    label: str
    origin: str
    colour: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


def colours(model: Roofline) -> dict[str, str]:
    return {d: _COLOURS[i % len(_COLOURS)] for i, d in enumerate(model.dtypes)}


def curves(model: Roofline) -> Iterator[Curve]:
    """Every roof: compute roofs flat from where the fastest memory meets them, memory sloped.

    Raises:
        UsageError: there is no roof of both kinds, so there are no axes to draw on.
    """
    memory = [r for r in model.roofs if r.kind == "memory"]
    compute = [r for r in model.roofs if r.kind == "compute"]
    if not memory or not compute:
        raise UsageError(
            f"a roofline of {model.name} needs a compute and a memory roof; one is not known."
        )
    fastest, top = max(r.rate for r in memory), max(r.rate for r in compute)
    low, high = limits(model)
    palette = colours(model)
    for roof in compute:
        xs = (max(roof.rate / fastest, low), high)
        label = f"{roof.of} {roof.origin}"
        yield Curve(label, roof.origin, palette[roof.of], xs, (roof.rate, roof.rate))
    for roof in memory:
        xs = (low, max(top / roof.rate, low * 1.01))
        ys = (xs[0] * roof.rate, xs[1] * roof.rate)
        yield Curve(f"{roof.of.upper()} {roof.origin}", roof.origin, "#555555", xs, ys)


def limits(model: Roofline) -> tuple[float, float]:
    """FLOP per byte from and to which the picture goes, whole decades."""
    memory = [r.rate for r in model.roofs if r.kind == "memory"]
    compute = [r.rate for r in model.roofs if r.kind == "compute"]
    xs = [min(compute) / max(memory), max(compute) / min(memory)]
    xs += [p.point.intensity for p in model.points]
    return 10 ** math.floor(math.log10(min(xs)) - 0.5), 10 ** math.ceil(math.log10(max(xs)) + 0.3)


def _size(point: Point) -> float:
    """Diameter: the area of a mark follows the share of time, if there is one."""
    return 9.0 if point.share_of_time is None else 5 + 40 * math.sqrt(point.share_of_time)


def _said(point: Point) -> str:
    share = "" if point.share_of_time is None else f", {100 * point.share_of_time:.1f} % of time"
    return f"{point.label} {point.dtype}{share}"


def html(model: Roofline, file: str) -> None:
    """An interactive page that needs no network."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for c in curves(model):
        line = {"color": c.colour, "dash": _DASHES[c.origin][0]}
        figure.add_trace(go.Scatter(x=c.xs, y=c.ys, mode="lines", name=c.label, line=line))
    for dtype, colour in colours(model).items():
        own = [p.point for p in model.points if p.point.dtype == dtype]
        if own:
            marker = {"color": colour, "size": [_size(p) for p in own], "line": {"width": 1}}
            spans = {
                "array": [p.high - p.rate for p in own],
                "arrayminus": [p.rate - p.low for p in own],
            }
            figure.add_trace(
                go.Scatter(
                    x=[p.intensity for p in own], y=[p.rate for p in own], mode="markers",
                    name=f"{dtype} results", text=[_said(p) for p in own], marker=marker,
                    error_y=spans,
                )
            )  # fmt: skip
    figure.update_xaxes(type="log", title=f"{model.operations} per byte of compulsory DRAM traffic")
    figure.update_yaxes(type="log", title=f"{model.operations}/s")
    figure.update_layout(title=f"Roofline of {model.name}", template="simple_white")
    figure.write_html(file, include_plotlyjs=True)


def image(model: Roofline, file: str) -> None:
    """A PNG or SVG, by the ending of `file`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes: Any = figure.subplots()
    for c in curves(model):
        axes.plot(c.xs, c.ys, color=c.colour, linestyle=_DASHES[c.origin][1], label=c.label)
    for dtype, colour in colours(model).items():
        own = [p.point for p in model.points if p.point.dtype == dtype]
        if own:
            axes.scatter(
                [p.intensity for p in own], [p.rate for p in own], color=colour,
                s=[_size(p) ** 2 for p in own], edgecolors="black", zorder=3,
                label=f"{dtype} results",
            )  # fmt: skip
            for p in own:
                axes.annotate(p.label, (p.intensity, p.rate), fontsize=6)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"{model.operations} per byte of compulsory DRAM traffic")
    axes.set_ylabel(f"{model.operations}/s")
    axes.set_title(f"Roofline of {model.name}")
    axes.legend(fontsize=7)
    figure.savefig(file, dpi=150)
