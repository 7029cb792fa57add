"""What can go wrong, by what the user can do about it; each kind carries its exit code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any


class PymicroError(Exception):
    """A problem told in one sentence, without a traceback."""

    exit_code = 1


class UsageError(PymicroError):
    """A word, path or size that cannot be meant: nothing was measured."""

    exit_code = 2


class Unavailable(PymicroError):
    """Cannot run here; the message is the reason that the skipped case will carry.

    `instead` holds parameters, by name, with which the case could run; it is then tried so.
    """

    exit_code = 3

    def __init__(self, *said: object, instead: Mapping[str, Any] | None = None) -> None:
        super().__init__(*said)
        self.instead = instead


class WrongResult(PymicroError):
    """A kernel computed something else than asked; it gets no time."""


def unknown(kind: str, word: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not in a table, with the nearest names that are."""
    names = sorted(known)
    near = difflib.get_close_matches(word.lower(), [n.lower() for n in names], n=3, cutoff=0.5)
    near = [n for n in names if n.lower() in near]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}."
    return UsageError(f"unknown {kind} '{word}'; {hint}")


# A folder in somebody's message tells who and where; its last part says what was meant.
_FOLDERS = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][^\\/\s'\":;,()<>]+)+[\\/](?=[^\\/\s])")


def without_folders(text: str) -> str:
    """A message with every path shortened to its last part, fit for a record."""
    return _FOLDERS.sub("", text)
