"""Which size of job a card suits, by rules that are stated: fits, fast enough, bound by, NVLink.

The jobs are yardsticks and no advice. All figures are of data sheets times an efficiency that is
stated; parts of a step follow one another, none is hidden behind another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pymicro.analysis.memory_need import Need, missing_bytes, of_parameters
from pymicro.devices.spec import DeviceSpec
from pymicro.dtypes import DTYPES
from pymicro.units import si
from pymicro.workloads.precisions import PRECISIONS

Use = Literal["training", "inference"]
_DAY_S = 86400.0

# Shares of a data sheet's figure that well-kept software reaches in large products and streams.
ARITHMETIC_EFFICIENCY = 0.4
MEMORY_EFFICIENCY = 0.8

# Trained by autocast in the format's own precision; what that takes is memory_need's to say.
_AUTOCAST = {"fp16": "amp_fp16", "bf16": "amp_bf16"}
# The optimiser reads gradient, master weight and moments and writes all but the gradient.
OPTIMISER_BYTES = (2 + 4 + 4 + 4) + (2 + 4 + 4 + 4)
GRADIENT_BYTES = 2
# Forward 2, backward 4 (Kaplan et al. 2020, arXiv 2001.08361, section 2.1).
TRAINED_FLOP = 6
TOKENS_PER_STEP = 8192
ACTIVATIONS_SHARE = 0.2
LINK_SHARE_THAT_HURTS = 0.25

SERVED_FLOP = 2
CACHE_SHARE = 0.1
PROMPT_TOKENS = 2048
FIRST_TOKEN_S = 2.0
TOKENS_PER_S = 10.0


@dataclass(frozen=True)
class TrainingJob:
    """A model trained for `tokens` on `cards` cards of a kind, within `days`."""

    size: str
    parameters: float
    tokens: float
    cards: int
    days: float


# The largest has 20 tokens a parameter (Hoffmann et al. 2022, arXiv 2203.15556); so has the middle.
TRAINING = (
    TrainingJob("large", 7e9, 140e9, 8, 90.0),
    TrainingJob("middle", 1e9, 20e9, 1, 30.0),
    TrainingJob("small", 0.1e9, 1e9, 1, 1.0),
)
# Parameters of a model that one card serves.
SERVING = {"large": 30e9, "middle": 13e9, "small": 3e9}


@dataclass(frozen=True)
class Format:
    """The number format that the card's fastest suitable unit takes, and its dense rate."""

    dtype: str
    flop_per_s: float


@dataclass(frozen=True)
class Suitability:
    """What the rules say of a card for one use.

    Attributes:
        size: the largest job that passes: `large`, `middle`, `small` or `none`.
        because: what that job takes here.
        fails: why the next larger one fails, empty if there is none.
        bound_by: what most of the largest passing job's time goes to.
        needs_nvlink: whether several cards of the kind would wait for PCIe; None for inference.
        link: the link that joins several, and the share of a step that PCIe would take.
    """

    use: Use
    format: Format
    size: str
    because: str
    fails: str
    bound_by: str
    needs_nvlink: bool | None
    link: str


def format_of(spec: DeviceSpec, use: Use, dtype: str | None = None) -> Format:
    """The format used: a given one, or 16 bits on the tensor cores, or else FP32.

    Training takes BF16 before FP16, since it needs no loss scaling; inference takes FP16.
    """
    wanted = (dtype,) if dtype else (("bf16", "fp16") if use == "training" else ("fp16",))
    for name in wanted:
        rate = spec.peak_ops_per_s(DTYPES[name].peak_path)
        if rate:
            return Format(name, rate)
    return Format("fp32", spec.peak_ops_per_s("fp32") or 0.0)


def suits(spec: DeviceSpec, use: Use, dtype: str | None = None) -> Suitability:
    """Apply the rules of a use to a card."""
    used = format_of(spec, use, dtype)
    return _training(spec, used) if use == "training" else _inference(spec, used)


@dataclass(frozen=True)
class _Trial:
    size: str
    passes: bool
    said: str
    bound_by: str


def _training(spec: DeviceSpec, used: Format) -> Suitability:
    judged = _judged("training", used, [_train(spec, used, job) for job in TRAINING])
    needs, said = _link(spec, used)
    return replace(judged, needs_nvlink=needs, link=said)


