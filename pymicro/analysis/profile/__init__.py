"""Anybody's job, from the trace that PyTorch's profiler wrote of it.

reader   JSON to events                 steps    where steps begin and end
trace    events to columns              match    device operations and their launches
host     what each thread was doing     busy     time of the device
gaps     why the device waited          split    all parts, adding up
causes   ranked reasons with remedies   ranks    several traces of one job
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from pymicro.analysis.profile import ranks as _ranks
from pymicro.analysis.profile.causes import Cause, ranked
from pymicro.analysis.profile.parts import Split
from pymicro.analysis.profile.ranks import Rank
from pymicro.analysis.profile.split import of_trace
from pymicro.analysis.profile.trace import load
from pymicro.errors import UsageError
from pymicro.results import Finding
from pymicro.units import percent, si

__all__ = ["Cause", "Profile", "Rank", "Split", "explain"]

_SLOW_STEP = 1.5
_SENDING = "larger buckets, fewer bytes (BF16), overlap with the backward pass"
_NOTABLE_COST = 0.1
_NOTABLE_REST = 0.02


@dataclass(frozen=True)
class Profile:
    """What a trace, or a folder with one of each rank, tells.

    Attributes:
        shown: the rank whose split is told in full: the one that differs, else the first.
        causes, findings: of that rank.
        verdict: which rank differs; empty for one trace.
        waiting_s: seconds a step that each rank waits in collectives, where that can be told.
    """

    ranks: tuple[Rank, ...]
    shown: Rank
    causes: tuple[Cause, ...]
    findings: tuple[Finding, ...]
    verdict: str
    waiting_s: tuple[float, ...] | None


def explain(path: Path) -> Profile:
    """Read a trace or a folder of traces and split the time of its steps.

    Raises:
        UsageError: nothing there that can be split; the message says why.
    """
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}.")
    paths = _ranks.files(path) if path.is_dir() else [path]
    if not paths:
        raise UsageError(f"{path} holds no trace (.json or .json.gz).")
    found, refused = _read(paths)
    if not found:
        raise refused[0]
    shown = _ranks.odd(found) or found[0]
    left_out = [Finding("left-out", "warning", f"left out: {error}") for error in refused]
    waiting_s = _ranks.waiting_s(found)
    told = tuple(_beside_ranks(c, shown, found, waiting_s) for c in ranked(shown.split))
    return Profile(
        found, shown, told, (*_findings(shown.split), *left_out), _ranks.verdict(found), waiting_s
    )


def _beside_ranks(
    cause: Cause, shown: Rank, ranks: Sequence[Rank], waiting_s: Sequence[float] | None
) -> Cause:
    """Of collectives the other ranks' traces tell how much is waiting."""
    if cause.code != "collective" or waiting_s is None:
        return cause
    own_s = waiting_s[list(ranks).index(shown)]
    seen = f"{cause.seen}: {si(own_s, 's', 3)} of all collectives' time, as the other ranks show"
    do = "make the ranks' work even" if own_s > cause.s / 2 else _SENDING
    return replace(cause, seen=seen, do=do)


def _read(paths: Sequence[Path]) -> tuple[tuple[Rank, ...], list[UsageError]]:
    """The splits by rank, one trace in memory at a time, and why files were not read."""
    found, refused = [], []
    for path in paths:
        try:
            trace = load(path)
            found.append((_ranks.number(trace), Rank(_ranks.name(trace), of_trace(trace))))
        except UsageError as error:
            refused.append(error)
    return tuple(rank for _, rank in sorted(found, key=lambda pair: pair[0])), refused


def _findings(split: Split) -> Iterator[Finding]:
    """What a reader must know of the trace before believing the split."""
    if split.is_whole:
        yield Finding(
            "no-steps", "warning", "nothing in the trace marks steps: all of it is one step.",
            "start-up and waiting around the work count too.",
            "call the profiler's step(), or record with `pymicro profile`.",
        )  # fmt: skip
    cost_s = split.part("profiler").s / len(split.steps_s)
    if cost_s > _NOTABLE_COST * split.clean_step_s:
        bare_s = split.untraced_step_s
        against = f" (with the profiler off: {si(bare_s, 's', 3)})" if bare_s else ""
        yield Finding(
            "profiler-cost", "warning",
            f"recording takes {si(cost_s, 's', 3)} of {si(split.step_s, 's', 3)} a step{against}.",
            "It slows the host, so waiting for the GPU looks shorter than it is.",
            "--no-shapes records less.",
        )  # fmt: skip
    if split.shift_s:
        yield Finding(
            "clock-skew", "warning",
            f"the GPU's clock was set right by {si(split.shift_s, 's', 3)}: kernels began before "
            "their launch, or ended after the host had waited for them.",
            "Gaps shorter than that have uncertain owners.",
        )  # fmt: skip
    middle = median(split.steps_s)
    slow = [i for i, s in enumerate(split.steps_s, 1) if s > _SLOW_STEP * middle]
    if slow and len(split.steps_s) > 2:
        yield Finding(
            "uneven-steps", "info",
            f"step {', '.join(map(str, slow[:5]))} of {len(split.steps_s)} takes more than "
            f"{_SLOW_STEP} × the median ({si(max(split.steps_s), 's', 3)} against "
            f"{si(middle, 's', 3)}).",
        )  # fmt: skip
    rest = split.part("unexplained").s / split.wall_s
    if abs(rest) > _NOTABLE_REST:
        yield Finding(
            "unexplained", "warning", f"{percent(rest)} of the time has no owner.",
            "The file lacks the calls that launched this work.",
        )  # fmt: skip
    if split.other_devices:
        yield Finding(
            "other-devices", "info",
            f"{split.other_devices} other device(s) worked in this process; {split.device}, which "
            "worked most, is told.",
        )  # fmt: skip
    if split.damaged:
        yield Finding(
            "damaged-events", "warning", f"{split.damaged} event(s) could not be read.",
            "What they say is missing here.",
        )  # fmt: skip
