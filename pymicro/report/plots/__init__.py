"""Pictures: HTML by plotly, PNG and SVG by matplotlib, both loaded when a picture is drawn."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from pymicro.errors import Unavailable, UsageError

_LIBRARIES = {".html": "plotly", ".png": "matplotlib", ".svg": "matplotlib"}


def check(file: str) -> str:
    """The ending of a picture that could be drawn to `file` now; checked before any work.

    Raises:
        UsageError: another ending, or no such folder.
        Unavailable: the library is not installed; the message has the pip line.
    """
    path = Path(file)
    ending = path.suffix.lower()
    if ending not in _LIBRARIES:
        raise UsageError(f"--plot '{file}': a picture ends in .html, .png or .svg.")
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(f"--plot '{file}': there is no folder to put it in.")
    try:
        import_module(_LIBRARIES[ending])
    except ImportError:
        raise Unavailable(
            f"a picture in {ending} needs {_LIBRARIES[ending]}: pip install 'pymicro-gpu[report]'"
        ) from None
    return ending


def draw_comparison(found: Any, file: str) -> None:
    """Draw a comparison to `file`."""
    _draw("comparison", found, file)


def draw_roofline(model: Any, file: str) -> None:
    """Draw a roofline to `file`."""
    _draw("roofline", model, file)


def draw_sweep(curves: Any, file: str) -> None:
    """Draw curves of bandwidth or latency to `file`."""
    _draw("sweep", curves, file)


def draw_waterfall(told: Any, file: str) -> None:
    """Draw the split of a job's time to `file`."""
    _draw("waterfall", told, file)


def _draw(name: str, what: Any, file: str) -> None:
    ending = check(file)
    module = import_module(f"pymicro.report.plots.{name}")
    try:
        (module.html if ending == ".html" else module.image)(what, file)
    except OSError as error:
        raise UsageError(f"--plot '{file}' cannot be written: {error.strerror}.") from error
