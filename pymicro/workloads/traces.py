"""The traces that ship, by what they are of."""

from __future__ import annotations

from pathlib import Path

from pymicro.errors import Unavailable
from pymicro.workloads import trace
from pymicro.workloads.precisions import PRECISIONS

FOLDER = Path(__file__).parent.parent / "data" / "traces"
_SUFFIX = ".jsonl.gz"


def keys(folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of all traces that are there."""
    return tuple(sorted(p.name.removesuffix(_SUFFIX) for p in folder.glob(f"*{_SUFFIX}")))


def path_of(key: str, folder: Path = FOLDER) -> Path:
    return folder / f"{key}{_SUFFIX}"


def find(
    model: str,
    precision: str,
    attention: str,
    device: str,
    beams: int = 1,
    folder: Path = FOLDER,
) -> trace.Trace:
    """The trace of a model's job.

    Args:
        model: key of its row. precision: as in `jobs`; `tf32` has the operators of `fp32`.
        device: `cuda` or `cpu`.

    Raises:
        Unavailable: nobody recorded it; says which there are of this model.
        TraceError: it cannot be read.
    """
    wide = PRECISIONS[precision].recorded_as
    hows = ("train", "greedy" if beams == 1 else "beam")
    for how in hows:
        path = path_of(trace.key_of(model, how, wide, attention, device), folder)
        if path.exists():
            return trace.load(path)
    have = [key for key in keys(folder) if key.startswith(f"{model}-") and key.endswith(device)]
    known = f"there are {', '.join(have)}" if have else f"there is none of {model} for {device}"
    raise Unavailable(
        f"no trace of {model} in {wide} with {attention} attention, {beams} beam(s), on {device}; "
        f"{known}. Record it there: pymicro e2e {model} --trace-only."
    )
