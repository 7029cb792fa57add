"""Memory of the host next to a GPU: whoever allocates it should run on the cores that its slot
belongs to, since the system places pages with the thread that first touches them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_DEVICES = Path("/sys/bus/pci/devices")


@contextlib.contextmanager
def near(bus_id: str, devices: Path = _DEVICES) -> Iterator[int | None]:
    """Keep this thread on the GPU's cores meanwhile; gives the GPU's NUMA node.

    Where the system does not tell, or allows none of those cores, the thread stays where it may
    run and the node is None.
    """
    folder = devices / _name(bus_id)
    node, wanted = _node(folder), cores(_text(folder / "local_cpulist"))
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    if not wanted & before:
        yield None
        return
    os.sched_setaffinity(0, wanted & before)
    try:
        yield node
    finally:
        os.sched_setaffinity(0, before)


def cores(text: str) -> set[int]:
    """The numbers of a list as Linux writes it: `0-3,8`."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _name(bus_id: str) -> str:
    """The folder of a device: four digits of domain, where NVML writes eight."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _node(folder: Path) -> int | None:
    """Minus one where there is but one node."""
    text = _text(folder / "numa_node").strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
