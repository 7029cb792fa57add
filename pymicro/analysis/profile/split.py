"""The time of a job's steps in parts that add up to it: from a trace to numbers with owners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pymicro.analysis.profile import busy, gaps, match, products, steps
from pymicro.analysis.profile.host import HostView, Launch, view
from pymicro.analysis.profile.kernels import Kind, kind, short
from pymicro.analysis.profile.names import State
from pymicro.analysis.profile.parts import (
    SHORT_KERNEL_S,
    UNEXPLAINED,
    CopyRow,
    KernelRow,
    Part,
    Split,
    Tally,
    charge_recording,
)
from pymicro.analysis.profile.trace import KERNEL, Trace
from pymicro.errors import UsageError

Times = npt.NDArray[np.float64]
_ATTENTION = ("scaled_dot_product", "ScaledDotProduct", "flash_attn")


def of_trace(trace: Trace) -> Split:
    """Split a trace.

    Raises:
        UsageError: its clocks disagree beyond repair.
    """
    process = steps.process(trace)
    host = view(trace, process)
    operations = match.operations(trace, host)
    found = steps.find(trace)
    bounds = steps.on_both_clocks(found, operations.launched_s(), operations.end_s)
    if not bounds[-1] > bounds[0]:
        raise UsageError(f"{trace.path.name}: no time passes between its first and last event.")
    return _Splitting(trace, host, operations, found, bounds, process).run()


@dataclass
class _Splitting:
    trace: Trace
    host: HostView
    operations: match.Operations
    steps: steps.Steps
    bounds_s: Times
    process: int | str

    def __post_init__(self) -> None:
        # In the order of the view's timelines.
        self.hosts = [h for (pid, _), h in self.trace.threads.items() if pid == self.process]

    def run(self) -> Split:
        trace, operations = self.trace, self.operations
        low, high = float(self.bounds_s[0]), float(self.bounds_s[-1])
        kinds = [self._kind(i) for i in range(len(operations.row))]
        layers = np.array([self._layer(i, k) for i, k in enumerate(kinds)])
        own_s, covered = busy.exclusive(operations.start_s, operations.end_s, layers, low, high)
        inside = np.flatnonzero((operations.end_s > low) & (operations.start_s < high)).tolist()
        latency_s = match.latency_s(operations)
        pieces = self._pieces(covered, layers, latency_s)
        untraced_step_s = _untraced_step_s(trace.head)
        excess_s = high - low - (untraced_step_s or np.inf) * self.steps.count
        idle = charge_recording(_idle_parts(pieces), excess_s)
        parts = [*self._busy_parts(inside, kinds, own_s), *idle]
        told = sum(p.s for p in parts if p.code != UNEXPLAINED)
        parts = [p for p in parts if p.code != UNEXPLAINED]
        parts.sort(key=lambda p: (not p.is_busy, -p.s))
        parts.append(Part(UNEXPLAINED, False, high - low - told, 0))
        kernels = [i for i in inside if trace.device.kind[operations.row[i]] == KERNEL]
        lengths = (operations.end_s - operations.start_s)[kernels]
        short_ones = [i for i, s in zip(kernels, lengths, strict=True) if s < SHORT_KERNEL_S]
        launches = {id(x) for i in inside if (x := operations.launch[i]) is not None}
        devices = len(set(trace.device.device))
        properties = trace.properties(operations.number)
        return Split(
            device=str(properties.get("name", f"device {operations.number}")),
            steps_s=tuple(float(s) for s in np.diff(self.bounds_s)),
            how=self.steps.how,
            is_whole=self.steps.is_whole,
            parts=tuple(parts),
            kernels=self._kernel_rows(inside, kinds, own_s),
            kernel_count=len(kernels),
            kernel_median_s=float(np.median(lengths)) if len(kernels) else 0.0,
            short_count=len(short_ones),
            short_s=float(own_s[short_ones].sum()),
            launches=len(launches),
            copies=self._copies(inside, own_s),
            latency_s=latency_s,
            shift_s=operations.shift_s,
            untraced_step_s=untraced_step_s,
            other_devices=devices - 1,
            damaged=trace.damaged,
            capability=_capability(properties),
            collectives=self._collectives(inside, kinds),
        )

    def _kind(self, number: int) -> Kind:
        """By the kernel's name, and where that leaves a choice by the operator around it."""
        found = kind(self._name(number))
        launch = self.operations.launch[number]
        if launch is None or found.group in ("collective", "attention"):
            return found
        around = (launch.operator, launch.outermost)
        if any(word in self.trace.names[n] for n in around if n >= 0 for word in _ATTENTION):
            return Kind("attention", found.on_tensor_cores, found.generation, found.is_fp32)
        is_copy = self.trace.device.kind[self.operations.row[number]] != KERNEL
        return Kind("optimiser") if launch.in_optimizer and not is_copy else found

    def _layer(self, number: int, kind: Kind) -> int:
        if kind.group == "collective":
            return 2
        return 0 if self.trace.device.kind[self.operations.row[number]] == KERNEL else 1

    def _name(self, number: int) -> str:
        return self.trace.names[self.trace.device.name[self.operations.row[number]]]

    def _operator(self, launch: Launch | None) -> tuple[str, str]:
        """The operator around a launch and its shapes; the call itself where there is none."""
        if launch is None:
            return "", ""
        if launch.operator < 0:
            return self.trace.names[launch.call], ""
        found = self._product(launch)
        shapes = found.shapes if found else self.trace.shapes.get(launch.operator, "")
        return self.trace.names[launch.operator], shapes

    def _pieces(
        self, covered: busy.Union, layers: npt.NDArray[np.int64], latency_s: float
    ) -> list[gaps.Piece]:
        low, high = float(self.bounds_s[0]), float(self.bounds_s[-1])
        threads = [t for t in self.trace.threads if t[0] == self.process]
        thread = threads.index(self.steps.thread) if self.steps.thread in threads else 0
        owners = gaps.Owners(self.host, self.trace.names, thread, latency_s)
        pieces: list[gaps.Piece] = []
        starts = self.operations.start_s
        for start, end in zip(*map(np.ndarray.tolist, covered.gaps(low, high)), strict=True):
            number = int(np.searchsorted(starts, end, side="left"))
            is_last = end >= high or number >= len(starts)
            launch = None if is_last else self.operations.launch[number]
            in_graph = launch is not None and "Graph" in self.trace.names[launch.call]
            pieces.extend(owners.pieces(gaps.Gap(start, end, launch, in_graph, is_last)))
        mean_s = (high - low) / self.steps.count
        return gaps.charge_waits(pieces, self._waits(covered), mean_s)

    def _waits(self, covered: busy.Union) -> list[gaps.Wait]:
        """Blocking calls of the host, each with the time in which the device had work."""
        calls = self.host.blocking
        begin = np.array([c.start_s for c in calls])
        end = np.array([c.end_s for c in calls])
        worked = covered.overlap_s(begin, end) if calls else begin
        codes = {State.SYNCHRONISE: "synchronisation", State.COPY: "copy-wait"}
        found = [
            gaps.Wait(c.end_s, s, codes[c.state], c.asked)
            for c, s in zip(calls, worked.tolist(), strict=True)
            if s > 0
        ]
        return sorted(found, key=lambda w: w.end_s)

    def _busy_parts(self, inside: Sequence[int], kinds: Sequence[Kind], own_s: Times) -> list[Part]:
        tally = Tally()
        for i in inside:
            tally.add(kinds[i].group, float(own_s[i]), short(self._name(i)))
        return list(tally.parts(is_busy=True))

    def _kernel_rows(
        self, inside: Sequence[int], kinds: Sequence[Kind], own_s: Times
    ) -> tuple[KernelRow, ...]:
        groups: defaultdict[tuple[Kind, str], list[int]] = defaultdict(list)
        for i in inside:
            groups[kinds[i], self._format(i, kinds[i])].append(i)
        spec = products.spec_of(str(self.trace.properties(self.operations.number).get("name")))
        flop = self._first_kernels(inside, kinds)
        rows = [
            self._kernel_row(
                found, format_, members, own_s, sum(flop.get(i, 0) for i in members),
                products.peak(spec, format_),
            )
            for (found, format_), members in groups.items()
        ]  # fmt: skip
        return tuple(sorted(rows, key=lambda r: -r.s))

    def _kernel_row(
        self,
        found: Kind,
        format_: str,
        members: list[int],
        own_s: Times,
        flop: int,
        peak: float | None,
    ) -> KernelRow:
        most: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        for i in members:
            operator, shapes = self._operator(self.operations.launch[i])
            most[short(self._name(i)), operator, shapes] += float(own_s[i])
        name, operator, shapes = max(most, key=lambda k: most[k])
        lengths = (self.operations.end_s - self.operations.start_s)[members]
        total_s = float(lengths.sum())
        return KernelRow(
            found, float(own_s[members].sum()), total_s, len(members), float(np.median(lengths)),
            name, operator, shapes, format_, flop,
            flop / total_s / peak if peak and flop and total_s else None,
        )  # fmt: skip

    def _format(self, number: int, kind: Kind) -> str:
        found = self._product(self.operations.launch[number]) if kind.group == "gemm" else None
        return products.format_of(found, kind.on_tensor_cores) if found else ""

    def _product(self, launch: Launch | None) -> products.Product | None:
        if launch is None or launch.product < 0:
            return None
        host = self.hosts[launch.thread]
        return self.trace.products[host.product[launch.product]]

    def _first_kernels(self, inside: Sequence[int], kinds: Sequence[Kind]) -> dict[int, int]:
        """Operations of each product, at the first of the kernels that it launched."""
        first: dict[tuple[int, int], int] = {}
        for i in inside:
            launch = self.operations.launch[i]
            if launch is not None and launch.product >= 0 and kinds[i].group == "gemm":
                first.setdefault((launch.thread, launch.product), i)
        found = ((i, self._product(self.operations.launch[i])) for i in first.values())
        return {i: product.flop for i, product in found if product}

    def _copies(self, inside: Sequence[int], own_s: Times) -> tuple[CopyRow, ...]:
        device, row = self.trace.device, self.operations.row
        members: defaultdict[str, list[int]] = defaultdict(list)
        for i in inside:
            if device.kind[row[i]] != KERNEL:
                members[self._name(i)].append(i)
        lengths = self.operations.end_s - self.operations.start_s
        rows = []
        for name, all_ in members.items():
            moved = [device.bytes[row[i]] for i in all_]
            total = sum(moved) if min(moved) >= 0 else 0
            all_s, exposed_s = float(lengths[all_].sum()), float(own_s[all_].sum())
            rows.append(CopyRow(name, all_s, exposed_s, len(all_), total))
        return tuple(sorted(rows, key=lambda r: -r.s))

    def _collectives(
        self, inside: Sequence[int], kinds: Sequence[Kind]
    ) -> dict[str, tuple[float, ...]]:
        """Seconds of each collective in order, for comparing ranks."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        lengths = self.operations.end_s - self.operations.start_s
        for i in inside:
            if kinds[i].group == "collective":
                found[self._name(i)].append(float(lengths[i]))
        return {name: tuple(all_s) for name, all_s in found.items()}


def _untraced_step_s(head: Mapping[str, Any]) -> float | None:
    """What our own recorder noted before it began."""
    made = head.get("pymicro")
    noted = made.get("untraced_step_s") if isinstance(made, dict) else None
    return float(noted) if isinstance(noted, int | float) and noted > 0 else None


def _capability(properties: Mapping[str, Any]) -> tuple[int, int] | None:
    major, minor = properties.get("computeMajor"), properties.get("computeMinor", 0)
    return (major, minor) if isinstance(major, int) and isinstance(minor, int) else None


def _idle_parts(pieces: Sequence[gaps.Piece]) -> list[Part]:
    tally = Tally()
    for piece in pieces:
        tally.add(piece.code, piece.s, piece.owner)
    return list(tally.parts(is_busy=False))
