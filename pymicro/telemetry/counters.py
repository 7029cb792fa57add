"""How each field is asked of NVML, and the older question where a driver lacks the newer one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymicro import nvml

# nvml.h, nvmlClocksEventReason*. Bit 0x1 (idle) limits nothing. 0x8 comes with 0x40 or 0x80.
LIMIT_BITS = (
    (0x4, "power_cap"),
    (0x20 | 0x40, "thermal"),
    (0x8, "hw_slowdown"),
    (0x80, "power_brake"),
    (0x2, "app_clocks"),
    (0x10, "sync_boost"),
    (0x100, "display_clocks"),
)

# nvml.h: nvmlDeviceGetPowerUsage is a one-second average from Ampere on (older cards: instant,
# which the driver does not tell). The instant field is renewed every 100 ms (arXiv 2312.02741).
_AVERAGE_POWER_WINDOW_S = 1.0
_INSTANT_POWER_WINDOW_S = 0.1
_FIELD_POWER_INSTANT = 186


def limits_of(event_reasons: int) -> tuple[str, ...]:
    """The names of the limits in NVML's bits; bits without a name are left out."""
    return tuple(name for bits, name in LIMIT_BITS if event_reasons & bits)


def _sm_clock(n: Any, h: Any) -> float:
    return nvml.positive(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)) * 1e6


def _memory_clock(n: Any, h: Any) -> float:
    return nvml.positive(n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM)) * 1e6


def _temperature(n: Any, h: Any) -> float:
    return float(n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU))


def _limits(n: Any, h: Any) -> tuple[str, ...]:
    bits, error = nvml.ask(lambda: n.nvmlDeviceGetCurrentClocksEventReasons(h))
    if error is not None:  # The same question under its name before driver 535.
        bits = n.nvmlDeviceGetCurrentClocksThrottleReasons(h)
    return limits_of(bits)


def _pcie(n: Any, h: Any) -> tuple[int, int]:
    generation = nvml.positive(n.nvmlDeviceGetCurrPcieLinkGeneration(h))
    return generation, nvml.positive(n.nvmlDeviceGetCurrPcieLinkWidth(h))


def _energy(n: Any, h: Any) -> float:
    return nvml.positive(n.nvmlDeviceGetTotalEnergyConsumption(h)) / 1e3


def _power(n: Any, h: Any) -> tuple[float, float]:
    """Watts, and the seconds that they are an average of."""
    watts, error = nvml.ask(lambda: _instant_power(n, h))
    if error is None:
        return watts, _INSTANT_POWER_WINDOW_S
    return nvml.positive(n.nvmlDeviceGetPowerUsage(h)) / 1e3, _AVERAGE_POWER_WINDOW_S


def _instant_power(n: Any, h: Any) -> float:
    (answer,) = n.nvmlDeviceGetFieldValues(h, [_FIELD_POWER_INSTANT])
    if answer.nvmlReturn != 0:
        raise n.NVMLError(answer.nvmlReturn)
    return nvml.positive(answer.value.uiVal) / 1e3


# Energy comes first, so that a sample's start is the time of its energy reading.
READERS: dict[str, Callable[[Any, Any], Any]] = {
    "energy_j": _energy,
    "sm_clock_hz": _sm_clock,
    "memory_clock_hz": _memory_clock,
    "power_w": _power,
    "limits": _limits,
    "temperature_c": _temperature,
    "pcie": _pcie,
    "pcie_replays": lambda n, h: int(n.nvmlDeviceGetPcieReplayCounter(h)),
}
