"""A job over the catalogue: does it fit, how long, what bounds it, what energy, what cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pymicro.analysis.cases import Case
from pymicro.analysis.memory_need import Need, missing_bytes, most_batch_on, need
from pymicro.analysis.predict import Prediction, predict
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.values import Value
from pymicro.errors import UsageError

# The first bucket of gradients is sent when it is full, and the last one when nothing is left to
# hide it behind: PyTorch's default of 25 MiB.
_BUCKET_BYTES = 25 * 2**20
# Less of a step's speed than this left by PCI Express, and NVLink is needed.
_ENOUGH = 0.8


@dataclass(frozen=True)
class Several:
    """Data-parallel training on several cards.

    Attributes:
        seconds: for the same records. allreduce_s: of one step, exposed_s: of it not hidden.
        efficiency: speed-up over one card, divided by the number of cards.
    """

    gpus: int
    link: str
    seconds: Value
    allreduce_s: Value
    exposed_s: float
    efficiency: float


@dataclass(frozen=True)
class Choice:
    """One card for a job.

    Attributes:
        fits: whether it does in its memory. spilt_bytes: what has to lie in the host's.
        seconds: with what spilling costs. cost: in the unit of the price, None without one.
        most_batch: largest batch that fits, 0 if none does.
        several: on several cards, over each link that the card has.
    """

    prediction: Prediction
    need: Need
    fits: bool
    spilt_bytes: float
    seconds: Value
    most_batch: int
    cost: Value | None
    several: tuple[Several, ...]


def choice(
    case: Case, p: Primitives, price_an_hour: float | None = None, gpus: int = 1, link: str = ""
) -> Choice:
    """Judge one card for a job."""
    wanted, made = need(case), predict(case, p)
    missing = missing_bytes(wanted, p.memory_bytes)
    seconds = _spilt(case, p, made, missing)
    cost = seconds.times(price_an_hour / 3600) if price_an_hour is not None else None
    kinds = [link] if link else sorted(p.allreduce_bytes_per_s)
    spilt = replace(made, seconds=seconds)
    many = tuple(several(case, p, spilt, gpus, kind) for kind in kinds) if gpus > 1 else ()
    batch = most_batch_on(case, wanted, p.memory_bytes)
    return Choice(made, wanted, missing == 0, missing, seconds, batch, cost, many)


def _spilt(case: Case, p: Primitives, made: Prediction, missing: float) -> Value:
    """Time when `missing` bytes of weights and states cross the link in every step or token.

    Generation reads them once a token, training reads and writes them once a step; copying hides
    behind computing, and the longer of the two counts.
    """
    if not missing:
        return made.seconds
    count, _ = case.units
    ways = 2 if case.trace.task == "train" else 1
    each = p.link_bytes_per_s.times(1 / (missing * ways * count))
    link = Value(
        1 / each.value,
        1 / each.high,
        1 / each.low,
        p.link_bytes_per_s.source,
        p.link_bytes_per_s.kind,
    )
    s = made.seconds
    return Value(
        max(s.value, link.value), max(s.low, link.low), max(s.high, link.high), link.source,
        link.kind,
    )  # fmt: skip


def several(case: Case, p: Primitives, made: Prediction, gpus: int, link: str = "") -> Several:
    """Each card has a batch of its own; gradients are summed over all while the backward runs."""
    kind = link or ("nvlink" if "nvlink" in p.allreduce_bytes_per_s else "pcie")
    one_s, steps = made.seconds.value, case.config.batches
    # A batch is not divided: in the last round of an epoch some cards may be idle.
    rounds = math.ceil(case.job.batches / gpus) * case.job.epochs
    if case.trace.task != "train":
        # Independent requests: nothing is exchanged.
        seconds = made.seconds.times(rounds / steps)
        nothing = Value(0, 0, 0, "", "measured")
        return Several(gpus, kind, seconds, nothing, 0.0, steps / rounds / gpus)
    bus = p.allreduce_bytes_per_s[kind]
    size = need(case).gradients
    moved = 2 * (gpus - 1) / gpus * size
    sent = Value(moved / bus.value, moved / bus.high, moved / bus.low, bus.source, bus.kind)
    backward_s = made.simulation.phases["backward"].wall_s / steps
    exposed_s = max(sent.value - backward_s, sent.value * min(1.0, _BUCKET_BYTES / size))
    step_s = one_s / steps + exposed_s
    total = step_s * rounds
    low = total * made.seconds.low / one_s
    high = (made.seconds.high / steps + max(sent.high - backward_s, exposed_s)) * rounds
    seconds = Value(total, low, max(high, total), bus.source, bus.kind)
    return Several(gpus, kind, seconds, sent, exposed_s, one_s / total / gpus)


def needs_nvlink(made: Choice) -> bool | None:
    """Whether training on several cards needs NVLink; None where nothing tells."""
    pcie = next((s for s in made.several if s.link == "pcie"), None)
    if pcie is None:
        return None
    step_s = made.prediction.unit_s.value
    return step_s / (step_s + pcie.exposed_s) < _ENOUGH


def why_no_link(p: Primitives, link: str) -> str | None:
    """Why a card cannot be joined so; None if it can."""
    if link and link not in p.allreduce_bytes_per_s:
        return f"{p.name} has no {'NVLink' if link == 'nvlink' else 'PCI Express figure'}."
    return None


def ranked(choices: Sequence[Choice]) -> list[Choice]:
    """What fits first, the fastest first."""
    return sorted(choices, key=lambda c: (not c.fits, c.seconds.value))


def prices(texts: Sequence[str], known: Mapping[str, str]) -> dict[str, float]:
    """Prices an hour by key, of `card=number`; `known` maps words to keys.

    Raises:
        UsageError: no such card, or no number.
    """
    found = {}
    for text in texts:
        card, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if card not in known or not 0 <= value < 1e6:
            raise UsageError(f"--price {text}: write CARD=NUMBER, the price of an hour.")
        found[known[card]] = value
    return found
