"""How close one result comes to what its device can do: on paper, and at the clock it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymicro import stats
from pymicro.analysis import ceiling
from pymicro.issue import VECTOR_UNITS
from pymicro.results import Result
from pymicro.telemetry import Telemetry

# Above this share of the peak at the measured clock, a figure is an error of the peak, the clock
# or the count of operations, never an achievement.
_IMPOSSIBLE = 1.02
# What an SM takes in per clock at most, from its shared memory and L1 and through them: 32 banks
# of 4 bytes (CUDA programming guide, shared memory, all compute capabilities from 5.0 on).
_SM_BYTES_PER_CLOCK = 128
_LIMIT_NAMES = {
    "power_cap": "power cap",
    "thermal": "thermal slowdown",
    "hw_slowdown": "hardware slowdown",
    "power_brake": "power brake",
    "app_clocks": "application clocks",
    "sync_boost": "sync boost",
    "display_clocks": "display clocks",
}


@dataclass(frozen=True)
class Rate:
    """A rate with its 95 % interval over `samples`; `kind` is `sustained`, `burst` or, on a CPU,
    `steady`."""

    kind: str
    value: float
    low: float
    high: float
    seconds: float
    samples: int


@dataclass(frozen=True)
class Verdict:
    """What a result says about its device.

    Attributes:
        rates: the rates that were sampled, the most lasting first.
        peak: data-sheet peak in the same unit; None where it is not known.
        peak_fraction: first rate over `peak`.
        clock_peak_fraction: first rate over the peak at the SM clock measured with it.
        ceiling_fraction: a sustained rate over what the device's power allows, see `ceiling`.
        sm_clock_hz: that clock.
        power_w: mean power meanwhile.
        limit: what held the clock down, in words: `power cap`, `thermal slowdown`, `none seen`;
            empty where the run was too short for the counters.
        doubt: why the figure should not be believed, None if nothing speaks against it.
    """

    rates: tuple[Rate, ...]
    peak: float | None
    peak_fraction: float | None
    clock_peak_fraction: float | None
    ceiling_fraction: float | None
    sm_clock_hz: float | None
    power_w: float | None
    limit: str
    doubt: str | None


def judge(result: Result) -> Verdict:
    """The verdict on a result that is ok.

    Raises:
        ValueError: the result has no samples.
    """
    rates = _rates(result)
    if not rates:
        raise ValueError("a result without samples has no verdict")
    peak, per_clock = _peaks(result)
    clocks = [c for c in result.sample_sm_clock_hz or () if c is not None]
    clock = stats.median(clocks) if clocks else None
    value = rates[0].value
    clock_fraction = value / (per_clock * clock) if per_clock and clock else None
    telemetry = result.telemetry
    return Verdict(
        rates=rates,
        peak=peak,
        peak_fraction=value / peak if peak else None,
        clock_peak_fraction=clock_fraction,
        ceiling_fraction=_of_ceiling(result, rates[0]),
        sm_clock_hz=clock,
        power_w=telemetry.power_w if telemetry else None,
        limit=_limit(result, telemetry),
        doubt=_doubt(clock_fraction, value / peak if peak and not result.flop else None)
        or _sm_doubt(result, value, clock),
    )


def _rates(result: Result) -> tuple[Rate, ...]:
    on_gpu = result.device.get("kind") == "cuda"
    found = [("sustained" if on_gpu else "steady", result.times_s), ("burst", result.burst_s)]
    return tuple(_rate(kind, result, times) for kind, times in found if times)


def _rate(kind: str, result: Result, times: Sequence[float]) -> Rate:
    middle, (low, high) = stats.median(times), stats.bootstrap_ci(times)
    if not (result.flop or result.bytes):  # Dependent steps, or a call that counts nothing.
        each, least, most = (t / (result.steps or 1) for t in (middle, low, high))
        return Rate(kind, each, least, most, middle, len(times))
    work = result.flop or result.bytes
    return Rate(kind, work / middle, work / high, work / low, middle, len(times))


def _of_ceiling(result: Result, rate: Rate) -> float | None:
    allowed = ceiling.of(result) if rate.kind == "sustained" else None
    return rate.value / allowed if allowed else None


def _peaks(result: Result) -> tuple[float | None, float | None]:
    """Peak operations a second and a clock for the format, as the device's row has them."""
    if not result.flop:
        return (result.device.get("memory_bytes_per_s") if is_from_memory(result) else None), None
    vector = "vector_" if result.params.get("unit") in VECTOR_UNITS else ""
    peaks = result.device.get(f"{vector}peak_ops_per_s") or {}
    per_clock = result.device.get(f"{vector}ops_per_clk") or {}
    if "sms" in result.params and result.params["sms"] != result.device.get("sm_count"):
        return None, None  # A part of the SMs has no peak on paper.
    return peaks.get(result.dtype), per_clock.get(result.dtype)


def is_from_memory(result: Result) -> bool:
    """Whether the bytes crossed the device's memory bus: not those of a cache or inside an SM."""
    on_chip = result.params.get("level", "memory") != "memory"
    over_a_link = result.benchmark == "collective" or (
        result.benchmark == "transfer" and result.params.get("path") != "d2d"
    )
    return (
        result.bytes > 0
        and not on_chip
        and not over_a_link
        and result.details.get("passes", 1) == 1
    )


def _limit(result: Result, telemetry: Telemetry | None) -> str:
    if result.device.get("kind") != "cuda":
        return ""
    if telemetry is None or telemetry.limits is None:
        return ""
    limits = [_LIMIT_NAMES[x] for x in telemetry.limits if x in _LIMIT_NAMES]
    return ", ".join(limits) or "none seen"


def _sm_doubt(result: Result, bytes_per_s: float, clock_hz: float | None) -> str | None:
    """Whether more bytes went in or out of the SMs than they have wires for."""
    sms = result.params.get("sms") or result.device.get("sm_count")
    if result.flop or not (result.benchmark == "bandwidth" and sms and clock_hz):
        return None
    per_clock = bytes_per_s / clock_hz / sms
    if per_clock <= _IMPOSSIBLE * _SM_BYTES_PER_CLOCK:
        return None
    return (
        f"{per_clock:.0f} bytes a clock and SM cannot be, an SM has wires for "
        f"{_SM_BYTES_PER_CLOCK}: the compiler removed work, or bytes are counted twice."
    )


def _doubt(clock_fraction: float | None, bus_fraction: float | None) -> str | None:
    if clock_fraction is not None and clock_fraction > _IMPOSSIBLE:
        return (
            f"{100 * clock_fraction:.0f} % of the peak at the clock measured cannot be: the "
            "device's row, the clock or the count of operations is wrong."
        )
    if bus_fraction is not None and bus_fraction > _IMPOSSIBLE:
        return (
            f"{100 * bus_fraction:.0f} % of the memory bus's peak cannot be: a cache served "
            "part of it, or the device's row is wrong."
        )
    return None
