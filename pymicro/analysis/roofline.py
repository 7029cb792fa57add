"""The roofs of a device, where they come from, and points under them.

Points are values: those of stored results are made here, and whoever has others (operators of a
job, with their share of its time) passes them to `roofline` alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pymicro.analysis.figures import Subject
from pymicro.analysis.verdict import is_from_memory, judge
from pymicro.devices.cpu import CpuSpec
from pymicro.devices.peaks import Spec, peak_path
from pymicro.devices.published import select
from pymicro.devices.spec import DeviceSpec
from pymicro.devices.traps import spoilt
from pymicro.dtypes import DTYPES, rate_unit
from pymicro.results import Result
from pymicro.streams import arrays_moved

Origin = Literal["data sheet", "at the clock measured", "probe", "published"]
_LEVELS = {"l2_read_gbps": "l2", "l1_read_gbps": "l1", "smem_read_gbps": "shared"}
# NVML counts two transfers per tick of the memory clock.
_TRANSFERS_PER_TICK = 2


@dataclass(frozen=True)
class Roof:
    """A limit: operations a second in a format, or bytes a second from a level of memory.

    `low` and `high` are the range of several figures, or the interval of a measured one.
    """

    kind: Literal["compute", "memory"]
    of: str
    origin: Origin
    rate: float
    low: float
    high: float
    source: str


@dataclass(frozen=True)
class Point:
    """Work done at a rate. `intensity` is FLOP per byte of compulsory traffic to DRAM.

    `share_of_time` (0 to 1) is the part of a job that this work takes, None outside a job.
    """

    label: str
    dtype: str
    intensity: float
    rate: float
    low: float
    high: float
    share_of_time: float | None = None


@dataclass(frozen=True)
class Placed:
    """A point and the data sheet's roof over it.

    `bound_by` is `compute` or `dram`, by the side of the ridge on which the point lies; `roof` is
    the roof there.
    """

    point: Point
    attainable: float | None
    bound_by: str
    roof: Roof | None = None

    @property
    def fraction(self) -> float | None:
        """Achieved over attainable; why it may be above 1 follows from the roof's origin."""
        return self.point.rate / self.attainable if self.attainable else None


@dataclass(frozen=True)
class Roofline:
    """A device's roofs and points; `absent` says what could not be drawn and why."""

    name: str
    dtypes: tuple[str, ...]
    roofs: tuple[Roof, ...]
    points: tuple[Placed, ...]
    absent: tuple[str, ...] = ()

    @property
    def operations(self) -> str:
        """What the formats' operations are called: `FLOP`, `OP`, or `op` where they are mixed."""
        units = {rate_unit(name).removesuffix("/s") for name in self.dtypes}
        return units.pop() if len(units) == 1 else "op"

    def best(self, kind: str, of: str, *origins: Origin) -> Roof | None:
        """The roof of this format or level, from the first of the origins that has one."""
        for origin in origins or ("data sheet", "probe", "published", "at the clock measured"):
            for roof in self.roofs:
                if (roof.kind, roof.of, roof.origin) == (kind, of, origin):
                    return roof
        return None

    def ridge(self, compute: Roof) -> float | None:
        """FLOP per byte at which `compute` meets the DRAM roof."""
        dram = self.best("memory", "dram")
        return compute.rate / dram.rate if dram else None


def roofline(subject: Subject, dtypes: Sequence[str], points: Iterable[Point] = ()) -> Roofline:
    """The roofs of a subject in these formats, with its stored results and other points."""
    roofs: list[Roof] = []
    for dtype in dtypes:
        roofs += _compute(subject, dtype)
    roofs += _memory(subject)
    bare = Roofline(subject.name, tuple(dtypes), tuple(roofs), ())
    every = [*stored_points(subject.results, dtypes), *points]
    placed = tuple(_place(bare, point) for point in every)
    return Roofline(
        subject.name, tuple(dtypes), tuple(roofs), placed, tuple(_absent(subject, bare, every))
    )


