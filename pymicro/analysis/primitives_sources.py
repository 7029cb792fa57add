"""All primitives of a device: the store's results first, then what ships measured, then print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from pymicro.analysis import primitives_print as printed
from pymicro.analysis import primitives_stored as stored
from pymicro.analysis import primitives_tables as tables
from pymicro.analysis.primitives import LARGE_SIDE, PATHS, HostCosts, Library, Primitives
from pymicro.analysis.values import Value
from pymicro.devices.cpu import CpuSpec
from pymicro.devices.peaks import Spec, peak_ops_per_s
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable
from pymicro.results import Result

# Of a CPU's kernels the table has bytes a nanosecond and core, where others have them a clock.
_A_NANOSECOND_HZ = 1e9


def primitives(
    spec: Spec,
    results: Sequence[Result] = (),
    host: HostCosts | None = None,
    measured: bool = True,
    library: Library | None = None,
    job: str = "MODEL",
) -> Primitives:
    """All primitives of a device, each from the best evidence there is.

    Args:
        results: stored results of this device. measured: False takes print and paper only.
        library: kernels other than those that ship. job: named in the cure of a refusal.

    Raises:
        Unavailable: not even its paper figures are known.
    """
    known = _over(stored.of(results), tables.measured(spec.key)) if measured else stored.Stored()
    if isinstance(spec, CpuSpec):
        if missing := list(_missing(known)):
            told = "" if measured else " (published figures are of cards only)"
            raise Unavailable(
                f"{spec.name}: no {' and no '.join(missing)} on this CPU is stored{told}; "
                f"`pymicro suite --for {job} --device cpu` measures what is missing (it needs "
                "torch), or name a card with --device."
            )
        return _of_cpu(spec, known)
    peaks = {p: peak_ops_per_s(spec, DTYPES[p]) or 0.0 for p in PATHS}
    if not peaks["fp32"] or not spec.memory_bytes_per_s:
        raise Unavailable(
            f"{spec.name}: its peak or its bandwidth is not known; add them as a row."
        )
    rates = {
        p: known.flop_per_s.get(p) or printed.rate(spec, p, peaks[p]) for p in PATHS if peaks[p]
    }
    dram = known.dram_bytes_per_s or printed.dram(spec)
    return Primitives(
        name=spec.name,
        key=spec.key,
        sm_count=spec.sm_count or 1,
        sm_clock_hz=getattr(spec, "boost_clock_hz", None),
        l2_bytes=spec.last_level_cache_bytes or 0,
        memory_bytes=spec.memory_bytes,
        power_w=getattr(spec, "tdp_w", None),
        peak_flop_per_s=peaks,
        paper_bytes_per_s=spec.memory_bytes_per_s,
        flop_per_s=rates,
        dram_bytes_per_s=dram,
        l2_bytes_per_s=known.l2_bytes_per_s or printed.l2(spec, dram),
        floor_s=known.floor_s or printed.floor(),
        gap_s=known.gap_s or printed.gap(),
        graph_gap_s=known.graph_gap_s or printed.graph_gap(),
        reach_s=printed.reach(),
        link_bytes_per_s=known.link_bytes_per_s or printed.link(spec),
        link_start_s=known.link_start_s or printed.link_start(),
        host=host or tables.default_host(),
        library=library or tables.default_library(),
        clock_share=known.clock_share,
        curve_bytes_per_s=known.curve_bytes_per_s,
        product_s=known.product_s,
        batched_share=tables.batched(spec),
        allreduce_bytes_per_s={**dict(printed.allreduce(spec)), **known.allreduce_bytes_per_s},
    )


def _missing(known: stored.Stored) -> Iterator[str]:
    """What a CPU is not known without: its jobs run on torch, so only torch's results tell."""
    if "fp32" not in known.flop_per_s:
        yield f"product by torch in fp32 with sides of {LARGE_SIDE} or more"
    if known.dram_bytes_per_s is None:
        yield "copy by torch in memory, beyond the caches"


def _of_cpu(spec: CpuSpec, known: stored.Stored) -> Primitives:
    """A CPU is known by what was measured on it: its paper peak is an upper bound at most."""
    assert known.dram_bytes_per_s is not None, "see _missing"
    library, host, floor = tables.cpu()
    nothing = Value(0.0, 0.0, 0.0, "one queue", "measured")
    paper = {p: peak_ops_per_s(spec, DTYPES[p]) or 0.0 for p in ("fp32", "bf16")}
    peaks = {p: paper[p] or known.flop_per_s[p].value for p in known.flop_per_s if p in paper}
    dram = known.dram_bytes_per_s
    return Primitives(
        name=spec.name, key=spec.key, sm_count=spec.physical_cores, sm_clock_hz=_A_NANOSECOND_HZ,
        l2_bytes=spec.last_level_cache_bytes or 0, memory_bytes=spec.memory_bytes, power_w=None,
        peak_flop_per_s=peaks, paper_bytes_per_s=spec.memory_bytes_per_s or dram.high,
        flop_per_s={p: known.flop_per_s[p] for p in peaks}, dram_bytes_per_s=dram,
        l2_bytes_per_s=known.l2_bytes_per_s or dram.times(3.0),
        floor_s=floor, gap_s=nothing, graph_gap_s=nothing, reach_s=nothing,
        link_bytes_per_s=Value(1e12, 1e12, 1e12, "no link", "measured"), link_start_s=nothing,
        host=host, library=library, product_s=known.product_s,
    )  # fmt: skip


def _over(first: stored.Stored, second: stored.Stored) -> stored.Stored:
    """What the first knows, else the second; tables are joined."""
    joined: dict[str, Any] = {}
    for f in fields(stored.Stored):
        a, b = getattr(first, f.name), getattr(second, f.name)
        joined[f.name] = {**b, **a} if isinstance(a, dict) else (a or b)
    return replace(first, **joined)
