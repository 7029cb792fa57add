"""The probes of pure issue, as rows: what one instruction of each unit multiplies, how many a trip
of the loop has, how many trips a call makes. Kernels, flop counts and expected answers follow."""

from __future__ import annotations

from dataclasses import dataclass

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
        threads: of the one block that each SM has.
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


def _wgmma(dtype: str, k: int) -> Probe:
    return Probe("wgmma", dtype, 2 * 64 * 256 * k, 128, 256, 1, 64, 32, True)


# A trip of mma or vector instructions is 128 of them, so that the loop itself costs 3 %; a call is
# half a million cycles or so where the unit is at its full rate.
_ROWS = (
    _wgmma("fp16", 16),
    _wgmma("bf16", 16),
    _wgmma("fp8_e4m3", 32),
    _wgmma("int8", 32),
    _wgmma("tf32", 8),
    _mma("fp16", 16),
    _mma("bf16", 16),
    _mma("fp8_e4m3", 32, restarts=True),
    _mma("int8", 32),
    _mma("tf32", 8),
    Probe("dmma", "fp64", 2 * 16 * 8 * 16, 32, 256, 8, 16, 64),
    Probe("ffma", "fp32", 2),
    Probe("hfma2", "fp16", 4, restarts=True),
    Probe("hfma2", "bf16", 4, restarts=True),
    Probe("dfma", "fp64", 2),
    Probe("dp4a", "int8", 8),
    Probe("imad", "int32", 2),
)
PROBES: dict[tuple[str, str], Probe] = {(row.unit, row.dtype): row for row in _ROWS}
GPU_UNITS = tuple(dict.fromkeys(row.unit for row in _ROWS))
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
    return _ROW_BYTES[probe.unit] // itemsize_bytes


def units_of(kind: str, dtype: str) -> tuple[str, ...]:
    """The units of a kind of device (`cpu`, `cuda`) that have a format."""
    rows = CPU_PROBES if kind == "cpu" else PROBES
    return tuple(unit for unit, has in rows if has == dtype)
