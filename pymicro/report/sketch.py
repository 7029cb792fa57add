"""Curves in the terminal: a character a point, sizes from left to right, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pymicro.analysis.sweeps import Curve
from pymicro.report.plots.sweep import caches, checked, title
from pymicro.units import binary_bytes, si

_ROWS = 14
_MARKS = "ox+*#%@"
# Characters left of the axis, enough for `9999 GB/s`.
_MARGIN = 12


def lines(curves: Sequence[Curve], width: int) -> list[str]:
    """The sketch, with a legend; in ASCII.

    Raises:
        UsageError: there is no curve to draw.
    """
    sizes = [s.size_bytes for c in checked(curves) for s in c.spots]
    values = [s.value for c in curves for s in c.spots]
    columns = max(20, min(width, 100) - _MARGIN - 1)
    across, up = _scale(min(sizes), max(sizes), columns), _scale(min(values), max(values), _ROWS)
    grid = [[" "] * columns for _ in range(_ROWS)]
    inside = {t: n for t, n in caches(curves).items() if min(sizes) <= n <= max(sizes)}
    for size in inside.values():
        for row in grid:
            row[across(size)] = ":"
    for index, curve in enumerate(curves):
        for spot in curve.spots:
            grid[_ROWS - 1 - up(spot.value)][across(spot.size_bytes)] = _mark(index)
    unit = curves[0].unit
    labels = {0: si(max(values), unit, 3), _ROWS - 1: si(min(values), unit, 3)}
    drawn = [
        f"{labels.get(n, ''):>{_MARGIN}}|{''.join(row).rstrip()}" for n, row in enumerate(grid)
    ]
    first, last = binary_bytes(min(sizes)), binary_bytes(max(sizes))
    axis = f"{' ' * _MARGIN}+{'-' * columns}"
    ends = f"{' ' * (_MARGIN + 1)}{first}{last:>{columns - len(first)}}"
    legend = [f"  {_mark(i)} {curve.label}" for i, curve in enumerate(curves)]
    if inside:
        legend.append(f"  : {', '.join(inside)}")
    return [title(curves), *drawn, axis, ends, *legend]


def _mark(index: int) -> str:
    return _MARKS[index % len(_MARKS)]


def _scale(low: float, high: float, cells: int):
    """From a value to one of `cells` places between two values, logarithmic."""
    span = math.log(high / low) or 1.0

    def place(value: float) -> int:
        return round((cells - 1) * math.log(value / low) / span)

    return place
