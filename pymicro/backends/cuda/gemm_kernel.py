"""What a row of the GEMM dispatch table says about one kernel. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pymicro.backends.cuda import gemm_verified

Capability = tuple[int, int]


@dataclass(frozen=True)
class GemmKernel:
    """One compiled configuration of one source file.

    Attributes:
        path: the generation it was written for, `sm61` to `sm120`; the word after `--path`.
        variant: what tells it from others of the same path and dtype, `fast-accumulate`, or "".
        source: file under `csrc/cuda`.
        entry: name of the `extern "C"` function.
        defines: macros that select dtype, tile and stages.
        tile: rows, columns and depth of C computed by one block (or cluster).
        threads: threads of a block.
        shared_bytes: dynamic shared memory of a block.
        arch_suffix: "a" where the instructions exist on that chip alone (`sm_90a`).
        first, last: compute capabilities it runs on, both included; last None is open.
        abi: `pointer` kernels take (A, B, C, m, n, k); `tma` kernels take tensor maps.
        layouts: layouts of B it reads, `nt` (n×k) or `nn` (k×n).
        cut_k: blocks share a tile, each with a part of k, and need a place to leave their sums.
        batched: it computes several products of one shape, one behind the other in memory.
        overlap: it may be launched while the kernel before still ends; it waits for that itself.
        alignment: each row of A, B and C must be a multiple of this many bytes.
    """

    path: str
    dtype: str
    source: str
    entry: str
    tile: tuple[int, int, int]
    threads: int
    first: Capability
    last: Capability | None = None
    variant: str = ""
    defines: tuple[tuple[str, str | int], ...] = ()
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    arch_suffix: str = ""
    abi: Literal["pointer", "tma"] = "pointer"
    layouts: tuple[str, ...] = ("nt",)
    alignment: int = 1
    cut_k: bool = False
    batched: bool = False
    overlap: bool = False

    @property
    def name(self) -> str:
        tile = "x".join(map(str, self.tile))
        return "_".join(filter(None, (self.path, self.dtype, tile, self.variant)))

    @property
    def ran_on(self) -> tuple[str, ...]:
        """Devices on which it was verified against the reference, by catalogue key."""
        return gemm_verified.ran_on(self.name)

    @property
    def is_trusted(self) -> bool:
        """Whether it may be the default: it ran right on some card, or has no hand-made barriers
        that could hang one where it is wrong."""
        return bool(self.ran_on) or not (self.arch_suffix or self.abi == "tma")

    def runs_on(self, capability: Capability) -> bool:
        return self.first <= capability and (self.last is None or capability <= self.last)
