"""All primitives of a device: the store's results first, then what ships measured, then print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from pymicro.analysis import primitives_print as printed
from pymicro.analysis import primitives_stored as stored
from pymicro.analysis import primitives_tables as tables
from pymicro.analysis.primitives import PATHS, HostCosts, Library, Primitives
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
) -> Primitives:
    """All primitives of a device, each from the best evidence there is.

    Args:
        results: stored results of this device. measured: False takes print and paper only.
        library: kernels other than those that ship.

    Raises:
        Unavailable: not even its paper figures are known.
    """
    known = _over(stored.of(results), tables.measured(spec.key)) if measured else stored.Stored()
    if isinstance(spec, CpuSpec):
        return _of_cpu(spec, known)
    peaks = {p: peak_ops_per_s(spec, DTYPES[p]) or 0.0 for p in PATHS}
    if not peaks["fp32"] or not spec.memory_bytes_per_s:
        raise Unavailable(
            f"{spec.name}: its peak or its bandwidth is not known; add them as a row."
        )
    rates = {p: known.rates.get(p) or printed.rate(spec, p, peaks[p]) for p in PATHS if peaks[p]}
    dram = known.dram or printed.dram(spec)
    return Primitives(
        name=spec.name,
        key=spec.key,
        sm_count=spec.sm_count or 1,
        sm_clock_hz=getattr(spec, "boost_clock_hz", None),
        l2_bytes=spec.last_level_cache_bytes or 0,
        memory_bytes=spec.memory_bytes,
        power_w=getattr(spec, "tdp_w", None),
        peaks=peaks,
        paper_dram=spec.memory_bytes_per_s,
        rates=rates,
        dram=dram,
        l2=known.l2 or printed.l2(spec, dram),
        floor=known.floor or printed.floor(),
        gap=known.gap or printed.gap(),
        graph_gap=known.graph_gap or printed.graph_gap(),
        reach_s=printed.reach(),
        link=known.link or printed.link(spec),
        link_s=known.link_s or printed.link_start(),
        host=host or tables.default_host(),
        library=library or tables.default_library(),
        clock=known.clock,
        curve=known.curve,
        products=known.products,
        batched_share=tables.batched(spec),
        allreduce={**dict(printed.allreduce(spec)), **known.allreduce},
    )


def _of_cpu(spec: CpuSpec, known: stored.Stored) -> Primitives:
    """A CPU is known by what was measured on it: its paper peak is an upper bound at most.

    Raises:
        Unavailable: nothing was measured.
    """
    if "fp32" not in known.rates or known.dram is None:
        raise Unavailable(
            f"{spec.name}: nothing was measured on it yet; name a card with --device, or run "
            "`pymicro suite --for MODEL --device cpu` first."
        )
    library, host, floor = tables.cpu()
    nothing = Value(0.0, 0.0, 0.0, "one queue", "measured")
    paper = {p: peak_ops_per_s(spec, DTYPES[p]) or 0.0 for p in ("fp32", "bf16")}
    peaks = {p: paper[p] or known.rates[p].value for p in known.rates if p in paper}
    dram = known.dram
    return Primitives(
        name=spec.name, key=spec.key, sm_count=spec.physical_cores, sm_clock_hz=_A_NANOSECOND_HZ,
        l2_bytes=spec.last_level_cache_bytes or 0, memory_bytes=spec.memory_bytes, power_w=None,
        peaks=peaks, paper_dram=spec.memory_bytes_per_s or dram.high,
        rates={p: known.rates[p] for p in peaks}, dram=dram, l2=known.l2 or dram.times(3.0),
        floor=floor, gap=nothing, graph_gap=nothing, reach_s=nothing,
        link=Value(1e12, 1e12, 1e12, "no link", "measured"), link_s=nothing, host=host,
        library=library, products=known.products,
    )  # fmt: skip


def _over(first: stored.Stored, second: stored.Stored) -> stored.Stored:
    """What the first knows, else the second; tables are joined."""
    joined: dict[str, Any] = {}
    for f in fields(stored.Stored):
        a, b = getattr(first, f.name), getattr(second, f.name)
        joined[f.name] = {**b, **a} if isinstance(a, dict) else (a or b)
    return replace(first, **joined)
