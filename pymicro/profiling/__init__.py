"""Making a trace of any PyTorch job that `pymicro explain --trace` reads.

    from pymicro import profiling
    with profiling.trace("trace.json.gz") as step:
        for batch in loader:
            ...
            step()

The recorder sits in a folder of its own, `inject`, that is put before the module path of programs
which are profiled from outside (`pymicro profile -- python train.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pymicro.errors import UsageError
from pymicro.profiling.inject.pymicro_recorder import ENVIRONMENT, Recorder, Settings

INJECTED = Path(__file__).parent / "inject"
__all__ = ["ENVIRONMENT", "INJECTED", "Recorder", "Settings", "settings", "trace"]


def settings(path: str, **others: bool | int | str) -> Settings:
    """Settings of a recording.

    Raises:
        UsageError: no such settings.
    """
    try:
        return Settings(path, **others)  # type: ignore[arg-type]
    except ValueError as error:
        raise UsageError(f"{error}.") from None


@contextmanager
def trace(
    path: str | Path = "trace.json.gz",
    *,
    skip: int = 10,
    steps: int = 5,
    shapes: bool = True,
    stacks: bool = False,
) -> Iterator[Callable[[], None]]:
    """Record `steps` steps of a loop after `skip` others; call what it yields after each step.

    The trace is written as soon as the steps are through, or at the end of the block.

    Raises:
        UsageError: a path or number that makes no sense.
    """
    recorder = Recorder(settings(str(path), skip=skip, steps=steps, shapes=shapes, stacks=stacks))
    try:
        yield recorder.step
    finally:
        recorder.stop()
