"""A picture of a comparison: every ratio with its range, one mark a line, kinds by colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymicro.analysis.compare import Comparison
from pymicro.analysis.figures import KINDS
from pymicro.errors import UsageError

# Apart for most colour-blind readers (Okabe and Ito 2008).
COLOURS = dict(zip(KINDS, ("#0072B2", "#E69F00", "#009E73"), strict=True))


@dataclass(frozen=True)
class Mark:
    label: str
    kind: str
    value: float
    low: float
    high: float


def marks(found: Comparison) -> list[Mark]:
    """One mark a ratio, from top to bottom.

    Raises:
        UsageError: there is no ratio to draw.
    """
    many = len(found.subjects) > 2
    drawn = []
    for line in found.lines:
        for other, ratio in zip(found.subjects[1:], line.ratios, strict=True):
            if ratio is not None:
                against = f", over {other.name}" if many else ""
                unlike = ", unlike" if ratio.forced else ""
                label = f"{line.topic}: {line.what}{against}{unlike}"
                drawn.append(Mark(label, line.kind, ratio.value, ratio.low, ratio.high))
    if not drawn:
        raise UsageError("there is no ratio to draw: nothing of these was comparable.")
    return drawn


def title(found: Comparison) -> str:
    first, *others = (s.name for s in found.subjects)
    return f"{first} over {' and '.join(others)}"


def html(found: Comparison, file: str) -> None:
    """An interactive page that needs no network."""
    import plotly.graph_objects as go

    figure = go.Figure()
    every = marks(found)
    for kind in KINDS:
        own = [m for m in every if m.kind == kind]
        figure.add_trace(
            go.Scatter(
                x=[m.value for m in own],
                y=[m.label for m in own],
                error_x={
                    "array": [m.high - m.value for m in own],
                    "arrayminus": [m.value - m.low for m in own],
                },
                mode="markers",
                name=kind,
                marker={"color": COLOURS[kind], "size": 9},
            )
        )
    figure.add_vline(x=1, line_dash="dot")
    figure.update_xaxes(type="log", title="ratio")
    figure.update_yaxes(
        autorange="reversed", categoryorder="array", categoryarray=[m.label for m in every]
    )
    figure.update_layout(title=title(found), height=160 + 26 * len(every), template="simple_white")
    figure.write_html(file, include_plotlyjs=True)


def image(found: Comparison, file: str) -> None:
    """A PNG or SVG, by the ending of `file`."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    every = marks(found)
    figure = Figure(figsize=(9, 1.2 + 0.26 * len(every)), layout="constrained")
    axes: Any = figure.subplots()
    for kind in KINDS:
        own = [(place, m) for place, m in enumerate(every) if m.kind == kind]
        if own:
            spans = [[m.value - m.low for _, m in own], [m.high - m.value for _, m in own]]
            axes.errorbar(
                [m.value for _, m in own], [place for place, _ in own], xerr=spans, fmt="o",
                color=COLOURS[kind], label=kind, capsize=3,
            )  # fmt: skip
    axes.set_yticks(range(len(every)), [m.label for m in every], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, linestyle=":", color="grey")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(y=0.5 / len(every))
    axes.set_xlabel("ratio")
    axes.set_title(title(found))
    axes.legend()
    figure.savefig(file, dpi=150)
