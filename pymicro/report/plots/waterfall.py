"""A waterfall: the parts of a job's time, one on top of the other, up to what was measured."""

from __future__ import annotations

from typing import Any

from pymicro.analysis.explain import Explanation

_UP, _DOWN, _TOTAL, _OPEN = "#0072B2", "#009E73", "#555555", "#E69F00"


def steps(told: Explanation) -> list[tuple[str, float, float, str]]:
    """Title, where a bar begins, its height, its colour; the last bar is the sum."""
    found, reached = [], 0.0
    for part in told.parts:
        value = part.seconds.value
        found.append((part.title, reached, value, _UP if value >= 0 else _DOWN))
        reached += value
    if told.unexplained_s is not None:
        found.append(("unexplained", reached, told.unexplained_s, _OPEN))
        reached += told.unexplained_s
    found.append(("predicted" if told.measured_s is None else "measured", 0.0, reached, _TOTAL))
    return found


def image(told: Explanation, file: str) -> None:
    """A PNG or SVG, by the ending of `file`."""
    from matplotlib.figure import Figure

    bars = steps(told)
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes: Any = figure.add_subplot()
    places = range(len(bars))
    axes.bar(places, [b[2] for b in bars], bottom=[b[1] for b in bars], color=[b[3] for b in bars])
    for place, (_, bottom, height, _) in zip(places, bars, strict=True):
        text = f"{height:.3g}"
        axes.annotate(text, (place, bottom + max(height, 0)), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(list(places), [b[0] for b in bars], rotation=30, ha="right", fontsize=8)
    # Room for the figure over the highest bar: matplotlib ends the axis at a bar's own edge.
    axes.set_ylim(0, 1.08 * max(bottom + max(height, 0) for _, bottom, height, _ in bars))
    axes.set_ylabel("seconds")
    made = told.prediction
    axes.set_title(f"{made.case.label}\n{made.primitives.name}", fontsize=9)
    figure.savefig(file, dpi=150)


def html(told: Explanation, file: str) -> None:
    """A page that needs no network."""
    import plotly.graph_objects as go

    bars = steps(told)
    made = told.prediction
    kinds = ["relative"] * (len(bars) - 1) + ["total"]
    figure = go.Figure(go.Waterfall(x=[b[0] for b in bars], y=[b[2] for b in bars], measure=kinds))
    figure.update_layout(
        title=f"{made.case.label}<br>{made.primitives.name}", yaxis_title="seconds"
    )
    figure.write_html(file, include_plotlyjs=True)
