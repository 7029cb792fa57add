"""How wide the columns of a table are on a screen, and which it can do without. Numbers only."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

# A column of words is still read at this width; longer words are cut there, if they must be.
_NARROWEST_WORDS = 16
# Up to here a long word, as a kernel's name, is worth more than an optional column.
_NAME = 24
# So short a phrase stays on its line.
_WHOLE = 14
# What the drawing adds to each column: its padding or the table's edge, and a divider or an edge.
_FRAME = 2


def drawn_width(widths: Sequence[int]) -> int:
    """Characters of a line whose columns have these widths."""
    return sum(widths) + _FRAME * len(widths)


def widths(
    titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int], room: int
) -> list[int]:
    """A width for each column, `room` characters in all if words can be folded so far.

    Numbers are never broken; the widest column of words gives way first.
    """
    found = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    least = _least(titles, rows, numbers, _NARROWEST_WORDS)
    while drawn_width(found) > room:
        slack = [wide - low for wide, low in zip(found, least, strict=True)]
        able = [i for i, left in enumerate(slack) if left > 0]
        if not able:
            break
        found[max(able, key=found.__getitem__)] -= 1
    return found


def left_out(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[int],
    optional: Sequence[int],
    room: int,
) -> list[int]:
    """Which of the optional columns to leave out, the first of them first, for a table to fit."""
    least = _least(titles, rows, numbers, _NAME)
    gone: list[int] = []
    for index in optional:
        if drawn_width([w for i, w in enumerate(least) if i not in gone]) <= room:
            break
        gone.append(index)
    return gone


def _least(
    titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int], most: int
) -> list[int]:
    """The narrowest width of each column: a number's in full, of words up to `most`."""
    found = []
    for index, cells in enumerate(zip(titles, *rows, strict=True)):
        if index in numbers:
            found.append(max(map(len, cells)))
        else:
            pieces = [p for c in cells for p in ([c] if len(c) <= _WHOLE else c.split())]
            found.append(min(max(map(len, pieces)), most))
    return found


def wrapped(line: str, width: int) -> str:
    """A line broken between words, what follows indented as it is; no word is broken."""
    indent = line[: len(line) - len(line.lstrip())]
    hanging = indent + "  " * line.lstrip().startswith("- ")
    lines = textwrap.wrap(
        line.strip(), width, initial_indent=indent, subsequent_indent=hanging,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines)
