"""Traps of definition, each a small function: what makes one figure, or two, not what they seem.

A check of one figure returns a sentence or None; so does a check of two. Nothing is dropped
here: whoever shows a figure shows its sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymicro.devices.published import Published
from pymicro.devices.schema import differs
from pymicro.devices.spec import DeviceSpec
from pymicro.units import binary_bytes, si

# GeForce cards pass their nominal boost clock: products reach up to 1.17 of the nominal peak.
_BOOST_ROOM = 1.2
# Above this share of the peak at the highest clock a figure counts something else.
_COUNTING_ERROR = 1.02
_L2_MARGIN = 4

_PATHS = {
    "fp64": "fp64_tensor", "fp32": "fp32", "tf32": "tf32_tensor", "bf16": "bf16_tensor_fp32_acc",
    "int8": "int8_tensor", "int4": "int4_tensor", "fp6": "fp6_tensor_fp32_acc",
    "fp4": "fp4_tensor_fp32_acc", "nvfp4": "fp4_tensor_fp32_acc", "mxfp4": "fp4_tensor_fp32_acc",
    "mxfp8": "fp8_tensor_fp16_acc",
}  # fmt: skip


def peak_path(row: Published) -> str | None:
    """The arithmetic path that bounds the row, None if it names no format."""
    if row.metric.group == "vector":
        return {"fp16_vec_tflops": "fp16"}.get(row.metric.name, row.metric.name.split("_")[0])
    if row.dtype in ("fp16", "fp8"):
        half = "fp16_acc" if row.accumulate == "fp16" else "fp32_acc"
        return f"{row.dtype}_tensor_{half}"
    return _PATHS.get(row.dtype)


def roof(row: Published, spec: DeviceSpec) -> float | None:
    """The data-sheet figure that bounds the row, in the row's SI unit; None if none does."""
    if row.metric.roof == "memory":
        return spec.memory_bytes_per_s
    if row.metric.roof == "pcie":
        # A superchip's host link is not PCIe.
        if spec.nvlink_c2c_bytes_per_s:
            return spec.nvlink_c2c_bytes_per_s / 2
        return spec.pcie_bytes_per_s
    path = peak_path(row) if row.metric.roof == "ops" else None
    if path is None:
        return None
    if path == "fp64_tensor" and not spec.peak_ops_per_s(path):
        path = "fp64"
    return spec.peak_ops_per_s(path)


def counts_zeros(row: Published, spec: DeviceSpec | None) -> str | None:
    if row.metric.name == "mma_sparse_tflops":
        return "it counts the zeros of 2:4 sparsity: halve it to compare with dense figures."
    return None


def sums_in_fp16(row: Published, spec: DeviceSpec | None) -> str | None:
    if row.accumulate == "fp16":
        return "it sums into FP16, which GeForce cards do at twice the rate of FP32."
    return None


def accumulator_untold(row: Published, spec: DeviceSpec | None) -> str | None:
    two_rates = row.dtype in ("fp16", "fp8") and row.metric.name in ("mma_tflops",)
    if two_rates and row.accumulate is None:
        return "the source does not say into which format it sums."
    return None


def has_two_peaks(row: Published, spec: DeviceSpec | None) -> str | None:
    """Plain FP8 with FP32 sums is halved on GeForce; the block-scaled instruction is not."""
    if row.dtype != "fp8" or spec is None or spec.capability[0] != 12:
        return None
    rates = spec.ops_per_clk_per_sm
    if rates.get("fp8_tensor_fp32_acc") != rates.get("fp8_tensor_fp16_acc"):
        return "a library may use the block-scaled instruction, whose peak is twice the plain one."
    return None


def fits_in_l2(row: Published, spec: DeviceSpec | None) -> str | None:
    if not _to_dram(row):
        return None
    if spec is None or spec.l2_bytes is None or row.bytes_touched is None:
        return None
    if row.bytes_touched < _L2_MARGIN * spec.l2_bytes:
        return (
            f"{binary_bytes(row.bytes_touched)} are less than {_L2_MARGIN} times the L2 cache of "
            f"{binary_bytes(spec.l2_bytes)}: part of it may not have reached DRAM."
        )
    return None


def ran_above_its_clock(row: Published, spec: DeviceSpec | None) -> str | None:
    limit, highest = _bounds(row, spec)
    if not limit or not limit < row.value <= highest or highest <= limit * _COUNTING_ERROR:
        return None
    return f"it is {_share(row, limit)}: the card ran above its nominal clock."


def beyond_the_card(row: Published, spec: DeviceSpec | None) -> str | None:
    limit, highest = _bounds(row, spec)
    if not limit or row.value <= highest:
        return None
    share = _share(row, limit)
    return f"it is {share}, which the card cannot do: an error of counting, format or card."


def _bounds(row: Published, spec: DeviceSpec | None) -> tuple[float, float]:
    """The data sheet's figure, 0 where there is none, and the most that the card could show."""
    limit = None if spec is None else roof(row, spec)
    if spec is None or not limit:
        return 0.0, 0.0
    room = 1.0
    if row.metric.roof == "ops":
        path = peak_path(row)
        nominal = spec.clock_hz(path) if path else None
        room = spec.max_clock_hz / nominal if spec.max_clock_hz and nominal else _BOOST_ROOM
        if has_two_peaks(row, spec):
            room *= 2
    return limit, limit * room * _COUNTING_ERROR


def _share(row: Published, limit: float) -> str:
    return f"{100 * row.value / limit:.0f} % of the data sheet's {si(limit, row.metric.si_unit)}"


def format_emulated(row: Published, spec: DeviceSpec | None) -> str | None:
    limit = None if spec is None else roof(row, spec)
    if limit == 0:
        return f"the card has no {row.dtype} hardware: the library emulates it."
    return None


