"""The probes of pure issue, as rows: what one instruction of each unit multiplies, how many a trip
of the loop has, how many trips a call makes. Kernels, flop counts and expected answers follow."""

from __future__ import annotations

from dataclasses import dataclass

MATRICES_A = 4  # left operands of a warp of a matrix unit; right ones, and pairs, one a chain
ROW_BYTES = {"mma": 32, "wgmma": 128}  # of k in a row of an operand; dmma has 16 doubles
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
CPU_UNITS = ("avx2", "avx512", "amx")
DTYPES = tuple(dict.fromkeys(row.dtype for row in _ROWS))