def stored_points(results: Iterable[Result], dtypes: Sequence[str]) -> Iterator[Point]:
    """One point a case that counts operations and bytes: the newest result's most lasting rate."""
    newest: dict[object, Result] = {}
    for result in results:
        if result.flop and result.bytes and result.dtype in dtypes and result.benchmark != "peak":
            newest.pop(_case(result), None)  # So that the order is that of the newest, too.
            newest[_case(result)] = result
    for result in newest.values():
        rate = judge(result).rates[0]
        label = f"{result.benchmark} {result.backend} {_size(result)}"
        intensity = result.flop / result.bytes
        yield Point(label, result.dtype, intensity, rate.value, rate.low, rate.high)


def _case(result: Result) -> object:
    """What two results share of which the newer stands for both."""
    at = tuple(sorted((name, str(value)) for name, value in result.params.items()))
    who = (result.benchmark, result.backend, result.variant, result.details.get("kernel"))
    return *who, result.dtype, at, result.fill, result.cache


def _size(result: Result) -> str:
    p = result.params
    if {"m", "n", "k"} <= p.keys():
        size = f"{p['m']}×{p['n']}×{p['k']}"
        size = f"{p['batch']} of {size}" if "batch" in p else size
        return size if p.get("layout", "nt") == "nt" else f"{size} {p['layout']}"
    return " ".join(f"{k}={v}" for k, v in p.items())


def _compute(subject: Subject, dtype: str) -> Iterator[Roof]:
    spec = subject.spec
    path = peak_path(spec, DTYPES[dtype]) if spec else None
    peak = spec.peak_ops_per_s(path) if spec and path else None
    if spec and path and peak:
        yield Roof("compute", dtype, "data sheet", peak, peak, peak, f"{path}, dense")
    own = [r for r in subject.results if r.dtype == dtype and r.flop]
    if spec is None and own and (kept := (own[-1].device.get("peak_ops_per_s") or {}).get(dtype)):
        yield Roof("compute", dtype, "data sheet", kept, kept, kept, f"kept with {_run(own[-1])}")
    probes = [(judge(r).rates[0], r) for r in own if r.benchmark == "peak"]
    if probes:
        rate, r = max(probes, key=lambda p: p[0].value)
        yield Roof("compute", dtype, "probe", rate.value, rate.low, rate.high, _run(r))
    clocks = [(v.sm_clock_hz, r) for r in own if (v := judge(r)).sm_clock_hz]
    if spec and path and clocks:
        # The longest run shows the clock that lasts.
        clock, r = max(clocks, key=lambda c: sum(c[1].samples_s))
        at = spec.peak_ops_per_s(path, clock)
        if at:
            source = f"{path} at {(clock or 0) / 1e6:.0f} MHz, {_run(r)}"
            yield Roof("compute", dtype, "at the clock measured", at, at, at, source)


def _memory(subject: Subject) -> Iterator[Roof]:
    spec = subject.spec
    kept = subject.results[-1].device.get("memory_bytes_per_s") if subject.results else None
    rate = spec.memory_bytes_per_s if spec else kept
    if rate:
        yield Roof("memory", "dram", "data sheet", rate, rate, rate, "memory bandwidth")
    yield from _at_memory_clock(subject)
    yield from _probed(subject)
    if isinstance(spec, DeviceSpec) and spec.key:
        yield from _published(spec)


def _at_memory_clock(subject: Subject) -> Iterator[Roof]:
    bits = getattr(subject.spec, "memory_bus_width_bits", None)
    seen = [r for r in subject.results if r.telemetry and r.telemetry.memory_clock_hz]
    if bits and seen:
        last = seen[-1]
        clock = last.telemetry.memory_clock_hz or 0.0 if last.telemetry else 0.0
        rate = _TRANSFERS_PER_TICK * clock * bits / 8
        source = f"{bits} bits at {clock / 1e6:.0f} MHz, {_run(last)}"
        yield Roof("memory", "dram", "at the clock measured", rate, rate, rate, source)