def filled_with_zeros(row: Published, spec: DeviceSpec | None) -> str | None:
    if row.fill == "zeros" and row.metric.roof == "ops":
        # A100 product of 8192: 295 against 257; H800 instruction loop: 729 against 665 TFLOP/s.
        return "zeros draw less power than random data: 10 to 15 % more where both were measured."
    return None


def under_a_power_limit(row: Published, spec: DeviceSpec | None) -> str | None:
    limit = row.power_limit_w
    if limit is None or spec is None or spec.tdp_w is None or not differs(limit, spec.tdp_w, 0.05):
        return None
    return f"its power limit was {limit:.0f} W, the card's is {spec.tdp_w:.0f} W."


def best_of_many(row: Published, spec: DeviceSpec | None) -> str | None:
    if row.searched:
        return "it is the best of several shapes or kernels, not one fixed case."
    return None


def launch_has_meanings(row: Published, spec: DeviceSpec | None) -> str | None:
    if row.metric.name == "launch_us":
        return f"what it spans is the method's: {row.method}."
    return None


def read_second_hand(row: Published, spec: DeviceSpec | None) -> str | None:
    return None if row.source.primary else "it was read in a quotation, not in the source."


Check = Callable[[Published, DeviceSpec | None], str | None]
CHECKS: tuple[Check, ...] = (
    counts_zeros,
    sums_in_fp16,
    accumulator_untold,
    has_two_peaks,
    fits_in_l2,
    ran_above_its_clock,
    beyond_the_card,
    format_emulated,
    filled_with_zeros,
    under_a_power_limit,
    best_of_many,
    launch_has_meanings,
    read_second_hand,
)


def traps(row: Published, spec: DeviceSpec | None) -> list[str]:
    """What to know before using this figure; `spec` is the row's card where it is certain."""
    return [said for check in CHECKS if (said := check(row, spec)) is not None]


# A figure that falls into one of these is not of what it is named for: no ratio is made of it.
SPOILING: tuple[Check, ...] = (fits_in_l2, beyond_the_card, format_emulated)


def spoilt(row: Published, spec: DeviceSpec | None) -> str | None:
    """Why no ratio may be made of this figure, None if one may."""
    return next((said for check in SPOILING if (said := check(row, spec)) is not None), None)


@dataclass(frozen=True)
class Difference:
    """A property that two figures must share to be compared.

    `decides` tells whether unequal values forbid a ratio or only need to be told.
    """

    attribute: str
    word: str
    decides: Callable[[Published, Published], bool]
    applies: Callable[[Published], bool] = lambda row: True


@dataclass(frozen=True)
class Unlike:
    """One way in which two figures were made differently; a decisive one forbids their ratio."""

    text: str
    decisive: bool
    word: str = ""
    values: tuple[str, ...] = ()


# Here the words under `size` say at most how far a set lies beyond the cache, or what the tool
# calls its default. Elsewhere the size of the problem makes the figure.
_SIZE_IS_A_DETAIL = ("latency", "transfer")
_DEFAULTS = ("", "default", "nvbandwidth default")


def size_matters(row: Published) -> bool:
    """Whether the figure is one of a stated size, so that another size is another quantity."""
    detail = row.metric.group in _SIZE_IS_A_DETAIL or _to_dram(row)
    return row.size not in _DEFAULTS and not detail


def _both_told(attribute: str) -> Callable[[Published, Published], bool]:
    return lambda a, b: None not in (getattr(a, attribute), getattr(b, attribute))


def counts_operations(row: Published) -> bool:
    """Whether the format of the operands makes the figure; elsewhere it is only their width."""
    return row.metric.roof == "ops" or "FLOP" in row.metric.unit


DIFFERENCES = (
    Difference("dtype", "formats", lambda a, b: counts_operations(a)),
    Difference("accumulate", "accumulators", lambda a, b: True),
    Difference("fill", "contents of the operands", _both_told("fill")),
    Difference("sustained", "lengths of the run (burst or sustained)", _both_told("sustained")),
    Difference("searched", "choices of shape (best of many or one)", lambda a, b: True),
    Difference("size", "sizes", lambda a, b: size_matters(a) and size_matters(b)),
    # What a launch figure spans is in its method alone.
    Difference("method", "methods", lambda a, b: True, lambda row: row.metric.name == "launch_us"),
)


def differences(a: Published, b: Published) -> list[Unlike]:
    """How two figures were made differently; empty where they were made alike."""
    if a.metric != b.metric and not same_traffic(a, b):
        return [Unlike(f"different things: {_what(a)}, and {_what(b)}.", True)]
    found = []
    for d in DIFFERENCES:
        left, right = getattr(a, d.attribute), getattr(b, d.attribute)
        if left != right and d.applies(a):
            said = (_said(left), _said(right))
            text = f"different {d.word}: {', and '.join(said)}."
            found.append(Unlike(text, d.decides(a, b), d.word, said))
    if a.metric.unit == "cycles" and a.key != b.key:
        text = "cycles are of each card's own clock, so their ratio is none of times."
        found.append(Unlike(text, False))
    return found


def _what(row: Published) -> str:
    return f"{row.metric.name} ({row.metric.counts})"


def same_traffic(a: Published, b: Published) -> bool:
    """Copy and scale move the same bytes over DRAM, and so do add and triad."""
    return _to_dram(a) and _to_dram(b) and a.metric.counts == b.metric.counts


def _to_dram(row: Published) -> bool:
    return row.metric.name.startswith("dram_") and row.metric.unit == "GB/s"


def _said(value: object) -> str:
    words = {None: "not told", "": "not told", True: "yes", False: "no"}
    return str(words.get(value, value)) if isinstance(value, bool | str | None) else str(value)
