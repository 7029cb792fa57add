"""The probes of pure issue, as rows: what one instruction of each unit multiplies, how many a trip
of the loop has, how many trips a call makes. Kernels, flop counts and expected answers follow.

Beside them the same loop of wgmma *fed*: its operands come as those of a product's tiles do."""

from __future__ import annotations

from dataclasses import dataclass, replace

MATRICES_A = 4  # left operands of a warp of a matrix unit; right ones, and pairs, one a chain
_ROW_BYTES = {"mma": 32, "dmma": 128, "wgmma": 128}  # of k in a row of an operand
ELEMENTS_A_WORD = {"fp16": 2, "bf16": 2, "int8": 4}  # of a register of hfma2 and dp4a
TILE = {"mma": (16, 8), "dmma": (16, 8), "wgmma": (64, 256)}  # m, n of one product
WGMMA_STEPS = 4  # products that one row of 128 bytes makes


@dataclass(frozen=True)
class Probe:
    """A loop of one kind of instruction.

    Attributes:
        unit, dtype: what is issued.
        flop: operations of one instruction: of a thread, of a warp (mma, dmma), or of the four
            warps of a wgmma. Integer operations count alike.
        lanes: threads that issue one instruction together.
        threads: that multiply, of the one block that each SM has.
        chains: independent sums of those lanes.
        steps: instructions of each chain in a trip.
        trips: trips of a call.
        restarts: whether sums start from nothing each trip.
    """

    unit: str
    dtype: str
    flop: int
    lanes: int = 1
    threads: int = 1024
    chains: int = 4
    steps: int = 32
    trips: int = 512
    restarts: bool = False

    @property
    def flop_a_block(self) -> int:
        """Operations of a block in a call."""
        return self.flop * (self.threads // self.lanes) * self.chains * self.steps * self.trips


def _mma(dtype: str, k: int, restarts: bool = False) -> Probe:
    return Probe("mma", dtype, 2 * 16 * 8 * k, 32, 256, 8, 16, 512, restarts)


_WGMMA_K = {"fp16": 16, "bf16": 16, "fp8_e4m3": 32, "int8": 32, "tf32": 8}  # of an instruction


def _wgmma(dtype: str, k: int) -> Probe:
    return Probe("wgmma", dtype, 2 * 64 * 256 * k, 128, 256, 1, 64, 128, True)


@dataclass(frozen=True)
class Feed:
    """How the operands of a fed loop arrive: the tile of a block, and who shares what.

    Attributes:
        tile: rows of A and of B that a block multiplies.
        cluster: blocks one below the other, which share B, and beside each other, which share A.
        stages: of 128 bytes of k in the ring of a block.
        has_producer: whether warps of their own load.
        panels: different panels of B, one a trip, that TMA loads; one stays in the cache.
    """

    tile: tuple[int, int]
    cluster: tuple[int, int]
    stages: int
    has_producer: bool
    panels: int = 1

    def grid(self, sms: int) -> tuple[int, int]:
        """Clusters one below the other and beside each other, about as many; A has the more."""
        clusters = sms // (self.cluster[0] * self.cluster[1])
        down = next(
            (d for d in range(1, clusters + 1) if clusters % d == 0 and d * d >= clusters), 1
        )
        return down, max(1, clusters // down)

    def rows(self, sms: int) -> tuple[int, int]:
        """Rows of A, and of a panel of B, that all blocks multiply."""
        down, across = self.grid(sms)
        return down * self.cluster[0] * self.tile[0], across * self.cluster[1] * self.tile[1]


# Stages of k in a trip of a fed loop: panels of some megabytes, so that both stay in the cache.
LAP = 32
# The two structures that our products use, and as many panels of B as hold a few hundred megabytes.
_TALL = Feed((128, 256), (2, 1), stages=4, has_producer=True)
_LARGE = Feed((192, 256), (1, 2), stages=3, has_producer=False)
FEEDS = {
    "l2_128x256": _TALL,
    "l2_192x256": _LARGE,
    "memory_128x256": replace(_TALL, panels=48),
    "memory_192x256": replace(_LARGE, panels=28),
}


def _fed(unit: str, dtype: str, k: int) -> Probe:
    threads = FEEDS[unit].tile[0] // 64 * 128
    trips = max(feed.panels for feed in FEEDS.values() if feed.tile == FEEDS[unit].tile)
    return Probe(unit, dtype, 2 * 64 * 256 * k, 128, threads, 1, LAP * WGMMA_STEPS, trips, True)


# A trip of mma or vector instructions is 128 or more, so that the loop itself costs 3 %; a call is
# half a million cycles or more where the unit is at its full rate.
_ROWS = (
    *(_wgmma(dtype, k) for dtype, k in _WGMMA_K.items()),
    _mma("fp16", 16),
    _mma("bf16", 16),
    _mma("fp8_e4m3", 32, restarts=True),
    _mma("int8", 32),
    _mma("tf32", 8),
    *(_fed(unit, dtype, k) for unit in FEEDS for dtype, k in _WGMMA_K.items()),
    Probe("dmma", "fp64", 2 * 16 * 8 * 16, 32, 256, 8, 16, 64),
    Probe("ffma", "fp32", 2, threads=256, chains=16),
    Probe("hfma2", "fp16", 4, threads=256, chains=8),
    Probe("hfma2", "bf16", 4, threads=256, chains=8),
    Probe("dfma", "fp64", 2, threads=512),
    Probe("dp4a", "int8", 8),
    Probe("imad", "int32", 2),
)
PROBES: dict[tuple[str, str], Probe] = {(row.unit, row.dtype): row for row in _ROWS}
GPU_UNITS = tuple(dict.fromkeys(row.unit for row in _ROWS))
CONTRACTING = ("ffma", "hfma2", "dfma")  # multiply their chains by a tamed factor
VECTOR_UNITS = ("ffma", "hfma2", "dfma", "dp4a", "imad")
DTYPES = tuple(dict.fromkeys(row.dtype for row in _ROWS))


@dataclass(frozen=True)
class CpuProbe:
    """A loop of one instruction on CPU registers, as `csrc/probes_x86.cpp` has it.

    Attributes:
        lanes: sums in a register; a tile has 16 x 16.
        terms: products that an instruction adds to each.
        chains: registers of sums.
        flop_a_thread: operations of a thread in a call, a multiple of what `TURNS` make.
    """

    unit: str
    dtype: str
    lanes: int
    terms: int = 1
    chains: int = 12
    flop_a_thread: int = 3 * 2**28

    @property
    def name(self) -> str:
        return f"{self.unit}/{self.dtype}"

    @property
    def blocks(self) -> int:
        """How often a thread makes `TURNS` turns in a call, each time from nothing."""
        return self.flop_a_thread // (2 * self.lanes * self.terms * self.chains * TURNS)


TURNS = 4096  # of a loop before its sums restart, lest they stop growing
_CPU_ROWS = (
    CpuProbe("amx", "bf16", 256, 32, 6, 3 * 2**32),
    CpuProbe("amx", "int8", 256, 64, 6, 3 * 2**32),
    CpuProbe("avx512", "fp32", 16),
    CpuProbe("avx512", "fp64", 8),
    CpuProbe("avx512_bf16", "bf16", 16, 2),
    CpuProbe("avx512_vnni", "int8", 16, 4),
    CpuProbe("avx512", "int8", 16, 2),
    CpuProbe("avx_vnni", "int8", 8, 4),
    CpuProbe("avx2", "fp32", 8),
    CpuProbe("avx2", "fp64", 4),
    CpuProbe("avx2", "int8", 8, 2),
)
CPU_PROBES: dict[tuple[str, str], CpuProbe] = {(row.unit, row.dtype): row for row in _CPU_ROWS}
CPU_UNITS = tuple(dict.fromkeys(row.unit for row in _CPU_ROWS))


OUT_HEADER = 2  # words before the sums of a thread: its blocks, and one unused


def out_words(probe: CpuProbe) -> int:
    """Words of 32 bits that a CPU thread leaves: the header and its chains."""
    return OUT_HEADER + probe.chains * probe.lanes * (2 if probe.dtype == "fp64" else 1)


def row_elements(probe: Probe, itemsize_bytes: int) -> int:
    """Elements of k in a row of a matrix unit's operand."""
    if probe.unit in FEEDS:
        return LAP * _ROW_BYTES["wgmma"] // itemsize_bytes
    return _ROW_BYTES[probe.unit] // itemsize_bytes


def units_of(kind: str, dtype: str) -> tuple[str, ...]:
    """The units of a kind of device (`cpu`, `cuda`) that have a format."""
    rows = CPU_PROBES if kind == "cpu" else PROBES
    return tuple(unit for unit, has in rows if has == dtype)