def _train(spec: DeviceSpec, used: Format, job: TrainingJob) -> _Trial:
    memory = spec.memory_bytes or 0
    how = PRECISIONS[_AUTOCAST.get(used.dtype, used.dtype)]
    wanted = of_parameters(
        job.parameters / job.cards, how, True, activations=ACTIVATIONS_SHARE * memory
    )
    if missing_bytes(wanted, memory):
        return _Trial(job.size, False, _too_much(wanted, memory, "and optimiser"), "memory size")
    parts = step_parts_s(spec, used, job.parameters, job.cards)
    days = job.tokens / (TOKENS_PER_STEP * job.cards) * sum(parts.values()) / _DAY_S
    cards = f"{job.cards} cards" if job.cards > 1 else "one card"
    said = f"{_count(job.parameters)} parameters in {days:.3g} days on {cards}"
    if days > job.days:
        said += f", more than {job.days:g}"
    return _Trial(job.size, days <= job.days, said, max(parts, key=lambda p: parts[p]))


def step_parts_s(
    spec: DeviceSpec, used: Format, parameters: float, cards: int, over: str = "best"
) -> dict[str, float]:
    """Seconds of one step by what they go to; `over` is `best` link or `pcie`."""
    arithmetic = used.flop_per_s * ARITHMETIC_EFFICIENCY
    memory = (spec.memory_bytes_per_s or 0.0) * MEMORY_EFFICIENCY
    parts = {
        "arithmetic": TRAINED_FLOP * parameters * TOKENS_PER_STEP / arithmetic,
        "memory bandwidth": OPTIMISER_BYTES * parameters / cards / memory,
    }
    if cards > 1:
        # A ring sends and receives 2 (n - 1) / n of the gradients, both directions at once.
        moved = 2 * (cards - 1) / cards * GRADIENT_BYTES * parameters
        name, rate = link(spec, cards) if over == "best" else _pcie(spec)
        parts[name] = moved / (rate * MEMORY_EFFICIENCY)
    return parts


def link(spec: DeviceSpec, cards: int) -> tuple[str, float]:
    """The link between `cards` cards, one way: NVLink where it joins so many, else PCIe."""
    bridge = "two cards" in spec.nvlink_kind
    if spec.nvlink_bytes_per_s and (cards == 2 or not bridge):
        return "NVLink", spec.nvlink_bytes_per_s / 2
    return _pcie(spec)


def _pcie(spec: DeviceSpec) -> tuple[str, float]:
    return "PCIe", spec.pcie_bytes_per_s or 1.0


def _link(spec: DeviceSpec, used: Format) -> tuple[bool, str]:
    """Whether several cards would wait for PCIe, and what this card has instead."""
    cards = TRAINING[0].cards
    parts = step_parts_s(spec, used, 1.0, cards, over="pcie")
    share = parts["PCIe"] / sum(parts.values())
    if not spec.nvlink_bytes_per_s:
        has = "no NVLink"
    elif link(spec, cards)[0] == "NVLink":
        has = f"NVLink {si(spec.nvlink_bytes_per_s / 2, 'B/s', 3)} each way"
    else:
        has = "NVLink bridge for two"
    blocked = ", no peer access over PCIe" if spec.p2p_over_pcie == "blocked" else ""
    said = f"{has}{blocked}; PCIe would take {100 * share:.0f} % of a step on {cards} cards"
    return share > LINK_SHARE_THAT_HURTS, said


def _inference(spec: DeviceSpec, used: Format) -> Suitability:
    judged = _judged("inference", used, [_serve(spec, used, *item) for item in SERVING.items()])
    if judged.size == "none":
        return judged
    # Reading a weight once serves all requests of a batch.
    ridge = used.flop_per_s / (spec.memory_bytes_per_s or 1.0)
    requests = ridge * DTYPES[used.dtype].itemsize_bytes / SERVED_FLOP
    return replace(judged, bound_by=f"memory bandwidth below {requests:.0f} requests at once")


