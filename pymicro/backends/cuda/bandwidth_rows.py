"""The kernels that move memory, as rows: which exist, what they need, which may suit an operation.

Arrays in device memory are streamed through registers (`stream.cu`) or by Hopper's bulk-copy
engine (`bulk.cu`); which is faster differs from chip to chip, so an operation has candidates.
On-chip levels have a kernel each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pymicro.errors import Unavailable
from pymicro.streams import inputs_of

Capability = tuple[int, int]
PACK_BYTES = 16
# Shared memory that a block may have, from this capability on: programming guide, technical
# specifications per compute capability.
_SHARED_KIB = {
    (6, 1): 48,
    (7, 0): 96,
    (7, 5): 64,
    (8, 0): 163,
    (8, 6): 99,
    (8, 7): 163,
    (8, 9): 99,
    (9, 0): 227,
    (12, 0): 99,
}
STATIC_SHARED_BYTES = 1024  # more than any kernel here has beside its dynamic shared memory


@dataclass(frozen=True)
class MemoryKernel:
    """One compiled configuration of one source file.

    Attributes:
        name: the row's word in results; the operation and dtype are not part of it.
        threads: threads of a block.
        unroll: packs of each input that a thread has in flight (`stream.cu` and on-chip kernels).
        tile_bytes: of each array, done by a block in one turn.
        stages: tiles in the ring of `bulk.cu`.
        hints: cache hints of loads and stores, words of `access.cuh`.
        persistent: as many blocks as fit at once take turns, else one block does one tile.
        first, last: compute capabilities it runs on, both included; last None is open.
        cluster: blocks of a cluster.
        defines: further macros.
    """

    name: str
    source: str
    entry: str
    threads: int
    unroll: int = 0
    tile_bytes: int = 0
    stages: int = 0
    hints: tuple[str, str] = ("plain", "plain")
    persistent: bool = True
    first: Capability = (6, 1)
    last: Capability | None = None
    cluster: int = 1
    defines: tuple[tuple[str, str | int], ...] = ()

    def runs_on(self, capability: Capability) -> bool:
        return self.first <= capability and (self.last is None or capability <= self.last)

    def macros(self, op: str, dtype: str) -> tuple[tuple[str, str | int], ...]:
        """Everything the compiler must know."""
        load, store = self.hints
        own: list[tuple[str, str | int]] = [("OP", op), ("DTYPE", dtype), ("THREADS", self.threads)]
        own += [("LOAD", load), ("STORE", store)]
        if self.stages:
            own += [("TILE_BYTES", self.tile_bytes), ("STAGES", self.stages)]
        if self.unroll:
            own.append(("UNROLL", self.unroll))
        return (*own, *self.defines)

    def shared_bytes(self, op: str) -> int:
        """Dynamic shared memory of a block."""
        return self.tile_bytes * (1 if op == "write" else self.stages * inputs_of(op))


def stream(
    threads: int,
    unroll: int,
    hints: tuple[str, str],
    persistent: bool = True,
    pack_bytes: int = PACK_BYTES,
    first: Capability = (6, 1),
    prefetch: int = 0,
    share: int = 1,
) -> MemoryKernel:
    """A row of `stream.cu`; `prefetch` tiles are asked for at once, a wave of blocks ahead; the
    `share` blocks of a cluster read every tile together."""
    name = f"stream{8 * pack_bytes}_t{threads}_u{unroll}_{'_'.join(hints)}"
    name += "" if persistent else "_tiles"
    name += f"_ahead{prefetch}" if prefetch else ""
    name += f"_by{share}" if share > 1 else ""
    return MemoryKernel(
        name=name,
        source="bandwidth/stream.cu",
        entry="stream",
        threads=threads,
        unroll=unroll,
        tile_bytes=threads * unroll * pack_bytes,
        hints=hints,
        persistent=persistent,
        first=max(first, (9, 0)) if prefetch or share > 1 else first,
        cluster=share,
        defines=(("PACK_BYTES", pack_bytes), ("PREFETCH", prefetch), ("SHARE", share)),
    )


def bulk(
    threads: int, tile_bytes: int, stages: int, hints: tuple[str, str], drain_bulk: bool = True
) -> MemoryKernel:
    """A row of `bulk.cu`; `drain_bulk` lets the engine carry results out as well."""
    return MemoryKernel(
        name=f"bulk_{tile_bytes // 1024}k_x{stages}_t{threads}_{'_'.join(hints)}"
        + ("" if drain_bulk else "_stores"),
        source="bandwidth/bulk.cu",
        entry="stream",
        threads=threads,
        tile_bytes=tile_bytes,
        stages=stages,
        hints=hints,
        first=(9, 0),
        defines=(("DRAIN_BULK", int(drain_bulk)),),
    )


# Candidates by operation; the tuner decides among those that the chip can run. Few and unlike one
# another: in turns and one tile a block, through registers and by engine. On an H200 the first of
# each is the fastest: long rings by the engine for sums, and for what writes blocks that come and
# go with a pack a thread; a copy also asks L2 for what the next wave of blocks reads. No load of a
# sum is marked to leave L2 first: what is left there from the last try would be taken for speed.
_PLAIN = ("plain", "plain")
_WIDE = stream(512, 4, _PLAIN, pack_bytes=32, first=(10, 0))
_WIDE_TILES = stream(256, 1, _PLAIN, persistent=False, pack_bytes=32, first=(10, 0))
_SUMS = (
    stream(512, 4, _PLAIN),
    stream(1024, 2, ("once", "plain")),
    stream(256, 8, _PLAIN),
    _WIDE,
)
STREAMS: dict[str, tuple[MemoryKernel, ...]] = {
    "read": (bulk(256, 65536, 3, _PLAIN), bulk(128, 32768, 2, _PLAIN), *_SUMS),
    "dot": (bulk(256, 32768, 3, _PLAIN), bulk(128, 16384, 2, _PLAIN), *_SUMS),
    "write": (
        stream(256, 1, _PLAIN, persistent=False),
        stream(1024, 1, _PLAIN, persistent=False),
        stream(1024, 2, _PLAIN, persistent=False),
        stream(512, 4, ("plain", "stream")),
        _WIDE,
        _WIDE_TILES,
        bulk(32, 32768, 4, _PLAIN),
    ),
    "copy": (
        stream(256, 1, _PLAIN, persistent=False, prefetch=8),
        stream(256, 1, _PLAIN, persistent=False),
        stream(256, 1, ("plain", "stream"), persistent=False),
        stream(1024, 2, _PLAIN, persistent=False),
        stream(512, 2, ("first", "plain"), persistent=False),
        stream(256, 4, ("once", "stream")),
        _WIDE,
        _WIDE_TILES,
        bulk(32, 4096, 12, _PLAIN),
    ),
    "triad": (
        stream(1024, 1, ("plain", "stream"), persistent=False),
        stream(256, 1, ("plain", "stream"), persistent=False, prefetch=8),
        stream(256, 1, ("plain", "stream"), persistent=False),
        stream(512, 2, ("first", "plain"), persistent=False),
        stream(512, 2, ("plain", "first")),
        _WIDE,
        _WIDE_TILES,
        bulk(512, 4096, 4, _PLAIN),
    ),
}
STREAMS |= {"scale": STREAMS["copy"], "add": STREAMS["triad"]}

# Arrays that stay in L2, several passes a launch: past L1 without prefetching neighbours. What an
# SM reads in one pass another reads in the next. An H200 gives 9.06 to 9.6 TB/s from 20 to 36 MiB;
# bulk copies, tiles that an SM keeps, and lines at home in an SM's own part of L2 gave no more. The
# ports of its 94 slices, 64 bytes a clock, are then busy for 86 of 100 clocks, by their counters.
RESIDENT = (
    stream(1024, 2, ("l2", "plain")),
    stream(1024, 4, ("l2", "plain")),
    stream(512, 4, ("l2", "plain")),
    stream(256, 2, ("l2", "plain")),
)
# The same while two SMs read each line at about the same time: some of their requests become one
# before they reach L2, so that SMs receive more than L2 sends.
SHARED = (
    stream(1024, 2, ("l2", "plain"), share=2),
    stream(512, 2, ("l2", "plain"), share=2),
    stream(256, 4, ("l2", "plain"), share=2),
)

_L1 = MemoryKernel(
    "l1_t512_u4", "bandwidth/l1.cu", "l1", 512, 4, 512 * 4 * PACK_BYTES, hints=("l1", "plain")
)


def on_chip(level: str, size_bytes: int) -> MemoryKernel:
    """The kernel for `size_bytes` in each SM: `l1`, `shared`, or `dsmem` (a neighbour's shared).

    Raises:
        Unavailable: no kernel has chunks of this size.
    """
    if level == "l1":
        if size_bytes % _L1.tile_bytes or size_bytes > 192 * 1024:
            raise Unavailable(
                f"an L1 of one SM is read in whole tiles of {_L1.tile_bytes // 1024} KiB, "
                "192 KiB at most; try --size 64KiB."
            )
        return _L1
    threads = 1024 if size_bytes % (1024 * PACK_BYTES) == 0 else 256
    unroll, rest = divmod(size_bytes, threads * PACK_BYTES)
    if rest or not 1 <= unroll <= 14:
        raise Unavailable(
            "shared memory of one SM is gone through in chunks of whole 4 KiB up to 56 KiB or "
            "whole 16 KiB up to 224 KiB; try --size 64KiB."
        )
    return MemoryKernel(
        name=f"{level}_t{threads}_u{unroll}",
        source="bandwidth/shared.cu",
        entry="shared_memory",
        threads=threads,
        unroll=unroll,
        tile_bytes=size_bytes,
        first=(9, 0) if level == "dsmem" else (6, 1),
        defines=(("HOP", int(level == "dsmem")),),
    )


def gather(access: str) -> MemoryKernel:
    """The kernel for elements that do not lie side by side, `strided` or `random`."""
    return MemoryKernel(
        name=f"gather_{access}_t256_u8",
        source="bandwidth/gather.cu",
        entry="gather",
        threads=256,
        unroll=8,
        defines=(("ACCESS", access),),
    )


def rows() -> Iterator[tuple[MemoryKernel, str]]:
    """Every row with each operation that it may be compiled for."""
    for op, candidates in STREAMS.items():
        yield from ((row, op) for row in candidates)
        yield from ((row, op) for row in RESIDENT)
    yield from ((row, "read") for row in SHARED)
    yield _L1, "read"
    for level in ("shared", "dsmem"):
        yield on_chip(level, 65536), "read"
    yield on_chip("shared", 65536), "write"
    yield gather("strided"), "copy"
    yield gather("random"), "copy"


def shared_limit_bytes(capability: Capability) -> int:
    """Shared memory that a block of this chip may have."""
    return 1024 * _SHARED_KIB[max(known for known in _SHARED_KIB if known <= capability)]


def fits(row: MemoryKernel, op: str, capability: Capability) -> bool:
    """Whether a chip has the instructions and the shared memory of a streaming row."""
    wanted = row.shared_bytes(op) + STATIC_SHARED_BYTES if row.stages else 0
    return row.runs_on(capability) and wanted <= shared_limit_bytes(capability)
