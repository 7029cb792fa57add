"""Is a link what it could be: PCIe generation and width under load, NVLink, the other GPUs.

Facts in, findings out. Who asks NVML, and when, is not decided here; a link saves power while
idle, so facts that were not read under load accuse nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pymicro import stats
from pymicro.results import Finding

# Transfers a second and lane of each PCIe generation, and the share of them that carries data:
# 8b/10b up to generation 2, 128b/130b from 3 on, 236 of a flit's 256 bytes in 6 (PCI-SIG).
_LANE_BYTES_PER_S = {
    1: 2.5e9 * 0.8 / 8,
    2: 5e9 * 0.8 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 236 / 256 / 8,
}
# 256 bytes of payload travel with 24 around them: a header of 16, its checksum and a framing token
# of 4 each (PCIe base specification, generation 3).
_REACHABLE = 256 / (256 + 24)
_SLOW = 0.8  # of what is reachable, or of the median of identical cards
_IMPOSSIBLE = 1.05


@dataclass(frozen=True)
class Link:
    """A GPU's PCIe link as NVML tells it; None for what it does not tell.

    Attributes:
        loaded: whether a copy ran while it was read.
        max_generation, max_width: the card's.
        slot_generation: the most that the slot offers, where it is known apart from the card's.
        replays: packets sent again since the driver was loaded; None where they are not counted.
        numa_node: where the card hangs; `cpu_node` where the host's memory was.
        nvlinks: how many are up, and of how many.
    """

    index: int
    generation: int | None
    width: int | None
    max_generation: int | None
    max_width: int | None
    loaded: bool
    slot_generation: int | None = None
    slot_width: int | None = None
    replays: int | None = None
    numa_node: int | None = None
    cpu_node: int | None = None
    nvlinks: tuple[int, int] | None = None


def wire_bytes_per_s(generation: int, width: int) -> float | None:
    """Bytes a second and direction on the wire; None for a generation that is not in the table."""
    lane = _LANE_BYTES_PER_S.get(generation)
    return lane * width if lane else None


def reachable_bytes_per_s(generation: int, width: int) -> float | None:
    """What large copies can reach: the wire less the headers of full packets."""
    wire = wire_bytes_per_s(generation, width)
    return wire * _REACHABLE if wire else None


def narrower(link: Link) -> list[Finding]:
    """Whether the link runs below what card and slot could do; only under load can one tell."""
    if not link.loaded:
        return []
    found = []
    pairs = (
        ("generation", link.generation, link.max_generation, link.slot_generation),
        ("width", link.width, link.max_width, link.slot_width),
    )
    for what, now, card, slot in pairs:
        if now is None or card is None or now >= card:
            continue
        by_slot = slot is not None and slot <= now
        found.append(
            Finding(
                f"link-{what}",
                "info" if by_slot else "warning",
                f"cuda:{link.index}: the PCIe link has {what} {now} under load; the card "
                f"offers {card}{f', the slot {slot}' if slot is not None else ''}.",
                "transfers between host and GPU are bounded by it.",
                "the slot sets it: another slot may offer more."
                if by_slot
                else "seat the card anew; look at risers and the firmware's setting of the slot.",
            )
        )
    return found


def replayed(before: Link, after: Link) -> list[Finding]:
    """Whether packets had to be sent again between two readings: bad contact or cable."""
    if after.replays is None or before.replays is None or after.replays <= before.replays:
        return []
    again = after.replays - before.replays
    return [
        Finding(
            "link-replays",
            "warning",
            f"cuda:{after.index}: {again} packets were sent again during the copies.",
            "a link with errors is slow and may fall off the bus.",
            "seat the card anew; try without riser or cable.",
        )
    ]


def far_node(link: Link) -> list[Finding]:
    """Whether the copies came from memory of another NUMA node than the card's."""
    if None in (link.numa_node, link.cpu_node) or link.numa_node == link.cpu_node:
        return []
    return [
        Finding(
            "link-far-node",
            "warning",
            f"cuda:{link.index} hangs on NUMA node {link.numa_node}; the copies used node "
            f"{link.cpu_node}.",
            "they crossed the link between the sockets too.",
            f"numactl --cpunodebind={link.numa_node} --membind={link.numa_node}",
        )
    ]


