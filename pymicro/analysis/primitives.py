"""The primitives of a device: the numbers from which the time of a job follows.

Each is a `Value` with an interval and a source. Where they come from is decided in
`primitives_sources`; what is made of them in `products`, `durations` and `simulate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pymicro.analysis.products import Unit
from pymicro.analysis.values import Value
from pymicro.analysis.work import Product
from pymicro.dtypes import DTYPES
from pymicro.workloads.precisions import PRODUCT_FORMATS

# Formats a product may run in; each is a row of `dtypes`.
PATHS = PRODUCT_FORMATS
# Of torch's formats those with a path of their own; all others are multiplied as FP32.
SHORT_PATHS = {DTYPES[p].torch_name: p for p in PATHS if DTYPES[p].torch_name != "float32"}
# A product this large on every side shows the rate of its path.
LARGE_SIDE = 2048


@dataclass(frozen=True)
class HostCosts:
    """Seconds that the host spends, by phase of a job; `""` is any other phase.

    Attributes:
        operator_s: to dispatch one operator that runs kernels, with the Python around it.
        view_s: to dispatch one that only makes a view. launch_s: for each kernel after the first.
        tensor_s: for each tensor of a list that an optimiser goes through.
        wait_s: from the end of the device's work until the host goes on.
        run_s: once a run of the phase, whatever it holds: loop, hooks, bookkeeping.
        token_s: for each token of a batch, to make the batch.
        cast_s: for a cast that autocast puts in, None if it is as dear as any operator.
    """

    name: str
    operator_s: Mapping[str, Value]
    view_s: Value
    launch_s: Value
    tensor_s: Value
    wait_s: Value
    run_s: Mapping[str, Value] = field(default_factory=dict)
    token_s: Value | None = None
    cast_s: Value | None = None

    def operator(self, phase: str) -> Value:
        return self.operator_s.get(phase) or self.operator_s[""]

    def run(self, phase: str) -> float:
        value = self.run_s.get(phase) or self.run_s.get("")
        return value.value if value else 0.0

    def faster(self, factor: float) -> HostCosts:
        """A host that does all of it `factor` times as fast."""
        return replace(
            self,
            name=f"{self.name}, {factor:g} times as fast",
            operator_s={k: v.times(1 / factor) for k, v in self.operator_s.items()},
            run_s={k: v.times(1 / factor) for k, v in self.run_s.items()},
            **{f: v.times(1 / factor) for f in _PLAIN_HOST if (v := getattr(self, f))},
        )


_PLAIN_HOST = ("view_s", "launch_s", "tensor_s", "wait_s", "token_s", "cast_s")


@dataclass(frozen=True)
class Kernel:
    """What the framework launches for an operator.

    Attributes:
        kernels: launched by one call. start_floors: of the shortest kernel's time, what one call
            takes with nothing to do.
        bytes_per_clk: a clock and SM, that they handle at most, in 4-byte and 2-byte formats.
    """

    kernels: float
    start_floors: float
    bytes_per_clk: tuple[float, float]


@dataclass(frozen=True)
class FusedAttention:
    """What fused attention makes of the rate of a large product on one kind of unit.

    Attributes:
        share: of the rate on very long sequences. half_at_keys: length at which half of it is left.
        dropout, mask: factors with one of them. key_s: seconds a key at least.
        block_s, block_key_s: what a block of a decode step costs its SM, and what each of its keys
            does. at_once: such blocks that an SM works on at once. decode_floors: what its
            kernel takes with nothing to do, in times of the shortest one.
    """

    share: float
    half_at_keys: float
    dropout: float
    mask: float
    key_s: float
    block_s: float = 0.0
    block_key_s: float = 0.0
    at_once: int = 16
    decode_floors: float = 2.0


@dataclass(frozen=True)
class Library:
    """The framework's kernels, by operator name or else by class; the same for all devices.

    Attributes:
        units: what decides the time of a product, by kind of unit.
        turned_flop_per_clk: by path and layout, where operands have to be turned on their way to
            the unit: operations a clock and SM for which that can be done; it takes its time.
        speed: factor on `bytes_per_clk`, on turning and on the share of attention, 1 where they
            were measured.
    """

    kernels: Mapping[str, Kernel]
    attention: Mapping[str, FusedAttention]
    units: Mapping[str, Unit]
    tensors_a_launch: float
    speed: Value
    turned_flop_per_clk: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Primitives:
    """All that a simulation needs to know of a device.

    Attributes:
        peak_flop_per_s: on paper by path, at the nominal clock; 0 or absent where the device has no
            such path. flop_per_s: what a large product reaches.
        clock_share: of the nominal clock, that a path holds under load; absent if not known.
        paper_bytes_per_s: of the memory. dram_bytes_per_s: what a large copy moves.
        l2_bytes_per_s: of a working set that the cache holds.
        curve_bytes_per_s: measured (bytes, bytes a second) of streams, ascending; empty if not
            measured.
        sm_clock_hz: nominal clock, None where it does not matter.
        floor_s: of the shortest kernel. gap_s: from one kernel's end to the next one's start while
            both are queued. graph_gap_s: the same inside a graph. reach_s: from the host's call to
            the start of its kernel on an idle device.
        product_s: of products measured at exactly this shape.
        link_bytes_per_s: from the host, link_start_s: before the first byte.
        batched_share: of `flop_per_s`, that batched products of a path reach, where it is known to
            differ.
        allreduce_bytes_per_s: bus bandwidth by kind of link.
    """

    name: str
    key: str
    sm_count: int
    sm_clock_hz: float | None
    l2_bytes: int
    memory_bytes: int | None
    power_w: float | None
    peak_flop_per_s: Mapping[str, float]
    paper_bytes_per_s: float
    flop_per_s: Mapping[str, Value]
    dram_bytes_per_s: Value
    l2_bytes_per_s: Value
    floor_s: Value
    gap_s: Value
    graph_gap_s: Value
    reach_s: Value
    link_bytes_per_s: Value
    link_start_s: Value
    host: HostCosts
    library: Library
    clock_share: Mapping[str, Value] = field(default_factory=dict)
    curve_bytes_per_s: tuple[tuple[float, float], ...] = ()
    product_s: Mapping[tuple[str, Product], Value] = field(default_factory=dict)
    batched_share: Mapping[str, Value] = field(default_factory=dict)
    allreduce_bytes_per_s: Mapping[str, Value] = field(default_factory=dict)

    def path(self, dtype: str, tf32: bool = False) -> str:
        """The path on which a product of torch's `dtype` runs here."""
        short = SHORT_PATHS.get(dtype, "fp32")
        if short == "fp32" and tf32 and self.peak_flop_per_s.get("tf32"):
            return "tf32"
        # A format whose own path is missing or slow is multiplied in FP32, as libraries do.
        return (
            short
            if self.peak_flop_per_s.get(short, 0.0) >= self.peak_flop_per_s["fp32"]
            else "fp32"
        )

    def best_path(self) -> str:
        """The 16 or 32-bit format with the highest peak: what a perfect port would use."""
        return max(
            (p for p in PATHS if self.peak_flop_per_s.get(p)), key=lambda p: self.peak_flop_per_s[p]
        )

    def with_value(self, name: str, end: str) -> Primitives:
        """One group of values at the `low` or `high` end of its interval.

        A group that others rest on moves as a whole: all rates, all host costs.
        """
        changed: dict[str, Any] = {name: _at(getattr(self, name), end)}
        return replace(self, **changed)

    def scaled(self, name: str, factor: float) -> Primitives:
        """One group multiplied: what a perturbation does."""
        found = getattr(self, name)
        made: Any
        if isinstance(found, Value):
            made = found.times(factor)
        elif isinstance(found, HostCosts):
            made = found.faster(1 / factor)
        elif isinstance(found, Library):
            made = replace(found, speed=found.speed.times(factor))
        else:
            made = {k: v.times(factor) for k, v in found.items()}
        changed: dict[str, Any] = {name: made}
        return replace(self, **changed)

    def values(self) -> dict[str, Value]:
        """Every value by name, for tables of sources."""
        found: dict[str, Value] = {}
        for f in fields(self):
            held = getattr(self, f.name)
            if isinstance(held, Value):
                found[f.name] = held
            elif f.name in _TABLES:
                found |= {f"{f.name} {k}": v for k, v in held.items()}
        found |= {f"host_operator_s {k}".strip(): v for k, v in self.host.operator_s.items()}
        return found


