"""The thread that reads the counters, and the windows of time over which they are summed up."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pymicro import nvml
from pymicro.errors import Unavailable
from pymicro.telemetry.counters import LIMIT_BITS, READERS
from pymicro.telemetry.record import Telemetry, absent, combined

# The energy counter advances in steps; from 2 s on a step more or less is a small part.
_ENERGY_MIN_S = 2.0


@dataclass(frozen=True)
class _Sample:
    start_s: float
    end_s: float
    values: Mapping[str, Any]


class Sampler:
    """Reads a GPU's counters about every `period_s` between `with` and its end.

    `telemetry()` covers the whole run, `telemetry(name)` what ran inside `with mark(name)`, and
    `between` any window on the host's `clock`. `sample()` adds a reading at once: call it while
    work that is shorter than the period runs. `period_s=None` starts no thread.
    """

    def __init__(
        self,
        uuid: str | None,
        pci_bus_id: str | None = None,
        *,
        period_s: float | None = 0.05,
        clock: Callable[[], float] = time.perf_counter,
        binding: Any = None,
    ) -> None:
        self._ids = (uuid, pci_bus_id, binding)
        self._period_s, self._clock = period_s, clock
        self._device: nvml.NvmlDevice | None = None
        self._unavailable = "not started"
        self._samples: list[_Sample] = []
        self._energy_j: list[tuple[float, float]] = []  # (time, counter)
        self._absent: dict[str, str] = {}
        self._given_up: set[str] = set()
        self._marks: dict[str, tuple[float, float]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_s = self._end_s = 0.0

    def __enter__(self) -> Sampler:
        try:
            self._device = nvml.find(*self._ids)
        except Unavailable as error:
            self._unavailable = str(error)
        self._start_s = self._read_energy()
        if self._device and self._period_s is not None:
            self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._end_s = self._read_energy()
        if self._thread:
            # A driver that never answers must not hold the benchmark; the thread is a daemon.
            self._thread.join(timeout=2.0)

    def _loop(self) -> None:
        assert self._period_s is not None
        while not self._stop.is_set():
            began = time.perf_counter()
            self.sample()
            self._stop.wait(max(self._period_s - (time.perf_counter() - began), 0.0))

    def sample(self) -> None:
        """Read every field that can be read, now."""
        if self._device is None:
            return
        start_s = self._clock()
        values = {name: value for name in READERS if (value := self._read(name)) is not None}
        self._samples.append(_Sample(start_s, self._clock(), values))
        if "energy_j" in values:
            self._energy_j.append((start_s, values["energy_j"]))

    def _read_energy(self) -> float:
        now_s, value = self._clock(), self._read("energy_j")
        if value is not None:
            self._energy_j.append((now_s, value))
        return now_s

    def _read(self, name: str) -> Any:
        device = self._device
        if device is None or name in self._given_up:
            return None
        value, error = nvml.ask(lambda: READERS[name](device.nvml, device.handle))
        if error is not None:
            self._absent[name] = nvml.reason(error)
            if not nvml.may_pass(error):
                self._given_up.add(name)
        return value

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        """Name the time spent inside, for `telemetry(name)`."""
        start_s = self._clock()
        try:
            yield
        finally:
            self._marks[name] = (start_s, self._clock())

    def telemetry(self, mark: str | None = None) -> Telemetry:
        """What was read during a mark, or since the start."""
        if mark is not None:
            return self.between(*self._marks[mark])
        running = not self._stop.is_set()
        return self.between(self._start_s, self._clock() if running else self._end_s)

    def between(self, start_s: float, end_s: float) -> Telemetry:
        """What was read in samples that began and ended between two times of `clock`."""
        if self._device is None:
            return absent(self._unavailable)
        inside = [s for s in list(self._samples) if start_s <= s.start_s and s.end_s <= end_s]
        values, missing = _reduce(inside, start_s, end_s)
        values["energy_j"], missing["energy_j"] = self._energy_between(start_s, end_s)
        return Telemetry(
            **values,
            samples=len(inside),
            duration_s=end_s - start_s,
            whole_card=self._device.is_partition,
            note=_note(self._device),
            absent={
                name: self._absent.get(name, why)
                for name, why in missing.items()
                if values[name] is None
            },
        )

    def during(self, windows: Sequence[tuple[float, float]]) -> Telemetry:
        """What was read in several windows of time, such as one call's turns among others'.

        Windows closer than `period_s` count as one.
        """
        gap_s = self._period_s or 0.0
        return combined([self.between(*span) for span in _joined(windows, gap_s)])

    def _energy_between(self, start_s: float, end_s: float) -> tuple[float | None, str]:
        if end_s - start_s < _ENERGY_MIN_S:
            return None, f"too short: the energy counter needs {_ENERGY_MIN_S:g} s"
        if not self._stop.is_set() and all(t < end_s for t, _ in self._energy_j):
            self._read_energy()
        readings = sorted(self._energy_j)
        first, last = _interpolate(readings, start_s), _interpolate(readings, end_s)
        if first is None or last is None:
            return None, "the energy counter was not read over the whole window"
        if last <= first:
            return None, "the energy counter did not advance"
        return last - first, ""


def _joined(windows: Sequence[tuple[float, float]], gap_s: float) -> list[tuple[float, float]]:
    spans: list[tuple[float, float]] = []
    for start_s, end_s in sorted(windows):
        if spans and start_s - spans[-1][1] <= gap_s:
            spans[-1] = (spans[-1][0], max(end_s, spans[-1][1]))
        else:
            spans.append((start_s, end_s))
    return spans


def _reduce(
    inside: list[_Sample], start_s: float, end_s: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """One value a field out of samples, and for each field why it would be missing."""
    from statistics import fmean, median

    def column(name: str) -> list[Any]:
        return [s.values[name] for s in inside if name in s.values]

    seen = {name for names in column("limits") for name in names}
    # Early in the window an averaging counter still shows what ran before it.
    settled_w = [
        s.values["power_w"][0]
        for s in inside
        if "power_w" in s.values and s.start_s >= start_s + s.values["power_w"][1]
    ]
    clock, memory = column("sm_clock_hz"), column("memory_clock_hz")
    heat, link = column("temperature_c"), column("pcie")
    values = {
        "sm_clock_hz": median(clock) if clock else None,
        "memory_clock_hz": median(memory) if memory else None,
        "power_w": fmean(settled_w) if settled_w else None,
        "temperature_c": max(heat) if heat else None,
        "limits": tuple(n for _, n in LIMIT_BITS if n in seen) if column("limits") else None,
        "pcie": max(link) if link else None,
        "pcie_replays": max(column("pcie_replays"), default=None),
    }
    missing = dict.fromkeys(values, f"too short: no sample fell into {end_s - start_s:.3g} s")
    if column("power_w"):
        window_s = max(w for _, w in column("power_w"))
        missing["power_w"] = f"too short: the power counter averages over {window_s:g} s"
    return values, missing


def _interpolate(readings: list[tuple[float, float]], time_s: float) -> float | None:
    """The counter at a time inside the readings, linear between its neighbours."""
    for (t0, v0), (t1, v1) in itertools.pairwise(readings):
        if t0 <= time_s <= t1:
            return v0 + (v1 - v0) * ((time_s - t0) / (t1 - t0)) if t1 > t0 else v1
    return None


def _note(device: nvml.NvmlDevice) -> str:
    notes = []
    if device.found_by == "only device":
        notes.append("NVML knows no such UUID; these are the counters of its only device.")
    if device.is_partition:
        notes.append("A MIG partition: clocks, power and heat are those of the whole card.")
    return " ".join(notes)
