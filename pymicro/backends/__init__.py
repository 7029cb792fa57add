"""Who can run a case. A backend is a module here (or an entry point `pymicro.backends`) that has
a value `BACKEND`; nothing is imported before a case runs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from pymicro.backends.base import Backend, BrokenBackend, Prepared
from pymicro.errors import unknown

__all__ = ["Backend", "Prepared", "backend", "names"]

# In the order in which tables list them: our own first, then the libraries they are compared with.
_OWN = ("native", "cuda", "triton", "cupy", "numba", "torch")


def names() -> tuple[str, ...]:
    """All backends by name, whether they can run here or not."""
    return _OWN + tuple(e.name for e in entry_points(group="pymicro.backends"))


def backend(name: str) -> Backend:
    """Import a backend's module; the library under it is imported when a case is prepared.

    Raises:
        UsageError: no such backend.
    """
    if name in _OWN:
        return import_module(f"pymicro.backends.{name}").BACKEND
    for entry in entry_points(group="pymicro.backends"):
        if entry.name == name:
            try:
                return entry.load()
            except Exception as error:  # Somebody else's package may fail in any way.
                return BrokenBackend(name, f"the plugin does not load ({type(error).__name__}).")
    raise unknown("backend", name, names())
