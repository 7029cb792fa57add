"""For which generation of chips a library's kernel was written, from its name alone.

Library kernels carry the chip that their authors had in mind: `ampere_sgemm_…`, `sm80_xmma_…`,
`cutlass_80_…`. A later chip runs such a kernel, compiled anew, with the instructions of the earlier
one. Names that tell nothing (`gemmSN_TN_kernel`, ATen's own) give None, never a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pymicro.software.codes import Capability

# NVIDIA's names of generations, as cuBLAS and cuDNN use them in kernel names, and their first chip.
GENERATIONS: dict[str, Capability] = {
    "maxwell": (5, 0),
    "pascal": (6, 0),
    "volta": (7, 0),
    "turing": (7, 5),
    "ampere": (8, 0),
    "ada": (8, 9),
    "hopper": (9, 0),
    "blackwell": (10, 0),
}


@dataclass(frozen=True)
class Written:
    """What a name tells.

    Attributes:
        chip: the first compute capability that the kernel was written for.
        by: what in the name says so.
        or_newer: the family exists on this and later chips, and the name does not tell which.
    """

    chip: Capability
    by: str
    or_newer: bool = False


# The first pattern that is found decides; those that name a chip come before those that name a
# family. `sm` is followed by a major and a minor digit, so sm_120 is 12.0.
_CHIP = (
    r"\b(?:cutlass3x|nvjet)_sm(\d{2,3})[af]?_",
    r"\bcutlass_(\d{2,3})_",
    r"(?:^|[^a-z])sm_?(\d{2,3})(?:[af]?(?![a-z0-9])|_)",
)
_WORD = rf"(?:^|[^a-z])({'|'.join(GENERATIONS)})_"
# Families whose names carry no chip. nvjet: cuBLAS's kernels for Hopper and what follows it.
# FlashAttention 2 in torch and in its own package is written for sm_80 (its traits say
# `SM80_16x8x16`); FlashAttention 3's kernels say Sm90 themselves.
_FAMILIES = (
    (r"\bnvjet_", (9, 0), True),
    (r"\bflash_(?:fwd|bwd)_", (8, 0), False),
    (r"warpgroup|wgmma", (9, 0), False),
)


def written_for(name: str) -> Written | None:
    """The generation that a kernel was written for; None if its name does not say."""
    for pattern in _CHIP:
        chips = {(int(d[:-1]), int(d[-1])) for d in re.findall(pattern, name, re.IGNORECASE)}
        # A digit pair that is no chip, as in `sm_16x8`, tells nothing.
        chips = {chip for chip in chips if chip >= (5, 0)}
        if chips:
            chip = max(chips)
            return Written(chip, f"sm_{chip[0]}{chip[1]}")
    if match := re.search(_WORD, name, re.IGNORECASE):
        word = match[1].lower()
        return Written(GENERATIONS[word], word)
    for pattern, chip, or_newer in _FAMILIES:
        if match := re.search(pattern, name):
            return Written(chip, match[0].strip("_"), or_newer)
    return None


# Chips by the year in which their generation came; those of one line run each other's code.
# Volta and Turing share a step, and so do Ada and Hopper: one for games, one for data centres.
_STEPS: tuple[tuple[Capability, int], ...] = (
    ((10, 0), 5),
    ((8, 9), 4),
    ((8, 0), 3),
    ((7, 0), 2),
    ((6, 0), 1),
    ((5, 0), 0),
)


def steps_behind(written: Capability, chip: Capability) -> int:
    """How many generations lie between code written for one chip and another; 0 if none or newer.

    Pascal, Volta and Turing, Ampere, Ada and Hopper, Blackwell: each is a step.
    """
    return max(_step(chip) - _step(written), 0)


def _step(chip: Capability) -> int:
    return next((step for first, step in _STEPS if chip >= first), 0)


def generation(chip: Capability) -> str:
    """The name of a chip's generation, as in GENERATIONS."""
    return max((c, name) for name, c in GENERATIONS.items() if c <= max(chip, (5, 0)))[1]


def short(name: str, most: int = 60) -> str:
    """A kernel's name without return type, arguments and template arguments."""
    name = re.sub(r"^std::enable_if<.*?>::type ", "", name.removeprefix("void "))
    inner = re.search(r"cutlass\w*::\w+<((?:cutlass|sm)\w+)", name)
    name = inner[1] if inner else re.split(r"[(<]", name)[0]
    return name if len(name) <= most else name[: most - 3] + "..."
