"""Whether code built for some architectures runs on a chip, and how: the rules of CUDA, pure.

Sources: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"
(https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility) for plain
architectures and Tegra; NVCC manual, "GPU Feature List"
(https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/index.html#gpu-feature-list) for the
suffixes `a` and `f`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pymicro.errors import UsageError

Kind = Literal["native", "relative", "jit", "impossible"]
# From best to worst; readiness gates and sorts by it.
KINDS: tuple[Kind, ...] = ("native", "relative", "jit", "impossible")
Capability = tuple[int, int]

# Integrated (Tegra) chips: machine code goes neither to nor from their neighbours. 10.1 and 11.0
# are one chip under its older and its newer number.
_TEGRA = {(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0)}
_ARCH = re.compile(r"(sm|compute)_(\d{2,3})([af]?)")
_DOTTED = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", re.IGNORECASE)


@dataclass(frozen=True)
class Arch:
    """One entry of a list of architectures.

    Attributes:
        is_ptx: `compute_XY`, portable code that the driver compiles; else machine code `sm_XY`.
        suffix: `a` runs on its own chip only, `f` on its family, empty on all later minors.
    """

    capability: Capability
    is_ptx: bool = False
    suffix: str = ""

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{'compute' if self.is_ptx else 'sm'}_{major}{minor}{self.suffix}"


def parse_archs(words: Iterable[str]) -> tuple[Arch, ...]:
    """Read `sm_90a`, `compute_90`, and the notation of build flags: `9.0`, `12.0+PTX`.

    Raises:
        UsageError: a word is none of these.
    """
    found: list[Arch] = []
    for word in words:
        if match := _ARCH.fullmatch(word.strip()):
            # The last digit is the minor number: sm_120 is 12.0.
            capability = (int(match[2][:-1]), int(match[2][-1]))
            found.append(Arch(capability, match[1] == "compute", match[3]))
        elif match := _DOTTED.fullmatch(word.strip()):
            capability, suffix = (int(match[1]), int(match[2])), match[3].lower()
            found.append(Arch(capability, False, suffix))
            found += [Arch(capability, True, suffix)] if match[4] else []
        else:
            raise UsageError(f"'{word}' is no architecture; write sm_90a, compute_90 or 9.0+PTX.")
    return tuple(found)


def best_code(capability: Capability, archs: Iterable[Arch]) -> tuple[Kind, Arch | None]:
    """How code built for `archs` runs on a chip of this compute capability, and the entry that
    gives it: the nearest one where several do.

    `native`: machine code for this very chip. `relative`: machine code of an earlier minor number
    of the same major one; right, but tuned for another chip. `jit`: only PTX that the driver
    compiles at first use. `impossible`: "no kernel image is available".
    """
    runnable = [(KINDS.index(kind), arch) for arch in archs if (kind := _kind(capability, arch))]
    if not runnable:
        return "impossible", None
    rank = min(rank for rank, _ in runnable)
    nearest = max((a for r, a in runnable if r == rank), key=lambda a: (a.capability, a.suffix))
    return KINDS[rank], nearest


def _kind(capability: Capability, arch: Arch) -> Kind | None:
    """How one entry runs there, None if it does not."""
    if capability == arch.capability:
        return "jit" if arch.is_ptx else "native"
    if arch.suffix == "a":
        return None
    if arch.is_ptx and not arch.suffix:
        return "jit" if capability > arch.capability else None
    # What remains is machine code, or PTX of a family: both stay within the major number.
    if capability[0] != arch.capability[0] or capability[1] < arch.capability[1]:
        return None
    if {capability, arch.capability} & _TEGRA:
        return None
    return "jit" if arch.is_ptx else "relative"
