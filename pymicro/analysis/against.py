"""Two devices, one job: who is faster, which part makes it, what would turn it round."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from pymicro.analysis.cases import Case
from pymicro.analysis.explain import ENDS, NAMES, Explanation, explain
from pymicro.analysis.predict import MODEL
from pymicro.analysis.primitives import GROUPS, Primitives, moving
from pymicro.analysis.simulate import simulate
from pymicro.analysis.what_if import applied
from pymicro.errors import PymicroError, UsageError

# What two devices share: their intervals move together, and mostly cancel.
_SHARED = ("host", "library", "gap_s", "floor_s")
# A tie is no other order.
_CLEARLY = 0.97
# Remedies that are tried to turn an order round.
_TRIED = [("tf32", ""), ("amp", ""), ("graphs", ""), ("compile", ""), ("host", "2x"),
          ("batch", "1"), ("batch", "64")]  # fmt: skip


@dataclass(frozen=True)
class Against:
    """A comparison of one job on two devices.

    Attributes:
        first, second: their explanations. ratio: second's time over the first's, with its
            interval. verdict: in words. parts: seconds by which the second is slower, by part.
        flips: changes that turn the order round, or may, in words.
    """

    first: Explanation
    second: Explanation
    ratio: tuple[float, float, float]
    verdict: str
    parts: tuple[tuple[str, float], ...]
    flips: tuple[str, ...]

    @property
    def is_decided(self) -> bool:
        """Whether the interval of the ratio leaves one order only."""
        return not self.ratio[1] <= 1.0 <= self.ratio[2]


def against(
    case: Case,
    p: Primitives,
    q: Primitives,
    other: Case | None = None,
    flips: bool = True,
    first: Explanation | None = None,
) -> Against:
    """Compare a job on two devices.

    Args:
        other: the second's case where it differs. flips: whether to look for remedies that turn
            the order round. first: the job on the first device, if it is explained already.

    Raises:
        UsageError: both are the same device.
    """
    if p.key == q.key and p.name == q.name:
        raise UsageError(f"--against {q.name}: that is the device itself.")
    a, b = first or explain(case, p), explain(other or case, q)
    ratio = _ratio(_told(a), _told(b))
    held, last = ({part.name: part.seconds.value for part in told.parts} for told in (a, b))
    parts = tuple(sorted(((n, last[n] - held[n]) for n in NAMES), key=lambda x: -abs(x[1])))
    turned = tuple(_flips(case, p, q, ratio[0])) if flips else ()
    return Against(a, b, ratio, _verdict(p, q, ratio, a, b, parts), parts, turned)


@dataclass(frozen=True)
class _Range:
    """Seconds of a job, and what they become with a group of primitives at one of its ends."""

    seconds: float
    moved_s: Mapping[tuple[str, str], float]


def _told(e: Explanation) -> _Range:
    return _Range(e.prediction.seconds.value, {k: sum(v.values()) for k, v in e.moved.items()})


def _range(case: Case, p: Primitives) -> _Range:
    ends = product(moving(p, case.config.graphs), ENDS)
    return _Range(predict_s(case, p), {k: predict_s(case, p.with_value(*k)) for k in ends})


def _ratio(a: _Range, b: _Range) -> tuple[float, float, float]:
    """Second's time over the first's in logarithms; what is shared moves in both at once."""

    def of(first_s: float, second_s: float) -> float:
        return math.log(second_s / first_s)

    own_s, other_s = a.seconds, b.seconds
    middle = of(own_s, other_s)
    below = above = 2 * math.log1p(MODEL) ** 2
    for group in GROUPS:
        moves = []
        for end in ENDS:
            left_s, right_s = (r.moved_s.get((group, end), r.seconds) for r in (a, b))
            if group in _SHARED:
                moves.append(of(left_s, right_s) - middle)
            else:
                moves += [of(left_s, other_s) - middle, of(own_s, right_s) - middle]
        for by in moves:
            if by < 0:
                below += by * by
            else:
                above += by * by
    return (
        math.exp(middle), math.exp(middle - math.sqrt(below)), math.exp(middle + math.sqrt(above)),
    )  # fmt: skip


def _verdict(
    p: Primitives,
    q: Primitives,
    ratio: tuple[float, float, float],
    a: Explanation,
    b: Explanation,
    parts: tuple[tuple[str, float], ...],
) -> str:
    middle, low, high = ratio
    if low <= 1.0 <= high:
        return (
            f"cannot tell: {q.name} takes {middle:.2f} times as long as {p.name}, and the "
            f"evidence allows {low:.2f} to {high:.2f}."
        )
    slow, fast = (q, p) if middle > 1 else (p, q)
    times = middle if middle > 1 else 1 / middle
    sign = 1 if middle > 1 else -1
    ends = (low, high) if sign > 0 else (1 / low, 1 / high)
    titles = {part.name: part.title for part in a.parts}
    name, by = max(parts, key=lambda item: sign * item[1])
    gap = abs(b.prediction.seconds.value - a.prediction.seconds.value)
    largest = titles[name][0].upper() + titles[name][1:]
    return (
        f"{slow.name} is slower than {fast.name}, {times:.2f} times "
        f"({min(ends):.2f} to {max(ends):.2f}). {largest} makes the largest difference, "
        f"{abs(by):.3g} s; all parts together make {gap:.3g} s."
    )


def _flips(case: Case, p: Primitives, q: Primitives, middle: float) -> Iterator[str]:
    """Changes to both, or to the slower one alone, after which the order is or may be another."""
    slow, fast = (q, p) if middle > 1 else (p, q)
    fast_s = predict_s(case, fast)
    unchanged = functools.cache(lambda: _range(case, fast))
    for word, value in _TRIED:
        try:
            changed, theirs = applied(case, fast, word, value)
            other, mine = applied(case, slow, word, value)
        except PymicroError:
            continue
        text = f"{word}={value}" if value else word
        mine_s = predict_s(other, mine)
        if mine_s < _CLEARLY * predict_s(changed, theirs):
            changed_ratio = _ratio(_range(changed, theirs), _range(other, mine))
            yield f"{text} on both: {_turned(slow, changed_ratio)}"
        elif other.job.batch == case.job.batch and mine_s < _CLEARLY * fast_s:
            ratio = _ratio(unchanged(), _range(other, mine))
            yield (
                f"{text} on {slow.name} alone: {mine_s:.3g} s against {fast_s:.3g} s, "
                f"{_turned(slow, ratio)}"
            )


def _turned(slow: Primitives, ratio: tuple[float, float, float]) -> str:
    """How sure it is that `slow` is now the faster one, by the interval of its times over."""
    middle, low, high = ratio
    if high < 1.0:
        return (
            f"{slow.name} is then the faster one, in {middle:.2f} of the other's time "
            f"({low:.2f} to {high:.2f})"
        )
    return (
        f"{slow.name} may then be the faster one; it takes {middle:.2f} of the other's time, "
        f"and the evidence allows {low:.2f} to {high:.2f}"
    )


def predict_s(case: Case, p: Primitives) -> float:
    """Seconds of a case on a device, without an interval."""
    return simulate(case.program, p, case.config).seconds
