"""A job's time split into parts that add up to it, each with its interval and what it rests on.

Causes are taken away one after the other, always in the order of PARTS from the last to the
first, and the job is simulated anew each time; a part is what its cause added. So the parts add
up, and the order is a convention that is the same for every device. Shape stands before clock and
quality: then a faster kernel moves quality alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pymicro.analysis.cases import Case
from pymicro.analysis.predict import Prediction, between, evidence, predict
from pymicro.analysis.primitives import Primitives, moving
from pymicro.analysis.simulate import simulate
from pymicro.analysis.values import Value, worst
from pymicro.errors import UsageError

# Name, title, and what the part is.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("floor", "physical floor", "best format at the paper rate, every byte once"),
    ("format", "number format", "the format used instead of the best one, at paper rates"),
    ("shape", "shapes and small kernels", "tiles, waves, starts of kernels and gaps between them"),
    ("clock", "clock and power", "the clock held under load instead of the nominal one"),
    ("quality", "kernel quality", "what kernels reach of peak and bandwidth"),
    ("host", "host and launches", "the device waits for the host to ask"),
    ("ties", "synchronisation, transfers, input", "the host waits for the device, the link, data"),
    ("start", "start-up and JIT", "seconds spent once, where the time includes them"),
)
NAMES = tuple(name for name, _, _ in PARTS)
# Boost clocks exceed the nominal one by up to a sixth on cards in print; beyond that a measured
# time is not a time.
_BELOW_FLOOR = 0.8


ENDS = ("low", "high")
Moved = Mapping[tuple[str, str], Mapping[str, float]]


@dataclass(frozen=True)
class Part:
    """One part of the time. `why` says what it rests on."""

    name: str
    title: str
    seconds: Value
    why: str


@dataclass(frozen=True)
class Explanation:
    """A job's time on a device, all of it.

    Attributes:
        parts: in the order of PARTS. measured_s: None if nothing was measured.
        unexplained_s: measured less predicted, signed; None without a measurement.
    """

    prediction: Prediction
    parts: tuple[Part, ...]
    moved: Moved
    measured_s: float | None = None

    @property
    def unexplained_s(self) -> float | None:
        if self.measured_s is None:
            return None
        return self.measured_s - self.prediction.seconds.value

    @property
    def total_s(self) -> float:
        """What the parts, the unexplained one included, add up to."""
        return self.measured_s or self.prediction.seconds.value

    def ranked(self) -> list[Part]:
        """The parts, the longest first."""
        return sorted(self.parts, key=lambda part: -abs(part.seconds.value))

    @property
    def agrees(self) -> bool | None:
        """Whether the measurement lies in the predicted interval."""
        if self.measured_s is None:
            return None
        seconds = self.prediction.seconds
        return seconds.low <= self.measured_s <= seconds.high


def explain(case: Case, p: Primitives, measured_s: float | None = None) -> Explanation:
    """Split a job's time.

    Args:
        measured_s: of the whole job, as the case states it.

    Raises:
        UsageError: the measured time is no positive number, or below what physics allows.
    """
    found = split(case, p)
    if measured_s is not None:
        _refuse(measured_s, found["floor"], case.label)
    groups = moving(p, case.config.graphs)
    moved = {
        (group, end): split(case, p.with_value(group, end)) for group in groups for end in ENDS
    }
    totals = [[sum(moved[group, end].values()) for end in ENDS] for group in groups]
    seconds = between(sum(found.values()), totals, evidence(p))
    parts = tuple(_parts(p, found, moved))
    return Explanation(predict(case, p, seconds), parts, moved, measured_s)


def split(case: Case, p: Primitives) -> dict[str, float]:
    """Seconds by name of part; they add up to the simulated time."""
    config = case.config
    full = simulate(case.program, p, config)
    untied = simulate(case.program, p, replace(config, ties=False))
    alone = simulate(case.program, p, replace(config, ties=False, host=False))
    names = ("floor", "format", "shape", "clock", "quality")
    parts = dict(zip(names, alone.total.parts, strict=True))
    parts["shape"] += alone.total.gap_s
    parts["host"] = untied.total.wall_s - alone.total.wall_s
    parts["ties"] = full.total.wall_s - untied.total.wall_s
    parts["start"] = config.start_s
    return parts


def _parts(p: Primitives, found: Mapping[str, float], moved: Moved) -> list[Part]:
    below = dict.fromkeys(NAMES, 0.0)
    above = dict.fromkeys(NAMES, 0.0)
    for at_end in moved.values():
        for name in NAMES:
            by = at_end[name] - found[name]
            (below if by < 0 else above)[name] += by * by
    made = []
    for name, title, what in PARTS:
        value = found[name]
        kinds = _rests_on(name, p)
        seconds = Value(
            value, value - math.sqrt(below[name]), value + math.sqrt(above[name]),
            "simulated with the cause and without it", worst(kinds) if kinds else "datasheet",
        )  # fmt: skip
        sources = "; ".join(dict.fromkeys(v.source for v in kinds))
        made.append(Part(name, title, seconds, f"{what}{f' [{sources}]' if sources else ''}"))
    return made


def _rests_on(name: str, p: Primitives) -> list[Value]:
    own = {
        "shape": [p.floor_s, p.gap_s],
        "clock": list(p.clock_share.values()),
        "quality": [*p.flop_per_s.values(), p.dram_bytes_per_s, p.library.speed],
        "host": [p.host.operator("")],
        "ties": [p.host.wait_s, p.link_bytes_per_s],
    }
    return own.get(name, [])


def _refuse(measured_s: float, floor_s: float, label: str) -> None:
    if not math.isfinite(measured_s) or measured_s <= 0:
        raise UsageError(f"--measured {measured_s:g} s is no time; give seconds above zero.")
    if measured_s < _BELOW_FLOOR * floor_s:
        raise UsageError(
            f"--measured {measured_s:.4g} s is faster than physics: {label} needs "
            f"{floor_s:.4g} s in the best format at the paper rate; check units."
        )
