"""Text on a terminal, by rich; plain ASCII where the terminal can show no more."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, TextIO

from pymicro.report import fitting

_ASCII = str.maketrans(
    {"±": "+-", "³": "^3", "×": "x", "·": "*", "µ": "u", "–": "-", "…": "...", "’": "'"}
)


# Lines of a file, where no screen says how long they may be.
_FILE_WIDTH = 160


class Terminal:
    """Prints lines and tables to `out` (default: stdout), folded to its width."""

    def __init__(self, out: TextIO | None = None, width: int | None = None) -> None:
        from rich.console import Console

        self._stream = out or sys.stdout
        self._ascii_only = not _can_encode(self._stream)
        environ = dict(os.environ)
        if environ.get("COLUMNS", "").strip("0") == "":  # Nobody's width, and rich would take it.
            environ.pop("COLUMNS", None)
        self._console = Console(
            file=self._stream, width=width, markup=False, highlight=False, _environ=environ
        )
        # A file or another program has no width of its own, unless it was told.
        told = width is not None or "COLUMNS" in environ
        self._is_narrow = told or self._console.is_terminal

    @property
    def width(self) -> int:
        """Characters that fit into a line."""
        return self._console.width

    def say(self, text: str) -> None:
        """Lines, wrapped between words: an address longer than the screen stays in one piece."""
        for line in self._safe(text).split("\n"):
            self._console.print(fitting.wrapped(line, self.width), soft_wrap=True)

    def table(
        self,
        titles: Sequence[str] | None,
        rows: Sequence[Sequence[str]],
        numbers: Collection[int],
        optional: Sequence[int] = (),
        once: Sequence[int] = (),
    ) -> None:
        """A table; columns whose index is in `numbers` are aligned right. No titles, no rule.

        On a screen too narrow for it, columns of `once` or `optional` whose value is the same in
        every row are said in a line below; if that is not enough, `optional` columns are left
        out, the first of them first, and named. Where the output goes to a file, all stay.
        """
        if not rows:
            return
        if titles is None:
            self._draw(titles, rows, numbers)
            return
        said, lost = self.leaving(titles, rows, numbers, optional, once)
        self._draw(*_without(titles, rows, numbers, {*said, *lost}))
        if alike := [i for i in sorted(said) if rows[0][i]]:
            pairs = ", ".join(f"{titles[i]} {rows[0][i]}" for i in alike)
            self.say(f"The same in every row: {pairs}.")
        if lost:
            names = ", ".join(titles[i] for i in sorted(lost))
            self.say(f"Left out for want of width: {names}; a wider window or a file has them.")

    def leaving(
        self,
        titles: Sequence[str],
        rows: Sequence[Sequence[str]],
        numbers: Collection[int],
        optional: Sequence[int] = (),
        once: Sequence[int] = (),
    ) -> tuple[list[int], list[int]]:
        """The columns that `table` says in a line instead, and those that it leaves out."""
        if not self._is_narrow:
            return [], []
        same = [i for i in (*once, *optional) if len({row[i] for row in rows}) == 1]
        said = fitting.left_out(titles, rows, numbers, same, self.width)
        rest = [i for i in optional if i not in said]
        gone = fitting.left_out(titles, rows, numbers, [*said, *rest], self.width)
        return said, gone[len(said) :]

    def _draw(
        self, titles: Sequence[str] | None, rows: Sequence[Sequence[str]], numbers: Collection[int]
    ) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table

        style = box.ASCII2 if self._ascii_only else box.SIMPLE_HEAD
        drawn: Any = Table(
            box=style, pad_edge=False, padding=(0, 1, 0, 0), show_header=titles is not None
        )
        safe = [[self._safe(cell) for cell in row] for row in rows]
        heads = [self._safe(title) for title in titles or [""] * len(rows[0])]
        room = self.width if self._is_narrow else max(self.width, _FILE_WIDTH)
        widths = fitting.widths(heads, safe, numbers, room)
        for index, (head, width) in enumerate(zip(heads, widths, strict=True)):
            if index in numbers:
                drawn.add_column(head, justify="right", no_wrap=True, width=width)
            else:
                drawn.add_column(head, overflow="fold", width=width)
        for row in safe:
            drawn.add_row(*row)
        # What cannot be narrower than the screen is left to wrap there rather than cropped here.
        width = max(self.width, fitting.drawn_width(widths))
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


def _without(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[int],
    gone: Collection[int],
) -> tuple[list[str], list[list[str]], set[int]]:
    """A table less some columns."""
    kept = [i for i in range(len(titles)) if i not in gone]
    places = {old: new for new, old in enumerate(kept)}
    return (
        [titles[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        {places[i] for i in numbers if i in places},
    )
