"""CUDA_VISIBLE_DEVICES, read as CUDA reads it: the list ends at the first entry that is invalid.

Pure words and numbers; nothing here looks at a machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"\s*([+-]?\d+)")


@dataclass(frozen=True)
class Mask:
    """What a mask leaves visible.

    Attributes:
        chosen: positions in the list of GPUs given, in the order of the mask. Numbers count in
            CUDA's order, which is NVML's only under CUDA_DEVICE_ORDER=PCI_BUS_ID.
        mig: MIG slices named, as written. CUDA uses the first one.
        stopped_at: the entry at which CUDA stops reading, None if all were valid.
        hides_on_purpose: the mask is empty or starts with a negative number.
    """

    chosen: tuple[int, ...] = ()
    mig: tuple[str, ...] = ()
    stopped_at: str | None = None
    hides_on_purpose: bool = False


def parse_mask(mask: str | None, uuids: Sequence[str | None]) -> Mask:
    """Apply `mask` to GPUs whose UUIDs are given (None where unknown); None means no mask.

    Numbers may be followed by anything (`1gpu` is 1), a UUID may be cut short as long as it
    stays unique, and an entry that comes twice leaves nothing visible: so does the CUDA runtime.
    """
    if mask is None:
        return Mask(tuple(range(len(uuids))))
    if not mask.strip():
        return Mask(hides_on_purpose=True)
    chosen: list[int] = []
    mig: list[str] = []
    stopped_at = None
    for entry in mask.split(","):
        if entry.strip().startswith("MIG-"):
            mig.append(entry.strip())
            continue
        position = _position(entry, uuids)
        if position is None:
            stopped_at = entry.strip()
            break
        chosen.append(position)
    if len(set(chosen)) < len(chosen) or len(set(mig)) < len(mig):
        return Mask(stopped_at=_first_twice(mask))
    number = _NUMBER.match(mask)
    hides = not chosen and not mig and number is not None and int(number[1]) < 0
    return Mask(tuple(chosen), tuple(mig), stopped_at, hides)


def _position(entry: str, uuids: Sequence[str | None]) -> int | None:
    """The GPU that one entry means, None if it is invalid."""
    word = entry.strip()
    if word.startswith("GPU-"):
        hits = [i for i, u in enumerate(uuids) if u is not None and u.startswith(word)]
        return hits[0] if len(hits) == 1 else None
    number = _NUMBER.match(entry)
    if number is None or not 0 <= int(number[1]) < len(uuids):
        return None
    return int(number[1])


def _first_twice(mask: str) -> str:
    words = [w.strip() for w in mask.split(",")]
    return next((w for i, w in enumerate(words) if w in words[:i]), words[-1])
