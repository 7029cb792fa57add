"""What a backend offers. It turns a case and its operands into a call; it never times or checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol

from pymicro.benchmark import Case
from pymicro.errors import Unavailable, without_folders

Call = Callable[[], None]
GPUS_ONLY = "for GPUs only."


@dataclass(frozen=True)
class Place:
    """Where a case runs: `kind` is `cpu` or `cuda`; the rest describes the CUDA device."""

    kind: str
    index: int = 0
    capability: tuple[int, int] | None = None
    sm_count: int = 0
    # The legacy default stream: the one that every library here uses unless told otherwise, so
    # one event timer and one gate see the work of all of them.
    stream: int = 0


@dataclass(frozen=True)
class Prepared:
    """A case ready to run: everything is compiled and loaded, `call` only launches.

    `notes` goes into the result: kernel names, library versions, flags that were set. `close`
    undoes what preparing changed in the library. `output` reads the answer where it is not in the
    case's output operand.
    """

    call: Call
    notes: Mapping[str, Any] = field(default_factory=dict)
    close: Call = lambda: None
    output: Callable[[], Any] | None = None


class Backend(Protocol):
    """One way to run cases.

    One may have `benchmarks` too, names of all that it takes part in: then it is asked about no
    other, which spares the import of its library.
    """

    name: str
    # Whether this is the yardstick that users know, the vendor's or the framework's own library;
    # else, which variants only call that library through another language.
    is_vendor: bool
    vendor_variants: tuple[str, ...]

    def why_not(self, place: Place) -> str | None:
        """Why this backend cannot run at this place, from what is installed; None if it can."""
        ...

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        """The ways this backend has of running a benchmark in a format there; may be none."""
        ...

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        """Make the call for a case on arrays by operand name: numpy on the CPU, `driver.Buffer`
        on a GPU.

        Raises:
            Unavailable: this case cannot run here (format, shape or layout); the reason why.
        """
        ...


def missing(library: str, extra: str) -> str | None:
    """The reason for a library that is not installed, with the line that installs it."""
    try:
        found = find_spec(library) is not None
    except (ImportError, ValueError):
        found = False
    if found:
        return None
    return f'{library} is not installed; pip install "pymicro-gpu[{extra}]".'


def import_library(name: str) -> Any:
    """Import a library that is installed but may be broken.

    Raises:
        Unavailable: the import failed; the library's own words are quoted.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except Exception as error:  # A broken library may raise anything while it loads.
        said = str(error).strip().splitlines()
        raise Unavailable(
            f"{name} is installed but does not import ({type(error).__name__}"
            f"{': ' + without_folders(said[0])[:160] if said else ''})."
        ) from error


def why_no_layout(layout: str) -> str | None:
    """Why kernels that read A as m×k only do not take a product; None if they do."""
    return "its kernels read A as m×k only, not k×m." if layout == "tn" else None


def require(reason: str | None) -> None:
    """Raise Unavailable with the reason, if there is one."""
    if reason is not None:
        raise Unavailable(reason)


def offered(
    backend: Backend, benchmark: str, dtype: str, place: Place
) -> tuple[tuple[str, ...], str | None]:
    """A backend's variants of a benchmark at a place; if there are none, the reason."""
    known = getattr(backend, "benchmarks", None)
    if known is not None and benchmark not in known:
        return (), _absent(benchmark, place)
    try:
        reason = backend.why_not(place)
        variants = backend.variants(benchmark, dtype, place) if reason is None else ()
    except Unavailable as error:
        return (), str(error)
    except Exception as error:  # A library that is installed but broken breaks in its own ways.
        said = without_folders(str(error)).strip().splitlines()
        return (), f"{backend.name} is broken here ({type(error).__name__}: {' '.join(said[:1])})."
    if reason is None and not variants:
        reason = _absent(benchmark, place)
    return variants, reason


def _absent(benchmark: str, place: Place) -> str:
    return f"no {benchmark} on {'a CPU' if place.kind == 'cpu' else 'a GPU'}."


@dataclass
class BrokenBackend:
    """Stands in for a plugin that does not load, so that the others run."""

    name: str
    reason: str
    is_vendor: bool = False
    vendor_variants: tuple[str, ...] = ()

    def why_not(self, place: Place) -> str | None:
        return self.reason

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        return ()

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        raise Unavailable(self.reason)
