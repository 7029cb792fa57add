"""One measurement at a time on a GPU: a lock that all processes of this machine share."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def device_lock(
    uuid: str, on_wait: Callable[[str], None] | None = None, *, poll_s: float = 0.2
) -> Iterator[str | None]:
    """Hold the lock of the GPU `uuid`; yields a note for the results, None if nobody interfered.

    `on_wait` gets one sentence if another pymicro holds it. A lock that cannot be had for other
    reasons (no temporary folder, another user's file) never stops the run: the note says so.
    """
    from filelock import FileLock, Timeout

    name = hashlib.sha256(uuid.encode()).hexdigest()[:16]
    lock = FileLock(Path(tempfile.gettempdir()) / f"pymicro-gpu-{name}.lock", mode=0o666)
    note = None
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait:
                on_wait("another pymicro is measuring on this GPU; waiting for it to finish.")
            began = time.monotonic()
            lock.acquire(poll_interval=poll_s)
            note = f"waited {time.monotonic() - began:.0f} s for another pymicro on this GPU"
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        note = f"the GPU could not be locked ({why}); another run may have disturbed this one"
    try:
        yield note
    finally:
        lock.release()