def achieved(link: Link, bytes_per_s: float) -> list[Finding]:
    """A rate against what this link can reach at its generation and width now."""
    if link.generation is None or link.width is None:
        return []
    wire = wire_bytes_per_s(link.generation, link.width)
    reachable = reachable_bytes_per_s(link.generation, link.width)
    if wire is None or reachable is None:
        return []
    name = f"cuda:{link.index}: {bytes_per_s / 1e9:.1f} GB/s"
    kind = f"gen {link.generation} x{link.width}"
    if link.loaded and bytes_per_s > _IMPOSSIBLE * wire:
        return [
            Finding(
                "link-impossible",
                "error",
                f"{name} is more than the {wire / 1e9:.1f} GB/s of {kind}.",
                "bytes are counted twice, a cache served them, or the link was misread.",
            )
        ]
    if link.loaded and bytes_per_s < _SLOW * reachable:
        return [
            Finding(
                "link-slow",
                "warning",
                f"{name} of {reachable / 1e9:.1f} GB/s that {kind} can reach.",
                "memory of another node, an IOMMU that translates, or a virtual machine.",
            )
        ]
    return []


def dark(link: Link) -> list[Finding]:
    """NVLinks of which some are up and others are not; a card alone may well have none up."""
    if link.nvlinks is None or link.nvlinks[0] in (0, link.nvlinks[1]):
        return []
    up, of = link.nvlinks
    return [
        Finding(
            "link-nvlink-down",
            "warning",
            f"cuda:{link.index}: {up} of {of} NVLinks are up.",
            "copies between GPUs are slower by that share.",
            "nvidia-smi nvlink --status; look for Xid 74 in the kernel's log.",
        )
    ]


def state(link: Link, rates: Mapping[str, float]) -> list[Finding]:
    """What was seen of a link under load, in one line; `rates` by name, bytes a second."""
    if not link.loaded or link.generation is None or link.width is None:
        return []
    parts = [f"cuda:{link.index}: PCIe gen {link.generation} x{link.width} under load"]
    if link.max_generation is not None and link.max_width is not None:
        parts[0] += f" (the card offers gen {link.max_generation} x{link.max_width})"
    reachable = reachable_bytes_per_s(link.generation, link.width)
    if rates and reachable:
        said = ", ".join(f"{name} {rate / 1e9:.1f}" for name, rate in rates.items())
        parts.append(f"{said} of {reachable / 1e9:.1f} GB/s that it can reach")
    if link.replays is not None:
        parts.append(f"{link.replays} packets sent again since the driver was loaded")
    if link.nvlinks is not None:
        parts.append(f"{link.nvlinks[0]} of {link.nvlinks[1]} NVLinks up")
    if link.numa_node is not None:
        parts.append(f"NUMA node {link.numa_node}")
    return [Finding("link-state", "info", f"{'; '.join(parts)}.")]


def outliers(rates: Mapping[int, float], names: Mapping[int, str]) -> list[Finding]:
    """Cards much slower than the median of identical ones; one card has nobody to differ from."""
    found = []
    for name in dict.fromkeys(names[index] for index in rates):
        alike = {index: rate for index, rate in rates.items() if names[index] == name}
        middle = stats.median(list(alike.values()))
        found += [
            Finding(
                "link-outlier",
                "warning",
                f"cuda:{index}: {rate / 1e9:.1f} GB/s; the median of {len(alike)} × {name} is "
                f"{middle / 1e9:.1f} GB/s.",
                "identical cards should not differ.",
                "compare link width, NUMA node and, in a virtual machine, how the card is passed.",
            )
            for index, rate in alike.items()
            if len(alike) > 2 and rate < _SLOW * middle
        ]
    return found


@dataclass(frozen=True)
class Peer:
    """One direction between two GPUs: whether it is offered, and why not (NVML's words)."""

    source: int
    target: int
    offered: bool
    reason: str = ""


def untold(peers: Sequence[Peer]) -> str | None:
    """A sentence if some of the directions that were tried, or all, have no peer access."""
    tried = {(p.source, p.target): p for p in peers}
    refused = [p for p in tried.values() if not p.offered]
    if not refused:
        return None
    reasons = " ".join(dict.fromkeys(p.reason for p in refused if p.reason)) or "Nobody tells why."
    return (
        f"{len(refused)} of {len(tried)} directions have no peer access; copies go through the "
        f"host: {reasons}"
    )
