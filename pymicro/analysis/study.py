"""A published anomaly: the causes that could make it, each tested against primitives.

A cause is put on the slow card alone, from a state without any, and the job is simulated: what it
adds is how much of the gap it can make. A cause that changes the job is put on both cards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pymicro.analysis.against import predict_s
from pymicro.analysis.cases import Case, case, changed
from pymicro.analysis.primitives import HostCosts, Primitives
from pymicro.analysis.values import Value
from pymicro.devices.catalogue import DATA
from pymicro.errors import unknown


@dataclass(frozen=True)
class Tested:
    """A cause on one job.

    Attributes:
        adds_s: seconds that it adds to the slow card's time. verdict: in words.
        ratio: slow over fast with it, nothing else on.
    """

    name: str
    what: str
    adds_s: Value
    ratio: Value
    verdict: str
    source: str
    settle: str


@dataclass(frozen=True)
class OneJob:
    """One reading of the published job: seconds without any cause, and the causes."""

    name: str
    case: Case
    slow_s: float
    fast_s: float
    gap_s: float
    causes: tuple[Tested, ...]
    together: Value


@dataclass(frozen=True)
class Study:
    """A whole study; `verdict` is one sentence a job, `known` what was published."""

    title: str
    known: tuple[str, ...]
    trust: str
    slow: str
    fast: str
    jobs: tuple[OneJob, ...]
    verdict: tuple[str, ...]


Find = Callable[[str], Primitives]


@functools.cache
def studies() -> Mapping[str, Any]:
    """All rows of studies.toml by name."""
    import tomllib

    return tomllib.loads((DATA / "studies.toml").read_text(encoding="utf-8"))


def study(name: str, find: Find) -> Study:
    """Test every cause of a study.

    Args:
        find: primitives of a card by the catalogue's key.

    Raises:
        UsageError: no such study.
    """
    if name not in studies():
        raise unknown("case", name, studies())
    row = studies()[name]
    slow, fast = find(row["slow"]), find(row["fast"])
    clean = replace(slow, batched_share={})
    jobs = tuple(_job(row, reading, clean, fast, find) for reading in row["jobs"])
    known = tuple(row["statements"])
    if "slow_s" in row:
        known += (f"{fast.name}: {row['fast_s']} s; {slow.name}: {row['slow_s']} s",)
    return Study(
        row["title"], known, row["trust"], slow.name, fast.name, jobs,
        tuple(_verdict(row, job, slow, fast) for job in jobs),
    )  # fmt: skip


def _job(
    row: Mapping[str, Any],
    reading: Mapping[str, Any],
    slow: Primitives,
    fast: Primitives,
    find: Find,
) -> OneJob:
    changes = {k: v for k, v in reading.items() if k != "name"}
    wanted = case(row["model"], **changes)
    slow_s, fast_s = predict_s(wanted, slow), predict_s(wanted, fast)
    # What has to be explained: the published difference, scaled to the simulated job, or how far
    # the fast card's time is from the promise.
    target_s = fast_s * (row["slow_s"] / row["fast_s"] if "slow_s" in row else 1.0)
    gap_s = target_s - slow_s
    tested = [_cause(c, wanted, slow, fast, find, slow_s, fast_s, gap_s) for c in row["cause"]]
    adding = [t.adds_s for t in tested]
    together = Value(
        slow_s + sum(max(v.value, 0) for v in adding),
        slow_s + sum(min(v.low, 0) for v in adding),
        slow_s + sum(max(v.high, 0) for v in adding), "all causes at once", "assumed",
    )  # fmt: skip
    return OneJob(reading["name"], wanted, slow_s, fast_s, gap_s, tuple(tested), together)


def _cause(
    row: Mapping[str, Any], wanted: Case, slow: Primitives, fast: Primitives, find: Find,
    slow_s: float, fast_s: float, gap_s: float,
) -> Tested:  # fmt: skip
    if "change" in row:
        # Put on in the published job: taking it away is the change, on both cards.
        other = changed(wanted, row["change"])
        mine_s, theirs_s = predict_s(other, slow), predict_s(other, fast)
        adds = _exact(slow_s - mine_s - (fast_s - theirs_s))
        ratio = _exact(mine_s / theirs_s)
        verdict = _of_change(slow_s / fast_s, ratio.value)
    elif "card" in row:
        better_s = predict_s(wanted, find(row["card"]))
        adds, ratio = _exact(slow_s - better_s), _exact(better_s / fast_s)
        verdict = f"without it {ratio.value:.2f} times the other card's time"
    else:
        ends = [slow_s + _adds_s(row, end, wanted, slow, slow_s) for end in (0, 1, 2)]
        low, high = min(ends[1:]), max(ends[1:])
        adds = Value(ends[0] - slow_s, low - slow_s, high - slow_s, row["source"], "assumed")
        ratio = Value(ends[0] / fast_s, low / fast_s, high / fast_s, row["source"], "assumed")
        verdict = _of_gap(adds, gap_s)
    return Tested(
        row["name"], row["what"], adds, ratio, verdict, row.get("source", "data sheets"),
        row["settle"],
    )  # fmt: skip


def _exact(value: float) -> Value:
    return Value(value, value, value, "simulated", "datasheet")


def _adds_s(
    row: Mapping[str, Any], end: int, wanted: Case, slow: Primitives, slow_s: float
) -> float:
    if "start" in row:
        return float(row["start"][end])
    return predict_s(wanted, _with(slow, row, row["factor"][end])) - slow_s


def _with(p: Primitives, row: Mapping[str, Any], factor: float) -> Primitives:
    """The primitives with one group, or one path of it, changed by a factor."""
    group, path = row["group"], str(row.get("path", ""))
    if group == "batched_share":
        share = Value(factor, factor, factor, row["source"], "published")
        return replace(p, batched_share={path: share})
    if group == "host":
        held: HostCosts = p.host
        return replace(p, host=held.faster(1 / factor))
    if not path:
        return p.scaled(group, factor)
    values = dict(getattr(p, group))
    values[path] = values[path].times(factor)
    changed: dict[str, Any] = {group: values}
    return replace(p, **changed)


def _of_change(before: float, after: float) -> str:
    if (before > 1) != (after > 1):
        return f"turns the order round: {before:.2f} becomes {after:.2f}"
    return f"{before:.2f} times the other's time becomes {after:.2f}: not what makes the order"


def _of_gap(adds: Value, gap_s: float) -> str:
    if adds.high <= 0.005 * max(abs(gap_s), 1e-9):
        return "makes nothing of it"
    if gap_s <= 0:
        return "not needed: the simulated card is slow enough without"
    share, most = adds.value / gap_s, adds.high / gap_s
    if adds.low >= gap_s:
        return "alone enough"
    if most >= 1:
        return f"{100 * share:.0f} % of it, and alone enough at its far end"
    return f"{100 * share:.0f} % of it ({100 * most:.0f} % at most): not enough alone"


def _verdict(row: Mapping[str, Any], job: OneJob, slow: Primitives, fast: Primitives) -> str:
    ratio = job.slow_s / job.fast_s
    head = f"{job.name}: {slow.name} {job.slow_s:.3g} s, {fast.name} {job.fast_s:.3g} s"
    if "promise" in row:
        reach = f"{1 / ratio:.2f} times as fast instead of {row['promise']:g}"
        best = min(
            (c for c in job.causes if c.adds_s.value > 0), key=lambda c: c.ratio.low, default=None
        )
        told = f"; the largest single cause is {_largest(job)}" if best else ""
        return f"{head}: {reach}, with no fault assumed{told}."
    if job.gap_s <= 0:
        return f"{head}: the order follows without any cause."
    enough = [c.name for c in job.causes if c.adds_s.high >= job.gap_s]
    sure = [c.name for c in job.causes if c.adds_s.low >= job.gap_s]
    if sure:
        return f"{head}: {', '.join(sure)} alone makes the published order."
    if len(enough) == 1:
        return f"{head}: of the causes only {enough[0]} could make the order alone, at its far end."
    if enough:
        return f"{head}: cannot tell which of {', '.join(enough)} made it; each could, alone."
    if job.together.high >= job.slow_s + job.gap_s:
        return f"{head}: no cause makes it alone; several together could."
    return f"{head}: not even all causes together make it; something else is missing."


def _largest(job: OneJob) -> str:
    cause = max(job.causes, key=lambda c: c.adds_s.value)
    return f"{cause.name} ({cause.adds_s.value:.3g} s)"
