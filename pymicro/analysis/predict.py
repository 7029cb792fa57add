"""The time of a job on a device: simulated, with an interval and what bounds it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pymicro.analysis.assumed import number
from pymicro.analysis.cases import Case
from pymicro.analysis.durations import Clock
from pymicro.analysis.primitives import Primitives, moving
from pymicro.analysis.simulate import Simulation, simulate
from pymicro.analysis.values import Kind, Value, worst

# Less of the wall time than this in kernels, and the device is not what bounds the job.
_BUSY = 0.85
# What no primitive holds: products of this many shapes, caches, drift between runs. Each simulation
# may be off by this share, whatever its primitives are.
MODEL = 0.05


@dataclass(frozen=True)
class Prediction:
    """A simulated job on a device.

    Attributes:
        seconds: of all batches. unit_s: of one step or token, `unit` which. bound: in words;
            bound_by: the primitive behind it.
    """

    case: Case
    primitives: Primitives
    simulation: Simulation
    seconds: Value
    unit: str
    unit_s: Value
    bound: str
    bound_by: Value

    @property
    def busy_share(self) -> float:
        wall_s = self.simulation.total.wall_s
        return self.simulation.total.busy_s / wall_s if wall_s else 0.0

    @property
    def energy_j(self) -> Value | None:
        """Energy of the card in joules; None where its power limit is not known."""
        power_w = self.primitives.power_w
        if power_w is None:
            return None
        awake = number("awake_share")
        low, high = power_w * awake, power_w * (awake + (1 - awake) * self.busy_share)
        return Value(
            self.seconds.value * (low + high) / 2, self.seconds.low * low,
            self.seconds.high * power_w, "power limit x time, assumed share", "assumed",
        )  # fmt: skip


def predict(case: Case, p: Primitives, seconds: Value | None = None) -> Prediction:
    """Simulate a case on a device; `seconds` is its time with interval where that is known."""
    found = simulate(case.program, p, case.config)
    if seconds is None:
        groups = moving(p, case.config.graphs)
        seconds = interval(lambda q: simulate(case.program, q, case.config).seconds, p, groups)
    count, unit = case.units
    steady = seconds.times((found.seconds - found.config.start_s) / max(found.seconds, 1e-12))
    unit_s = steady.times(1 / max(count, 1))
    return Prediction(case, p, found, seconds, unit, unit_s, *bound(found, case, p))


def interval(of: Callable[[Primitives], float], p: Primitives, groups: Iterable[str]) -> Value:
    """A figure that follows from primitives, with the interval that follows from theirs.

    One group after the other goes to its ends; their effects are taken as independent.
    """
    ends = {g: [of(p.with_value(g, end)) for end in ("low", "high")] for g in groups}
    return between(of(p), ends.values(), evidence(p))


def between(middle: float, ends: Iterable[Iterable[float]], kind: Kind) -> Value:
    """A figure with the interval that follows from what it is at both ends of each group."""
    below = above = (middle * MODEL) ** 2
    for group in ends:
        moves = [end - middle for end in group]
        below += min(*moves, 0.0) ** 2
        above += max(*moves, 0.0) ** 2
    low = max(middle - math.sqrt(below), 0.0) if middle >= 0 else middle - math.sqrt(below)
    high = middle + math.sqrt(above)
    return Value(middle, min(low, middle), max(high, middle), "simulated", kind)


def evidence(p: Primitives) -> Kind:
    """The weakest evidence among the primitives that matter most."""
    return worst([*p.flop_per_s.values(), p.dram_bytes_per_s, p.host.operator("")])


def bound(found: Simulation, case: Case, p: Primitives) -> tuple[str, Value]:
    """What bounds the job, in words, and the primitive behind it."""
    total, host = found.total, p.host.operator("")
    if not total.wall_s:
        return "nothing", host
    share = total.busy_s / total.wall_s
    if share < _BUSY:
        idle = f"the device idles {100 * (1 - share):.0f} % of the time"
        longest = max(
            (("the host", total.starved_s, host), ("gaps between kernels", total.gap_s, p.gap_s),
             ("the link", total.copying_s, p.link_bytes_per_s)), key=lambda item: item[1],
        )  # fmt: skip
        return f"{longest[0]}: {idle}", longest[2]
    kind = max(total.bound, key=lambda name: total.bound[name])
    path = _path(case, p)
    units = "vector" if path == "fp32" else "matrix"
    words = {
        "compute": f"arithmetic: {f'{path} ({units} units)' if path else 'no'} products",
        "memory": "memory bandwidth",
        "floor": "kernels too small to fill the device",
    }
    behind = {"compute": p.flop_per_s.get(path or "fp32"), "floor": p.floor_s}.get(kind)
    told = f"{100 * total.bound[kind] / total.busy_s:.0f} % of its kernels' time"
    return f"{words[kind]} ({told})", behind or p.dram_bytes_per_s


def used(made: Prediction, links: Iterable[str] = ()) -> dict[str, Value]:
    """The primitives, by name, that this job's time rests on; `links` join its cards."""
    p, config, total = made.primitives, made.case.config, made.simulation.total
    clock, paths, batched = Clock(p, config.tf32), set[str](), set[str]()
    for work in made.case.program.calls:
        if work.kind in ("product", "attention"):
            path = clock.of(work).path
            paths.add(path)
            if work.product and work.product.batch > 1:
                batched.add(path)
    unused = {"gap_s" if config.graphs else "graph_gap_s"}
    if not total.copying_s:
        unused |= {"link_bytes_per_s", "link_start_s"}
    tables = {
        "flop_per_s": paths, "clock_share": paths, "batched_share": batched,
        "allreduce_bytes_per_s": set(links),
        "host_operator_s": _host_phases(made),
    }  # fmt: skip
    found = {}
    for name, value in p.values().items():
        field, _, of = name.partition(" ")
        is_nothing = not value.value and not value.high  # A CPU has no queue to wait for.
        if field not in unused and not is_nothing and of in tables.get(field, {of}):
            found[name] = value
    return found


def _host_phases(made: Prediction) -> set[str]:
    """Phases whose operators have a cost of their own, and the rest's, if any is left."""
    own = made.primitives.host.operator_s
    return {phase if phase in own else "" for phase in made.simulation.phases}


def _path(case: Case, p: Primitives) -> str | None:
    """The path that most of the job's products take; None without products."""
    clock, flop = Clock(p, case.config.tf32), Counter[str]()
    for work, times in case.program.calls.items():
        if work.kind in ("product", "attention"):
            flop[clock.of(work).path] += times * work.flop  # type: ignore[assignment]
    return max(flop, key=lambda name: flop[name]) if flop else None
