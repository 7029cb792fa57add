"""Telemetry to the digit, with a scripted clock and a scripted NVML."""

from __future__ import annotations

import json
import threading
import time

import pytest

from pymicro import telemetry
from pymicro.telemetry import FIELDS, Sampler, Telemetry, limits_of

UUID = "GPU-11111111-2222-3333-4444-555555555555"


class Clock:
    """Stands still until it is told the time."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def scripted(fake_nvml, until_s, *, step_s=0.25, uuid=UUID):
    """A finished sampler that ran for `until_s`, with a reading each `step_s`."""
    clock = Clock()
    with Sampler(uuid, period_s=None, clock=clock, binding=fake_nvml) as sampler:
        for i in range(round(until_s / step_s) + 1):
            clock.now_s = 100.0 + i * step_s
            sampler.sample()
        clock.now_s = 100.0 + until_s
    return sampler


def counting(values):
    """The next value at each question, the last one for ever."""
    rest = list(values)
    return lambda: rest.pop(0) if len(rest) > 1 else rest[0]


def test_every_field_to_the_digit(fake_nvml):
    gpu = fake_nvml.gpus[0]
    gpu.sm_clock_mhz = counting([1980, 1400, 1395, 1390, 1395])
    gpu.temperature_c = counting([50, 60, 70, 65, 64])
    gpu.event_reasons = counting([0x1, 0x4, 0x4 | 0x2, 0x4, 0x1])
    gpu.pcie_generation = counting([1, 5, 5, 5, 4])
    gpu.pcie_replays = counting([3, 3, 3, 4, 5])
    gpu.power_instant_mw = counting([100_000, 600_000, 700_000, 700_000, 700_000])
    gpu.energy_mj = counting([5_000_000, 5_000_000, 5_400_000, 5_800_000, 6_200_000, 6_600_000])
    got = scripted(fake_nvml, 2.0, step_s=0.5).telemetry()
    assert got == Telemetry(
        sm_clock_hz=1395e6,
        memory_clock_hz=3201e6,
        power_w=675.0,  # Not 560: the first reading is from before the load.
        energy_j=1600.0,
        temperature_c=70.0,
        limits=("power_cap", "app_clocks"),
        pcie=(5, 16),
        pcie_replays=5,
        samples=5,
        duration_s=2.0,
        absent={},
    )


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x0, ()),
        (0x1, ()),
        (0x4, ("power_cap",)),
        (0x20, ("thermal",)),
        (0x40 | 0x8, ("thermal", "hw_slowdown")),
        (0x80 | 0x8, ("hw_slowdown", "power_brake")),
        (0x2, ("app_clocks",)),
        (1 << 40, ()),
    ],
)
def test_names_of_limits(bits, names):
    assert limits_of(bits) == names


# Which question carries which field; a field with a second way needs both to fail.
FIELD_OF = {
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_j"},
    "nvmlDeviceGetClockInfo": {"sm_clock_hz", "memory_clock_hz"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetCurrPcieLinkGeneration": {"pcie"},
    "nvmlDeviceGetCurrPcieLinkWidth": {"pcie"},
    "nvmlDeviceGetFieldValues": set(),
    "nvmlDeviceGetPowerUsage": set(),
    "nvmlDeviceGetCurrentClocksEventReasons": set(),
    "nvmlDeviceGetCurrentClocksThrottleReasons": set(),
    "nvmlDeviceIsMigDeviceHandle": set(),
}


@pytest.mark.parametrize("failure", [3, 13, 15, 999, AttributeError("x"), ValueError("x")])
@pytest.mark.parametrize("question", FIELD_OF)
def test_one_failing_question_costs_only_its_field(fake_nvml, question, failure):
    fake_nvml.failing[question] = failure
    fake_nvml.gpus[0].energy_mj = counting([1000 * i for i in range(1, 99)])
    got = scripted(fake_nvml, 3.0).telemetry()
    lost = {name for name in FIELDS if getattr(got, name) is None}
    assert lost == FIELD_OF[question] == set(got.absent)
    assert all(why for why in got.absent.values())
    json.dumps(got.to_json(), allow_nan=False)


@pytest.mark.parametrize("zero", [0, 2**32 - 1])
@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("sm_clock_mhz", "sm_clock_hz"),
        ("memory_clock_mhz", "memory_clock_hz"),
        ("pcie_generation", "pcie"),
        ("pcie_width", "pcie"),
        ("energy_mj", "energy_j"),
    ],
)
def test_zero_and_not_available_are_absent_and_never_a_number(fake_nvml, attribute, name, zero):
    setattr(fake_nvml.gpus[0], attribute, zero)
    got = scripted(fake_nvml, 3.0).telemetry()
    assert getattr(got, name) is None
    assert got.absent[name]


def test_unsupported_field_is_asked_once_and_a_passing_error_again(fake_nvml):
    fake_nvml.failing["nvmlDeviceGetTemperature"] = 3
    fake_nvml.failing["nvmlDeviceGetCurrPcieLinkWidth"] = 999
    scripted(fake_nvml, 1.0)
    assert fake_nvml.calls["nvmlDeviceGetTemperature"] == 1
    assert fake_nvml.calls["nvmlDeviceGetCurrPcieLinkWidth"] == 5


def test_old_driver_gives_limits_under_the_old_name(fake_nvml):
    fake_nvml.failing["nvmlDeviceGetCurrentClocksEventReasons"] = 13
    assert scripted(fake_nvml, 1.0).telemetry().limits == ("power_cap",)


@pytest.mark.parametrize(("duration_s", "power_w"), [(0.5, None), (0.75, None), (1.0, 650.0)])
def test_averaged_power_needs_a_second(fake_nvml, duration_s, power_w):
    fake_nvml.failing["nvmlDeviceGetFieldValues"] = 3
    got = scripted(fake_nvml, duration_s).telemetry()
    assert got.power_w == power_w
    assert power_w or got.absent["power_w"] == "too short: the power counter averages over 1 s"


def test_five_milliseconds_have_no_power_and_no_energy(fake_nvml):
    clock = Clock()
    with Sampler(UUID, period_s=None, clock=clock, binding=fake_nvml) as sampler:
        sampler.sample()
        clock.now_s += 0.005
    got = sampler.telemetry()
    assert (got.power_w, got.energy_j, got.sm_clock_hz) == (None, None, 1980e6)
    assert got.absent["power_w"].startswith("too short")
    assert got.absent["energy_j"].startswith("too short")


def test_energy_of_a_window_lies_between_readings(fake_nvml):
    # 400 W throughout: a reading each 0.25 s grows by 100 J; the window cuts two of them.
    fake_nvml.gpus[0].energy_mj = counting(
        [1_000_000, *(1_000_000 + i * 100_000 for i in range(99))]
    )
    sampler = scripted(fake_nvml, 5.0)
    assert sampler.between(100.625, 103.125).energy_j == pytest.approx(1000.0, abs=1e-9)
    assert sampler.between(99.0, 103.0).absent["energy_j"].endswith("over the whole window")
    assert sampler.between(101.0, 102.9).absent["energy_j"].startswith("too short")


def test_energy_counter_that_was_reset_has_no_difference(fake_nvml):
    fake_nvml.gpus[0].energy_mj = counting([9_000_000, 9_000_000, 1000, 2000])
    assert scripted(fake_nvml, 3.0).telemetry().energy_j is None


def test_marks_separate_burst_from_sustained(fake_nvml):
    clock = Clock()
    gpu = fake_nvml.gpus[0]
    with Sampler(UUID, period_s=None, clock=clock, binding=fake_nvml) as sampler:
        for name, mhz, bits in (("burst", 1980, 0x0), ("sustained", 1395, 0x4)):
            gpu.sm_clock_mhz, gpu.event_reasons = mhz, bits
            with sampler.mark(name):
                for _ in range(10):
                    clock.now_s += 0.25
                    sampler.sample()
            clock.now_s += 1.0
    burst, sustained = sampler.telemetry("burst"), sampler.telemetry("sustained")
    assert (burst.sm_clock_hz, burst.limits) == (1980e6, ())
    assert (sustained.sm_clock_hz, sustained.limits) == (1395e6, ("power_cap",))
    assert burst.samples == sustained.samples == 10


def test_a_reading_that_straddles_the_end_does_not_count(fake_nvml):
    clock = Clock()
    fake_nvml.gpus[0].temperature_c = lambda: setattr(clock, "now_s", clock.now_s + 0.3) or 61
    with Sampler(UUID, period_s=None, clock=clock, binding=fake_nvml) as sampler:
        sampler.sample()  # 100.0 to 100.3
    assert sampler.between(100.0, 100.3).samples == 1
    assert sampler.between(100.0, 100.2).samples == 0
    assert sampler.between(100.0, 100.2).sm_clock_hz is None


@pytest.mark.parametrize("failure", [12, 18, 4, 9, OSError("x")])
def test_broken_nvml_leaves_all_absent_and_the_run_goes_on(fake_nvml, failure):
    fake_nvml.failing["nvmlInit"] = failure
    with Sampler(UUID, binding=fake_nvml) as sampler:
        sampler.sample()
    got = sampler.telemetry()
    assert set(got.absent) == set(FIELDS)
    assert all(getattr(got, name) is None for name in FIELDS)
    assert "NVML cannot be read" in got.absent["power_w"]


def test_guests_only_device_is_said_to_be_a_guess(fake_nvml):
    got = scripted(fake_nvml, 1.0, uuid="GPU-guest").telemetry()
    assert got.sm_clock_hz == 1980e6
    assert "only device" in got.note


def test_partition_says_that_counters_are_the_whole_cards(fake_nvml):
    fake_nvml.gpus[0].mig_uuids = ("MIG-1",)
    got = scripted(fake_nvml, 1.0, uuid="MIG-1").telemetry()
    assert got.whole_card
    assert "MIG partition" in got.note


def test_thread_reads_by_itself_and_ends(fake_nvml):
    with Sampler(UUID, period_s=0.001, binding=fake_nvml) as sampler:
        deadline = time.monotonic() + 10
        while fake_nvml.calls["nvmlDeviceGetTemperature"] < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
    assert sampler.telemetry().samples >= 2
    assert "telemetry" not in {t.name for t in threading.enumerate()}


def test_thread_ends_when_the_run_fails(fake_nvml):
    with pytest.raises(KeyError), Sampler(UUID, binding=fake_nvml):
        raise KeyError
    assert "telemetry" not in {t.name for t in threading.enumerate()}


def test_json_round_trip(fake_nvml):
    for got in (scripted(fake_nvml, 3.0).telemetry(), telemetry.absent("a CPU"), Telemetry()):
        assert Telemetry.from_json(json.loads(json.dumps(got.to_json()))) == got