def _probed(subject: Subject) -> Iterator[Roof]:
    """The best stored bandwidth of each level of memory."""
    best: dict[str, Roof] = {}
    for r in subject.results:
        level = _level(r, subject.spec) if r.benchmark == "bandwidth" and r.bytes else None
        if level is None:
            continue
        seen = judge(r).rates[0]
        roof = Roof("memory", level, "probe", seen.value, seen.low, seen.high, _run(r))
        if level not in best or best[level].rate < roof.rate:
            best[level] = roof
    yield from best.values()


def _level(result: Result, spec: Spec | None) -> str | None:
    """From which level of memory a stored bandwidth is; None where that is not certain."""
    p = result.params
    if p.get("access", "sequential") != "sequential":
        return None
    if p.get("level", "memory") != "memory":
        return str(p["level"])
    if is_from_memory(result):
        return "dram"
    # Pairs of SMs that ask for the same lines receive more than L2 sends.
    if (result.backend, result.variant) == ("cuda", "shared") or not {"op", "size"} <= p.keys():
        return None
    cache, inner = spec.last_level_cache_bytes if spec else None, _inner_bytes(spec)
    if isinstance(spec, DeviceSpec) and result.backend == "cuda":
        inner = 0  # These kernels load past L1, whatever it could hold.
    if cache is None or inner is None:
        return None
    # Half of it: a cache in two halves may hold a line twice.
    within = inner < arrays_moved(p["op"]) * p["size"] <= cache / 2
    return ("l2" if isinstance(spec, DeviceSpec) else "last cache") if within else None


def _inner_bytes(spec: Spec | None) -> int | None:
    """Bytes of all caches together that lie before the last one; None where one is not known."""
    if isinstance(spec, CpuSpec):
        each = spec.l2_bytes if spec.l3_bytes else spec.l1d_bytes
        return each * spec.physical_cores if each else None
    each, sms = getattr(spec, "l1_and_shared_bytes_per_sm", None), getattr(spec, "sm_count", None)
    return each * sms if each and sms else None


def _published(spec: DeviceSpec) -> Iterator[Roof]:
    """Cache bandwidths that others measured: the highest, with the range of all."""
    for metric, level in _LEVELS.items():
        rows = [r for r in select(spec.key, metric) if not spoilt(r, spec)]
        if rows:
            values = [r.value for r in rows]
            source = ", ".join(dict.fromkeys(r.source.id for r in rows))
            top = max(values)
            yield Roof("memory", level, "published", top, min(values), top, source)


def _run(result: Result) -> str:
    return f"run {result.run_id}" if result.run_id else "a stored result"


def _place(bare: Roofline, point: Point) -> Placed:
    compute, dram = bare.best("compute", point.dtype), bare.best("memory", "dram")
    if compute is None or dram is None:
        return Placed(point, None, "")
    under_dram = dram.rate * point.intensity
    if compute.rate <= under_dram:
        return Placed(point, compute.rate, "compute", compute)
    return Placed(point, under_dram, "dram", dram)


def _absent(subject: Subject, bare: Roofline, points: Sequence[Point]) -> Iterator[str]:
    spec: Spec | None = subject.spec
    unknown = [d for d in bare.dtypes if bare.best("compute", d, "data sheet") is None]
    if unknown:
        why = "the card lacks the format, or its rate is not known"
        if spec is None or isinstance(spec, CpuSpec):
            why = "the clock or the rates of its cores are not known"
        yield f"no peak on paper for {', '.join(unknown)}: {why}."
    if bare.best("memory", "dram", "data sheet") is None:
        yield "the memory bandwidth on paper is not known."
    if not points:
        yield "no stored result to place under the roofs; `pymicro gemm` there makes some."
