"""Output whose reader may leave early (`| head`, `| grep -q`): no failure, and no verdict lost."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

# click and rich end the process so where the reader of our output is gone.
GONE = (SystemExit, BrokenPipeError)


@contextlib.contextmanager
def may_go_unread() -> Iterator[None]:
    """Print inside: where nobody reads on, the command still ends with its own exit code.

    For commands whose exit code is a judgement that scripts rely on.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except GONE:
        forget()


def forget() -> None:
    """Send what is left nowhere: Python flushes at exit, which would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