def _serve(spec: DeviceSpec, used: Format, size: str, parameters: float) -> _Trial:
    weights = DTYPES[used.dtype].itemsize_bytes * parameters
    memory, name = spec.memory_bytes or 0, f"{_count(parameters)} parameters"
    wanted = Need(weights, 0.0, 0.0, 0.0, CACHE_SHARE * memory)
    if missing_bytes(wanted, memory):
        said = f"{name}: {_too_much(wanted, memory, '')}"
        return _Trial(size, False, said, "memory size")
    flop = SERVED_FLOP * parameters * PROMPT_TOKENS
    first = flop / (used.flop_per_s * ARITHMETIC_EFFICIENCY)
    rate = (spec.memory_bytes_per_s or 0.0) * MEMORY_EFFICIENCY / weights
    said = f"{name}: first token after {first:.2g} s, then {rate:.3g} a second"
    if first > FIRST_TOKEN_S:
        return _Trial(size, False, said, "arithmetic")
    return _Trial(size, rate >= TOKENS_PER_S, said, "memory bandwidth")


def _too_much(wanted: Need, memory: float, more: str) -> str:
    said = f"{si(wanted.fixed, 'B', 3)} of weights{f' {more}' if more else ''}"
    return f"{said}, {si(wanted.total, 'B', 3)} with the rest, in {si(memory, 'B', 3)}"


def _judged(use: Use, used: Format, trials: list[_Trial]) -> Suitability:
    """The first trial that passes, from large to small, and the failure just above it."""
    for place, trial in enumerate(trials):
        if trial.passes:
            above = trials[place - 1] if place else None
            fails = f"{above.size} fails: {above.said}" if above else ""
            said = (trial.size, trial.said, fails, trial.bound_by)
            return Suitability(use, used, *said, needs_nvlink=None, link="")
    last = trials[-1]
    fails = f"{last.size} fails: {last.said}"
    return Suitability(use, used, "none", "", fails, last.bound_by, needs_nvlink=None, link="")


def _count(parameters: float) -> str:
    return f"{parameters / 1e9:g}e9"


def _trained_bytes() -> float:
    """Bytes a parameter that autocast keeps all the time."""
    return of_parameters(1.0, PRECISIONS["amp_bf16"], True).fixed


def rules(use: Use) -> Iterator[str]:
    """The rules in words, from the very constants that they are computed with."""
    of_peak = f"{100 * ARITHMETIC_EFFICIENCY:.0f} % of the dense peak"
    of_memory = f"{100 * MEMORY_EFFICIENCY:.0f} % of the bandwidth"
    yield f"Rates are {of_peak} and {of_memory} of the data sheet; nothing overlaps."
    if use == "training":
        yield "Format: BF16 where the tensor cores take it, else FP16, else FP32."
        for job in TRAINING:
            yield (
                f"{job.size}: {_count(job.parameters)} parameters, {job.tokens:g} tokens, "
                f"{job.cards} card(s), within {job.days:g} days."
            )
        yield (
            f"Fits: {_trained_bytes():.0f} bytes a parameter (autocast: FP32 weights, gradients "
            "and two moments, 16-bit copies of the weights), spread over the cards, beside "
            f"activations of {100 * ACTIVATIONS_SHARE:.0f} % of the memory; judged as `recommend` "
            "does."
        )
        yield (
            f"A step: {TRAINED_FLOP} FLOP a parameter and token, {TOKENS_PER_STEP} tokens a card; "
            f"{OPTIMISER_BYTES} bytes a parameter for the optimiser; a ring all-reduce of 16-bit "
            "gradients."
        )
        yield (
            f"NVLink is needed where PCIe would take over {100 * LINK_SHARE_THAT_HURTS:.0f} % of a "
            f"step on {TRAINING[0].cards} cards; a bridge joins two cards only."
        )
        return
    yield "Format: FP16 on the tensor cores, else FP32; --dtype chooses another."
    sizes = ", ".join(f"{size} {_count(n)}" for size, n in SERVING.items())
    yield f"Parameters on one card: {sizes}."
    yield (
        f"Fits: weights beside keys and values of {100 * CACHE_SHARE:.0f} % of the memory, judged "
        f"as `recommend` does. Fast: first token of a prompt of {PROMPT_TOKENS} within "
        f"{FIRST_TOKEN_S:g} s, then {TOKENS_PER_S:g} tokens a second for one request."
    )
    yield "Bound: requests at once up to which reading the weights takes longer than arithmetic."
