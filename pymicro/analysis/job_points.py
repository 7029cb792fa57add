"""The operators of a job as points under a device's roofs, each with its share of the time."""

from __future__ import annotations

from dataclasses import dataclass

from pymicro.analysis.cases import Case
from pymicro.analysis.durations import Clock
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.roofline import Point
from pymicro.analysis.work import Work


@dataclass(frozen=True)
class JobPoints:
    """Points, longest first, and the time that is in none of them.

    Attributes:
        rest_share: of the time in kernels (0 to 1), in products beyond those shown.
        bare_share: likewise, in operators without products: they have no FLOP to place.
    """

    label: str
    points: tuple[Point, ...]
    rest_share: float
    bare_share: float


def job_points(case: Case, p: Primitives, most: int = 20) -> JobPoints:
    """The products and attentions of a job that take longest on a device, simulated.

    Rates are those of the simulation: measured ones at shapes that were measured, the model's
    elsewhere. Shares are of the time that the device spends in kernels, waiting left out.
    """
    clock = Clock(p, case.config.tf32)
    # What crosses the link has no place under a device's roofs.
    on_device = {work: n for work, n in case.program.calls.items() if not work.host_bytes}
    seconds = {work: n * clock.of(work).seconds for work, n in on_device.items()}
    total_s = sum(seconds.values()) or 1.0
    placed = [w for w in seconds if _counts(w) and seconds[w]]
    placed.sort(key=lambda work: -seconds[work])
    shown, rest = placed[:most], placed[most:]
    points = []
    for work in shown:
        taken = clock.of(work)
        rate = work.flop / taken.seconds
        share = seconds[work] / total_s
        points.append(
            Point(_label(work), taken.path, work.flop / work.bytes, rate, rate, rate, share)
        )
    return JobPoints(
        case.label,
        tuple(points),
        sum(seconds[w] for w in rest) / total_s,
        sum(s for w, s in seconds.items() if w not in set(placed)) / total_s,
    )


def _counts(work: Work) -> bool:
    """Whether its operations are what it is there for; of others memory alone is worth a look."""
    return bool(work.flop and work.bytes) and (work.product is not None or work.kind == "attention")


def _label(work: Work) -> str:
    if work.product is None:
        return f"{work.name} of {work.columns} keys"
    s = work.product
    return f"{work.name} {f'{s.batch} of ' if s.batch > 1 else ''}{s.m}×{s.n}×{s.k}"