# Groups that move together when an interval is worked out; a larger figure is slower or faster.
GROUPS = (
    "flop_per_s", "clock_share", "batched_share", "dram_bytes_per_s", "l2_bytes_per_s", "floor_s",
    "gap_s", "graph_gap_s", "reach_s", "link_bytes_per_s", "link_start_s", "host", "product_s",
    "library",
)  # fmt: skip
# Values by path or kind of link.
_TABLES = ("flop_per_s", "clock_share", "batched_share", "allreduce_bytes_per_s")


def moving(p: Primitives, graphs: bool) -> tuple[str, ...]:
    """The groups whose ends can move a job's time; `graphs` says whether it replays graphs."""
    unused = "gap_s" if graphs else "graph_gap_s"
    return tuple(g for g in GROUPS if g != unused and p.with_value(g, "low") != p)


def _at(held: Any, end: str) -> Any:
    if isinstance(held, Value):
        return held.only(getattr(held, end))
    if isinstance(held, HostCosts):
        return replace(
            held,
            operator_s={k: v.only(getattr(v, end)) for k, v in held.operator_s.items()},
            run_s={k: v.only(getattr(v, end)) for k, v in held.run_s.items()},
            **{f: _at(getattr(held, f), end) for f in _PLAIN_HOST},
        )
    if isinstance(held, Library):
        return replace(held, speed=held.speed.only(getattr(held.speed, end)))
    if isinstance(held, Mapping):
        return {k: v.only(getattr(v, end)) for k, v in held.items()}
    return held
