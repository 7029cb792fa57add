"""The ways that a transfer takes, for all who make or judge them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HOST_PATHS = ("h2d", "d2h", "both", "h2d-busy", "d2h-busy")
# From one GPU to another: written by the first, read by the second, both directions at once, and
# through pinned memory of the host.
PEER_PATHS = ("p2p", "p2p-read", "p2p-both", "p2p-host")
# Pieces that go through the host in turn, and how many there are at most.
STAGE_BYTES, MOST_STAGES = 2**22, 64


def is_peer(path: str) -> bool:
    return path in PEER_PATHS


def ends(pair: str) -> tuple[int, int]:
    """The numbers of the GPUs that a copy leaves and reaches."""
    source, _, target = pair.partition("-")
    return int(source), int(target)


def initiator(path: str, pair: str) -> int:
    """The GPU in whose queue the copy is."""
    return ends(pair)[path == "p2p-read"]


def stage_bytes(size: int) -> int:
    """The size of a piece of a copy through the host."""
    return max(STAGE_BYTES, -(-size // MOST_STAGES))


def stages(size: int) -> int:
    return -(-size // stage_bytes(size))


@dataclass(frozen=True)
class Row:
    """Who moves the bytes.

    Attributes:
        ran_on: devices, by catalogue key, on which its copies within one machine's GPU and host
            were run and checked.
        peers_ran_on: the same of its copies between GPUs.
    """

    variant: str
    does: str
    ran_on: tuple[str, ...] = ()
    peers_ran_on: tuple[str, ...] = ()


_H200 = ("h200_sxm_141gb",)
ROWS = (
    Row("engine", "the driver's copies: cuMemcpy…Async, for pageable memory cuMemcpy", _H200),
    Row("sm", "our kernel, which reaches into pinned memory", _H200),
    Row("staged", "host threads and the copy engines, by way of pinned buffers", _H200),
)


def notes(variant: str, path: str) -> dict[str, Any]:
    """What a result says of its row: where it has run, so that a reader knows where it has not."""
    (row,) = (row for row in ROWS if row.variant == variant)
    return {"ran_on": list(row.peers_ran_on if is_peer(path) else row.ran_on)}
