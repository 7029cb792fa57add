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
        kind: `cause` (a fault put on the slow card), `change` (of the job, on both cards) or
            `card` (another one in place of the slow one).
        how: what is changed, in words; empty for a fault.
        adds_s: seconds that it adds to the slow card's time.
        ratio: slow over fast with it, nothing else on.
        verdict: for a fault, whether it alone is enough (`no`, `perhaps`, `yes`, or `not needed`);
            else what becomes of the order (`stays`, `turns round`).
    """

    name: str
    what: str
    kind: str
    how: str
    adds_s: Value
    ratio: Value
    verdict: str
    source: str
    settle: str


@dataclass(frozen=True)
class OneJob:
    """One reading of the published job.

    Attributes:
        slow_s, fast_s: without any fault. gap_s: what the slow card would have to lose more.
        together: its time with all faults at once.
    """

    name: str
    case: Case
    slow_s: float
    fast_s: float
    gap_s: float
    causes: tuple[Tested, ...]
    together: Value


@dataclass(frozen=True)
class Study:
    """A whole study; `verdict` is one sentence a job, `known` what was published.

    Attributes:
        times_s: published seconds of the slow and the fast card, None if there are none.
        promise: how many times as fast the slow card was expected to be, None if nobody said.
    """

    title: str
    known: tuple[str, ...]
    trust: str
    slow: str
    fast: str
    jobs: tuple[OneJob, ...]
    verdict: tuple[str, ...]
    times_s: tuple[float, float] | None = None
    promise: float | None = None


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
    times_s = (row["slow_s"], row["fast_s"]) if "slow_s" in row else None
    return Study(
        row["title"], tuple(row["statements"]), row["trust"], slow.name, fast.name, jobs,
        tuple(_verdict(job) for job in jobs), times_s, row.get("promise"),
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
        kind = "change"
        how = ", ".join(f"{value} on both cards" for value in row["change"].values())
        other = changed(wanted, row["change"])
        mine_s, theirs_s = predict_s(other, slow), predict_s(other, fast)
        adds = _exact(slow_s - mine_s - (fast_s - theirs_s))
        ratio = _exact(mine_s / theirs_s)
        verdict = _of_order(slow_s / fast_s, ratio.value)
    elif "card" in row:
        better = find(row["card"])
        better_s = predict_s(wanted, better)
        kind, how = "card", f"{better.name} instead"
        adds, ratio = _exact(slow_s - better_s), _exact(better_s / fast_s)
        verdict = _of_order(slow_s / fast_s, ratio.value)
    else:
        kind, how = "cause", ""
        ends = [slow_s + _adds_s(row, end, wanted, slow, slow_s) for end in (0, 1, 2)]
        low, high = min(ends[1:]), max(ends[1:])
        adds = Value(ends[0] - slow_s, low - slow_s, high - slow_s, row["source"], "assumed")
        ratio = Value(ends[0] / fast_s, low / fast_s, high / fast_s, row["source"], "assumed")
        verdict = _of_gap(adds, gap_s)
    return Tested(
        row["name"], row["what"], kind, how, adds, ratio, verdict,
        row.get("source", "data sheets"), row["settle"],
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


def _of_order(before: float, after: float) -> str:
    return "turns round" if (before > 1) != (after > 1) else "stays"


def _of_gap(adds: Value, gap_s: float) -> str:
    if gap_s <= 0:
        return "not needed"
    if adds.low >= gap_s:
        return "yes"
    return "perhaps" if adds.high >= gap_s else "no"


def _verdict(job: OneJob) -> str:
    if job.gap_s <= 0:
        return f"no fault is needed. The largest single reason is {_largest(job)}."
    sure = [c.name for c in job.causes if c.verdict == "yes"]
    if sure:
        return f"{_either(sure)} alone makes the published order."
    able = [c.name for c in job.causes if c.verdict == "perhaps"]
    if len(able) == 1:
        return f"only {able[0]} could make the order alone, at the far end of its range."
    if able:
        return f"cannot tell. Each of these could make the order alone: {', '.join(able)}."
    if job.together.high >= job.slow_s + job.gap_s:
        return "no cause makes the order alone; several together could."
    return "not even all causes together make the order; something else is missing."


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {', '.join(names)}"


def _largest(job: OneJob) -> str:
    cause = max(job.causes, key=lambda c: c.adds_s.value)
    return f"{cause.name} ({cause.adds_s.value:.3g} s)"
