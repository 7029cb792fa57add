"""Why a step takes its time, ranked: from a split to sentences with evidence and a remedy.

What is ranked is time that could be saved. Gaps of the device count in full. Of the device's work
only what is known to be avoidable counts: half of the products in FP32 outside the matrix units
(the units are at least twice as fast on every chip that has them), and kernels so short that
starting them is most of their time. That the device simply works comes first if nothing else
reaches a tenth of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pymicro.analysis.profile.parts import SHORT_KERNEL_S, CopyRow, Part, Split
from pymicro.units import percent, si

# A loss below this share of the step explains nothing by itself.
_NOTABLE = 0.10
_LEAST = 0.01
# Units with FP16 or BF16 operands and FP32 sums beside FP32 outside them, at the least.
FORMAT_FACTOR = 2.0


@dataclass(frozen=True)
class Cause:
    """One reason.

    Attributes:
        code: a stable word for programs.
        s: seconds of a step that it accounts for.
        seen: what was seen, with numbers.
        do: what to try.
    """

    code: str
    s: float
    seen: str
    do: str


def ranked(split: Split) -> tuple[Cause, ...]:
    """Reasons, the first the one to look at first; never none."""
    found = sorted((c for make in _MAKERS for c in make(split)), key=lambda c: -c.s)
    notable = [c for c in found if c.s >= _NOTABLE * split.clean_step_s]
    minor = [c for c in found if _LEAST * split.clean_step_s <= c.s < _NOTABLE * split.clean_step_s]
    return (*notable, _busy(split), *minor)


def _busy(split: Split) -> Cause:
    parts = sorted((p for p in split.parts if p.is_busy), key=lambda p: -p.s)
    s = split.busy_s / len(split.steps_s)
    told = ", ".join(f"{p.code} {percent(p.s / split.wall_s)}" for p in parts[:3])
    rows = [r for r in split.kernels if parts and r.kind.group == parts[0].code]
    most = f"; most in {rows[0].name}" if rows and rows[0].name else ""
    seen = f"the GPU works {percent(split.busy_s / split.wall_s)} of the time ({told}){most}"
    return Cause("gpu-busy", s, seen, _ADVICE.get(parts[0].code if parts else "", ""))


_ADVICE = {
    "gemm": "lower precision, a batch that fills the chip; `pymicro gemm` tells what it can do",
    "convolution": "channels_last and lower precision; cudnn.benchmark = True",
    "attention": "scaled_dot_product_attention in FP16 or BF16, which has the fastest kernels",
    "recurrent": "longer batches; the steps of a recurrence wait for each other",
    "elementwise": "torch.compile fuses such kernels; each one reads and writes memory once more",
    "reduction": "torch.compile fuses such kernels; each one reads and writes memory once more",
    "optimiser": "fused=True in the optimiser",
    "copy": "keep tensors where they are used and in one format",
    "collective": "larger buckets, fewer bytes (BF16), overlap with the backward pass",
}


def _per_step(split: Split, part: Part) -> float:
    return part.s / len(split.steps_s)


def _first(part: Part, most: int = 2) -> str:
    return ", ".join(name for name, _ in part.owners[:most])


def _host(split: Split) -> Iterator[Cause]:
    part, n = split.part("host"), len(split.steps_s)
    if not part.count:
        return
    s, kernels = _per_step(split, part), split.kernel_count / n
    period = split.step_s / max(split.launches / n, 1)
    seen = (
        f"the GPU waits {_of(s, split)} for the host to launch: {kernels:,.0f} kernels a step in "
        f"{split.launches / n:,.0f} launches, half of them shorter than "
        f"{si(split.kernel_median_s, 's', 3)}, one launch every {si(period, 's', 3)}; the host is "
        f"mostly in {_first(part)}"
    )
    do = (
        "CUDA graphs or torch.compile(mode='reduce-overhead'), larger batches, fused operators "
        "and optimiser; a faster host helps, a faster GPU does not"
    )
    yield Cause("host-bound", s, seen, do)


def _synchronisation(split: Split) -> Iterator[Cause]:
    part = split.part("synchronisation")
    if part.count:
        s = _per_step(split, part)
        seen = (
            f"the GPU runs dry {_of(s, split)} since the host waits for it and only then goes on "
            f"launching: {_first(part)}"
        )
        do = (
            "keep values on the GPU (torch.stack them and read once every hundred steps), "
            "non_blocking=True from pinned memory, masks by torch.where instead of nonzero"
        )
        yield Cause("synchronisation", s, seen, do)


def _input(split: Split) -> Iterator[Cause]:
    loader, outside = split.part("input"), split.part("outside")
    s = _per_step(split, loader) + _per_step(split, outside)
    if not loader.count and not outside.count:
        return
    if loader.s >= outside.s:
        seen = f"the GPU waits {_of(s, split)} for the data loader ({_first(loader, 1)})"
        do = "more workers (num_workers, persistent_workers, prefetch_factor), decode beforehand"
        yield Cause("input", s, seen, do)
    else:
        seen = f"the GPU waits {_of(s, split)} while {_first(outside, 1)}"
        do = "if it reads or prepares data, move it into a DataLoader's workers; if it logs, less"
        yield Cause("outside-pytorch", s, seen, do)


def _copies(split: Split) -> Iterator[Cause]:
    wait, n = split.part("copy-wait"), len(split.steps_s)
    moved = [r for r in split.copies if r.name.startswith("Memcpy") and "DtoD" not in r.name]
    s = (wait.s + sum(r.exposed_s for r in moved)) / n
    if not moved or not s:
        return
    told = ", ".join(_copied(row, n) for row in moved[:2])
    is_pageable = any("Pageable" in row.name for row in moved)
    seen = f"copies take {_of(s, split)} that nothing hides: {told}"
    do = "fewer copies; copy what the next step needs on a stream beside the arithmetic"
    if is_pageable:
        do = "pin_memory=True and non_blocking=True: pageable memory is copied twice, and blocks"
    yield Cause("copies", s, seen, do)


def _copied(row: CopyRow, steps: int) -> str:
    told = f"{row.count / steps:,.3g} × {row.name}"
    if not row.bytes or not row.s:
        return told
    return f"{told} of {si(row.bytes / row.count, 'B', 3)} at {si(row.bytes / row.s, 'B/s', 3)}"


def _start_up(split: Split) -> Iterator[Cause]:
    part = split.part("start-up")
    if part.count:
        s = _per_step(split, part)
        seen = f"the GPU waits {_of(s, split)} for code to be loaded or compiled: {_first(part)}"
        yield Cause("start-up", s, seen, "record later steps (--skip); pass once before the clock")


def _allocation(split: Split) -> Iterator[Cause]:
    part = split.part("allocation")
    if part.count:
        s = _per_step(split, part)
        seen = f"the GPU waits {_of(s, split)} for memory from the driver: {_first(part)}"
        do = (
            "record later steps; if it goes on, shapes vary: pad them, or set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; no empty_cache() in the loop"
        )
        yield Cause("allocation", s, seen, do)


def _collectives(split: Split) -> Iterator[Cause]:
    part = split.part("collective")
    if part.count:
        s = _per_step(split, part)
        seen = (
            f"collectives take {_of(s, split)} that no arithmetic hides ({_first(part, 1)}); "
            "that includes waiting for the slowest rank"
        )
        do = "give the folder with every rank's trace to tell waiting from sending"
        yield Cause("collective", s, seen, do)


def _small_kernels(split: Split) -> Iterator[Cause]:
    part, n = split.part("device"), len(split.steps_s)
    s = (part.s + split.short_s) / n
    if not s:
        return
    seen = (
        f"{_of(s, split)} goes into starting and ending kernels: {split.short_count / n:,.0f} of "
        f"{split.kernel_count / n:,.0f} a step are shorter than {si(SHORT_KERNEL_S, 's', 2)}, and "
        f"the GPU idles {si(part.s / n, 's', 3)} between queued ones"
    )
    yield Cause("small-kernels", s, seen, "fuse them (torch.compile, fused operators), or batch")


def _held(split: Split) -> Iterator[Cause]:
    part = split.part("held")
    if part.count:
        s = _per_step(split, part)
        seen = f"the GPU idles {_of(s, split)} with kernels queued that something holds back"
        do = "see what their stream waits for: wait_stream, wait_event, another device or rank"
        yield Cause("held-back", s, seen, do)


def _number_format(split: Split) -> Iterator[Cause]:
    rows = [r for r in split.kernels if r.kind.is_fp32]
    # Chips before the first matrix units have nothing better to offer.
    if not rows or (split.capability is not None and split.capability < (7, 0)):
        return
    total = sum(r.s for r in rows) / len(split.steps_s)
    s = total * (1 - 1 / FORMAT_FACTOR)
    seen = (
        f"FP32 products outside the matrix units take {_of(total, split)}, at least half of it "
        f"avoidable: {rows[0].name} from {rows[0].operator or 'an unknown operator'}"
    )
    do = (
        "torch.set_float32_matmul_precision('high') (TF32, from sm_80 on), or autocast to BF16 "
        "or FP16"
    )
    yield Cause("number-format", s, seen, do)


def _of(s: float, split: Split) -> str:
    return f"{si(s, 's', 3)} of {si(split.step_s, 's', 3)} a step"


_MAKERS: tuple[Callable[[Split], Iterator[Cause]], ...] = (
    _host,
    _synchronisation,
    _input,
    _copies,
    _start_up,
    _allocation,
    _collectives,
    _small_kernels,
    _held,
    _number_format,
)
