"""Memory of the host next to a GPU: whoever allocates it should run on the cores that its slot
belongs to, since the system places pages with the thread that first touches them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pymicro.errors import Unavailable

_DEVICES = Path("/sys/bus/pci/devices")
_NODES = Path("/sys/devices/system/node")


@contextlib.contextmanager
def near(bus_id: str, devices: Path = _DEVICES) -> Iterator[int | None]:
    """Keep this thread on the GPU's cores meanwhile; gives the GPU's NUMA node.

    Where the system does not tell, or allows none of those cores, the thread stays where it may
    run and the node is None.
    """
    wanted = cores(_text(devices / _name(bus_id) / "local_cpulist"))
    with _kept_on(wanted) as is_kept:
        yield node_of(bus_id, devices) if is_kept else None


@contextlib.contextmanager
def on_node(node: int, nodes: Path = _NODES) -> Iterator[int]:
    """Keep this thread on a node's cores meanwhile, so that memory comes to lie there.

    Raises:
        Unavailable: there is no such node, or this process may use none of its cores.
    """
    wanted = cores(_text(nodes / f"node{node}" / "cpulist"))
    if not wanted:
        raise Unavailable(f"this machine has no node {node} with cores.")
    with _kept_on(wanted) as is_kept:
        if not is_kept:
            raise Unavailable(f"this process may use no core of node {node}.")
        yield node


@contextlib.contextmanager
def _kept_on(wanted: set[int]) -> Iterator[bool]:
    """Whether this thread is kept on some of the cores meanwhile."""
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    if not wanted & before:
        yield False
        return
    os.sched_setaffinity(0, wanted & before)
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)


def nodes(folder: Path = _NODES) -> tuple[int, ...]:
    """The numbers of this machine's nodes; none where the system does not tell."""
    return tuple(sorted(cores(_text(folder / "online"))))


def node_of(bus_id: str, devices: Path = _DEVICES) -> int | None:
    """The NUMA node that a device hangs on; None where there is but one or nobody tells."""
    return _node(devices / _name(bus_id))


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
