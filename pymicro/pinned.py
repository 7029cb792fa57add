"""How much memory may be pinned: what limits it here, and smaller sizes where it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pymicro.errors import Unavailable
from pymicro.units import binary_bytes

Memory = TypeVar("Memory")
# Pinned pages are charged to the control group like any others, and the process needs some too.
_SHARE_OF_FREE = 0.5
_SMALLEST_BYTES = 4096
# Version 1 writes a number near 2**63 for no limit.
_NO_LIMIT_BYTES = 2**60


@dataclass(frozen=True)
class Limits:
    """What bounds pinned memory, in bytes; None where nothing does.

    Attributes:
        group: half of what the control groups leave: whoever exceeds them is killed.
        locked: RLIMIT_MEMLOCK. Nvidia's driver pins pages on its own account and is not held by
            it everywhere, so it cuts no size, but is named when the system refuses one.
    """

    group: int | None
    locked: int | None


def limits(root: Path = Path("/")) -> Limits:
    """The limits of this process, from control groups (versions 1 and 2) and the system."""
    free = _free_in_groups(root)
    return Limits(int(_SHARE_OF_FREE * min(free)) if free else None, _locked_bytes())


def _locked_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows.
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def _free_in_groups(root: Path) -> list[int]:
    found = []
    for folder in _groups(root):
        for most, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            bound = _number(folder / most)
            if bound is not None and bound < _NO_LIMIT_BYTES:
                found.append(max(0, bound - (_number(folder / used) or 0)))
    return found


def _groups(root: Path) -> list[Path]:
    """The folders of this process's control groups and of those above them; each may limit it."""
    tops = {"": root / "sys/fs/cgroup", "memory": root / "sys/fs/cgroup/memory"}
    found = list(tops.values())
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return found
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        top = tops.get("memory" if "memory" in controllers.split(",") else controllers)
        parts = [part for part in path.split("/") if part not in ("", "..")]
        if top is not None:
            found += [top.joinpath(*parts[:n]) for n in range(1, len(parts) + 1)]
    return found


def _number(path: Path) -> int | None:
    """The number in a file; None where there is none, as in `max`."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def step_down(
    allocate: Callable[[int], Memory], wanted_bytes: int, known: Limits
) -> tuple[Memory, int, str | None]:
    """Pin `wanted_bytes`, or halves of it until the limits allow it and `allocate` succeeds.

    Never falls back to pageable memory, which is another measurement. Returns the memory, its
    size and, if that is smaller, a sentence that says why.

    Raises:
        Unavailable: not even a page can be pinned.
    """
    size, why = wanted_bytes, ""
    while known.group is not None and size > max(known.group, _SMALLEST_BYTES):
        size, why = size // 2, "the container's memory limit leaves no more"
    while True:
        try:
            memory = allocate(size)
            break
        except Unavailable as error:
            if size // 2 < _SMALLEST_BYTES:
                raise Unavailable(f"nothing can be pinned here{_locked(known)}: {error}") from error
            size, why = size // 2, f"the system refuses more{_locked(known)}"
    if size == wanted_bytes:
        return memory, size, None
    wanted, have = binary_bytes(wanted_bytes), binary_bytes(size)
    return memory, size, f"{wanted} cannot be pinned, {have} can: {why}."


def _locked(known: Limits) -> str:
    return "" if known.locked is None else f" (ulimit -l: {binary_bytes(known.locked)})"
