"""The ways that a transfer takes, for all who make or judge them."""

from __future__ import annotations

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
