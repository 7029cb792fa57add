"""A picture of sweeps: bandwidth or latency against bytes touched, caches and levels marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymicro.analysis.sweeps import Curve
from pymicro.errors import UsageError
from pymicro.units import binary_bytes

# Apart for most colour-blind readers (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
_AXES = {"s": ("latency of a step (ns)", 1e9), "B/s": ("bandwidth (GB/s)", 1e-9)}


def checked(curves: Sequence[Curve]) -> Sequence[Curve]:
    """The curves, if there is a picture in them.

    Raises:
        UsageError: no curve, or curves of different units.
    """
    if not curves:
        raise UsageError("there is no curve to draw: it takes several sizes, as 16KiB:1GiB:x2.")
    if len({c.unit for c in curves}) > 1:
        raise UsageError("latency and bandwidth do not share axes.")
    return curves


def title(curves: Sequence[Curve]) -> str:
    first = curves[0].results[0]
    return f"{first.benchmark.capitalize()} of {first.device.get('name', 'this device')}"


def caches(curves: Sequence[Curve]) -> dict[str, int]:
    """Sizes of caches in the device's row, as labelled lines."""
    known = curves[0].results[0].device.get("caches") or {}
    return {f"{name} {binary_bytes(size)}": size for name, size in known.items()}


def ticks(curves: Sequence[Curve]) -> list[int]:
    """Powers of two, few enough to be read."""
    sizes = [s.size_bytes for c in curves for s in c.spots]
    first, last = min(sizes).bit_length() - 1, max(sizes).bit_length()
    step = max(1, (last - first) // 8)
    return [2**n for n in range(first, last + 1, step)]


def html(curves: Sequence[Curve], file: str) -> None:
    """An interactive page that needs no network."""
    import plotly.graph_objects as go

    name, scale = _AXES[checked(curves)[0].unit]
    figure = go.Figure()
    for index, curve in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        values = [s.value * scale for s in curve.spots]
        spans = {
            "array": [(s.high - s.value) * scale for s in curve.spots],
            "arrayminus": [(s.value - s.low) * scale for s in curve.spots],
        }
        figure.add_trace(
            go.Scatter(
                x=[s.size_bytes for s in curve.spots], y=values, error_y=spans, name=curve.label,
                mode="lines+markers", line={"color": colour},
                text=[binary_bytes(s.size_bytes) for s in curve.spots],
            )
        )  # fmt: skip
    for text, size in caches(curves).items():
        figure.add_vline(x=size, line_dash="dot", annotation_text=text)
    for low, high, cost in _plateaus(curves):
        line = {"color": "#888888", "width": 6}
        figure.add_shape(
            type="line", x0=low, x1=high, y0=cost, y1=cost, line=line, opacity=0.4, layer="below"
        )
    marks = ticks(curves)
    figure.update_xaxes(
        type="log", title="bytes touched", tickvals=marks, ticktext=list(map(binary_bytes, marks))
    )
    figure.update_yaxes(type="log", title=name)
    figure.update_layout(title=title(curves), template="simple_white")
    figure.write_html(file, include_plotlyjs=True)


def image(curves: Sequence[Curve], file: str) -> None:
    """A PNG or SVG, by the ending of `file`."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    name, scale = _AXES[checked(curves)[0].unit]
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes: Any = figure.subplots()
    for low, high, cost in _plateaus(curves):
        axes.plot([low, high], [cost, cost], color="#888888", linewidth=6, alpha=0.4, zorder=1)
    for index, curve in enumerate(curves):
        values = [s.value * scale for s in curve.spots]
        spans = [
            [(s.value - s.low) * scale for s in curve.spots],
            [(s.high - s.value) * scale for s in curve.spots],
        ]
        axes.errorbar(
            [s.size_bytes for s in curve.spots], values, yerr=spans, fmt=".-", capsize=2,
            color=COLOURS[index % len(COLOURS)], label=curve.label,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for text, size in caches(curves).items():
        axes.axvline(size, linestyle=":", color="grey")
        axes.text(
            size, 1, f" {text}", fontsize=7, va="bottom", transform=axes.get_xaxis_transform()
        )
    marks = ticks(curves)
    axes.set_xticks(marks, list(map(binary_bytes, marks)), fontsize=8)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("bytes touched")
    axes.set_ylabel(name)
    axes.set_title(title(curves), pad=18)
    axes.legend(fontsize=8)
    figure.savefig(file, dpi=150)


def _plateaus(curves: Sequence[Curve]) -> list[tuple[int, int, float]]:
    """Levels of each curve, in the units of the axes."""
    found = []
    for curve in curves:
        _, scale = _AXES[curve.unit]
        for level in curve.levels:
            value = 1 / level.seconds if curve.unit == "B/s" else level.seconds
            found.append((level.first_bytes, level.last_bytes, value * scale))
    return found
