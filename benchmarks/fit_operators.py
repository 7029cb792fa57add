"""What PyTorch's kernels make of a device, found from readings: the fits of fit_primitives.py.

A fit turns the constants of some operators until the simulation's own time of each reading is as
near as it gets: the least mean of |log(simulated / read)|, where long calls weigh more, as they do
in jobs, but not by all of their time, or small ones would not count at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fit_readings import Reading

from pymicro.analysis.durations import Clock
from pymicro.analysis.primitives import FusedAttention, Kernel, Primitives
from pymicro.analysis.products import Unit
from pymicro.analysis.work import Work

Constants = dict[str, float]
# Assumed where readings do not tell: with anything from 0 to 8 the error of the matrix unit's
# products stays within a hundredth. At 0 small tiles would be free and no wave would ever be short;
# this makes a tile of half the size 5 % slower.
READING = {"tensor": 5.0}
# Where the fit of a decode step's attention begins. On the matrix unit a block costs its SM a start
# of its own; blocks of the vector unit's kernel fill an SM by threes, others overlap freely.
DECODE = {
    "vector": {"decode_floors": 2.0, "key_s": 1e-7, "block_key_s": 1e-7},
    "tensor": {"decode_floors": 2.0, "key_s": 1e-8, "block_s": 1e-6, "block_key_s": 1e-8},
}
AT_ONCE = {"vector": 3, "tensor": 16}


def error(p: Primitives, readings: Sequence[Reading]) -> float:
    """Mean of |log(simulated / read)|, each with the weight of the root of a call's time."""
    clocks = {tf32: Clock(p, tf32) for tf32 in (False, True)}
    total = whole = 0.0
    for r in readings:
        simulated_s = sum(n * clocks[r.tf32].of(work).seconds for work, n in r.works)
        weight = math.sqrt(r.seconds / r.calls)
        total += weight * abs(math.log(simulated_s / r.seconds))
        whole += weight
    return total / whole


def fitted(start: Constants, of: Callable[[Constants], float]) -> Constants:
    """Turns one constant at a time up and down, by less and less, while that makes `of` smaller."""
    best, least = dict(start), of(start)
    step = 2.0
    while step > 1.01:
        improved = False
        for name in start:
            for factor in (step, 1 / step):
                tried = {**best, name: best[name] * factor}
                found = of(tried)
                if found < least * (1 - 1e-4):
                    best, least, improved = tried, found, True
        if not improved:
            step = math.sqrt(step)
    return {name: float(f"{value:.3g}") for name, value in best.items()}


def with_kernel(p: Primitives, name: str, kernel: Kernel) -> Primitives:
    return replace(p, library=replace(p.library, kernels={**p.library.kernels, name: kernel}))


def layout(p: Primitives, dtype: str, name: str, readings: Sequence[Reading]) -> float:
    """Operations a clock and SM for which operands of a layout can be turned."""

    def of(c: Constants) -> float:
        turned = {dtype: {name: c["turned"]}}
        return error(replace(p, library=replace(p.library, turned_flop_per_clk=turned)), readings)

    return fitted({"turned": 1000.0}, of)["turned"]


def kernel(p: Primitives, name: str, readings: Sequence[Reading], like: str = "") -> Kernel:
    """What one operator launches, how long that takes with nothing to do, and what it handles.

    Args:
        like: the row whose `bytes_per_clk` it shares, where its readings are too small to tell.
    """
    count = sum(r.kernels for r in readings) / sum(r.calls for r in readings)
    wide, narrow = (_of_width(readings, w) for w in (False, True))
    share = p.library.kernels[like].bytes_per_clk if like else (0.0, 0.0)
    start = {"start": 2.0} | ({} if like else {"wide": 16.0} | ({"narrow": 16.0} if narrow else {}))

    def made(c: Constants) -> Kernel:
        both = share if like else (c["wide"], c.get("narrow", c["wide"]))
        return Kernel(count, c["start"], both)

    used = [*wide, *narrow]
    found = made(fitted(start, lambda c: error(with_kernel(p, name, made(c)), used)))
    return replace(found, kernels=float(f"{count:.3g}"))


def _of_width(readings: Sequence[Reading], narrow: bool) -> list[Reading]:
    return [r for r in readings if (r.works[0][0].dtype in ("float16", "bfloat16")) == narrow]


def unit(p: Primitives, name: str, readings: Sequence[Reading]) -> Unit:
    """The constants of a kind of unit, from neutral ones."""
    start = {"fill_k": 32.0, "step_s": 3e-9, "start_floors": 2.0, "split_floors": 2.0}
    start |= {} if name in READING else {"reading": 10.0}
    given = {"reading": READING[name]} if name in READING else {}

    def of(c: Constants) -> float:
        units = {**p.library.units, name: Unit(name, **given, **c)}
        return error(replace(p, library=replace(p.library, units=units)), readings)

    return Unit(name, **given, **fitted(start, of))


def attention(
    p: Primitives,
    unit_name: str,
    counts: Mapping[str, float],
    readings: Sequence[Reading],
    single: Sequence[Reading],
) -> tuple[FusedAttention, dict[str, Kernel]]:
    """Fused attention on a kind of unit, and its operators' kernels.

    Args:
        counts: kernels that one call launches, by operator; each starts alike.
        single: of one query a row, as a decode step has.
    """
    full = [r for r in readings if _queries(r.works[0][0]) >= 2]
    single = [*single, *(r for r in readings if r not in full)]
    rate = {"share": 0.5, "half_at_keys": 100.0, "dropout": 0.8, "mask": 0.8}

    def kernels(each: float) -> dict[str, Kernel]:
        like = p.library.kernels["attention"]
        # No kernel is shorter than the shortest.
        return {
            name: replace(like, kernels=float(f"{n:.3g}"), start_floors=n * max(each, 1.0))
            for name, n in counts.items()
        }

    def with_row(row: FusedAttention, each: float) -> Primitives:
        library = replace(
            p.library,
            attention={**p.library.attention, unit_name: row},
            kernels={**p.library.kernels, **kernels(each)},
        )
        return replace(p, library=library)

    def row_of(c: Constants) -> FusedAttention:
        step = {name: c[name] for name in DECODE[unit_name] if name in c}
        return FusedAttention(
            **{name: c[name] for name in rate}, at_once=AT_ONCE[unit_name],
            **({"key_s": 1e-12} | step),
        )  # fmt: skip

    # First what full blocks tell; then what a step waits for, where there is hardly a query.
    start = {**rate, "each": 2.0}
    found = fitted(start, lambda c: error(with_row(row_of(c), c["each"]), full))
    step = fitted(
        dict(DECODE[unit_name]), lambda c: error(with_row(row_of(found | c), found["each"]), single)
    )
    return row_of(found | step), kernels(found["each"])


def _queries(work: Work) -> float:
    """Of a block of fused attention, from operations of its two products of 64 numbers a head."""
    return work.flop / (4 * 64 * work.blocks * work.columns)
