"""Several ranks of one job, each with its trace: which one differs, and what waiting costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pymicro.analysis.profile.parts import Split
from pymicro.analysis.profile.trace import Trace
from pymicro.units import percent, si

_ENDINGS = (".json", ".json.gz")
_RANK = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
# Ranks of one job on like cards differ less than this.
_NOTABLE = 0.10


@dataclass(frozen=True)
class Rank:
    """One rank's file and its split."""

    name: str
    split: Split

    @property
    def own_s(self) -> float:
        """A step without its collectives: what the rank does before the others wait for it."""
        waits = self.split.part("collective").s
        return self.split.step_s - waits / len(self.split.steps_s)


def files(folder: Path) -> list[Path]:
    """What may be traces in a folder."""
    return sorted(p for p in folder.iterdir() if p.name.endswith(_ENDINGS) and p.is_file())


def number(trace: Trace) -> int:
    """The rank that wrote a trace, by what it says or by its file's name; -1 for none."""
    told = trace.head.get("distributedInfo")
    if isinstance(told, dict) and isinstance(told.get("rank"), int):
        return int(told["rank"])
    match = _RANK.search(trace.path.name)
    return int(match[1]) if match else -1


def name(trace: Trace) -> str:
    return trace.path.name if number(trace) < 0 else f"rank {number(trace)}"


def odd(ranks: Sequence[Rank]) -> Rank | None:
    """The rank whose steps without collectives differ most from the others', if any do."""
    typical_s = median(r.own_s for r in ranks)
    found = max(ranks, key=lambda r: abs(r.own_s - typical_s))
    return found if abs(found.own_s - typical_s) >= _NOTABLE * typical_s else None


def verdict(ranks: Sequence[Rank]) -> str:
    """Which rank differs, in a sentence; with one rank, nothing."""
    if len(ranks) < 2:
        return ""
    found = odd(ranks)
    if found is None:
        spread = max(r.own_s for r in ranks) / min(r.own_s for r in ranks) - 1
        return (
            f"No rank of {len(ranks)} stands out: without collectives their steps differ by "
            f"{percent(spread)} at most."
        )
    typical_s = median(r.own_s for r in ranks)
    word = "longer" if found.own_s > typical_s else "shorter"
    return (
        f"{found.name} differs: without collectives its step takes {si(found.own_s, 's', 3)}, the "
        f"others' {si(typical_s, 's', 3)}; {_why(found, ranks)} is what is {word} there."
    )


def _why(found: Rank, ranks: Sequence[Rank]) -> str:
    """The part that differs most from the other ranks'."""
    others = [r.split for r in ranks if r is not found]
    codes = {p.code for r in ranks for p in r.split.parts} - {"collective"}
    sign = 1 if found.own_s > median(r.own_s for r in ranks) else -1

    def excess(code: str) -> float:
        usual = median(s.part(code).s / len(s.steps_s) for s in others)
        return sign * (found.split.part(code).s / len(found.split.steps_s) - usual)

    return max(sorted(codes), key=excess)


def waiting_s(ranks: Sequence[Rank]) -> tuple[float, ...] | None:
    """Seconds a step that each rank spends in collectives waiting for the last to arrive.

    A collective ends everywhere at once, so what a rank is in it longer than the rank that came
    last is waiting. None unless every rank ran the same collectives.
    """
    if len(ranks) < 2 or len({_signature(r.split) for r in ranks}) != 1:
        return None
    waited = [0.0] * len(ranks)
    for name in ranks[0].split.collectives:
        for together in zip(*(r.split.collectives[name] for r in ranks), strict=True):
            waited = [w + s - min(together) for w, s in zip(waited, together, strict=True)]
    return tuple(w / len(r.split.steps_s) for w, r in zip(waited, ranks, strict=True))


def _signature(split: Split) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, len(all_s)) for name, all_s in split.collectives.items()))
