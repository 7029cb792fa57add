"""Text on a terminal, by rich; plain ASCII where the terminal can show no more."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from typing import Any, TextIO

_ASCII = str.maketrans(
    {"±": "+-", "³": "^3", "×": "x", "·": "*", "µ": "u", "–": "-", "…": "...", "’": "'"}
)


class Terminal:
    """Prints lines and tables to `out` (default: stdout), folded to its width."""

    def __init__(self, out: TextIO | None = None, width: int | None = None) -> None:
        from rich.console import Console

        self._stream = out or sys.stdout
        self._ascii_only = not _can_encode(self._stream)
        self._console = Console(file=self._stream, width=width, markup=False, highlight=False)

    @property
    def width(self) -> int:
        """Characters that fit into a line."""
        return self._console.width

    def say(self, text: str) -> None:
        self._console.print(self._safe(text))

    def table(
        self, titles: Sequence[str] | None, rows: Sequence[Sequence[str]], numbers: Container[int]
    ) -> None:
        """A table; columns whose index is in `numbers` are aligned right. No titles, no rule."""
        from rich import box
        from rich.console import Console
        from rich.table import Table

        style = box.ASCII2 if self._ascii_only else box.SIMPLE_HEAD
        drawn: Any = Table(
            box=style, pad_edge=False, padding=(0, 1, 0, 0), show_header=titles is not None
        )
        for index, cells in enumerate(zip(*rows, strict=True)):
            title = self._safe(titles[index]) if titles is not None else ""
            if index in numbers:  # A number is never broken; text gives way first.
                width = max(map(len, (title, *cells)))
                drawn.add_column(title, justify="right", no_wrap=True, min_width=width)
            else:
                width = max(
                    len(word) for cell in (title, *cells) for word in (cell.split() or [""])
                )
                drawn.add_column(title, overflow="fold", min_width=min(width, 16))
        for row in rows:
            drawn.add_row(*map(self._safe, row))
        # A table that is wider than the terminal is left to wrap there rather than cropped here.
        unbounded = Console(file=self._stream, width=10_000, markup=False, highlight=False)
        width = max(self._console.width, unbounded.measure(drawn).minimum)
        Console(file=self._stream, width=width, markup=False, highlight=False).print(drawn)

    def _safe(self, text: str) -> str:
        if not self._ascii_only:
            return text
        return text.translate(_ASCII).encode("ascii", "replace").decode()


def _can_encode(stream: TextIO) -> bool:
    try:
        "±³×·µ─│".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
