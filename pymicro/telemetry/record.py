"""What was read of a GPU in a window of time: values and the reasons for those that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FIELDS = (
    "sm_clock_hz",
    "memory_clock_hz",
    "power_w",
    "energy_j",
    "temperature_c",
    "limits",
    "pcie",
    "pcie_replays",
)
# Limits that spoil a measurement. A power cap does not: it is a state of the card to report.
SLOWDOWNS = frozenset({"thermal", "hw_slowdown", "power_brake"})


@dataclass(frozen=True)
class Telemetry:
    """What was read in a window of time.

    Attributes:
        sm_clock_hz: median; so is `memory_clock_hz`.
        power_w: mean, of those samples whose averaging began inside the window.
        energy_j: difference of the energy counter over the whole window, from 2 s on.
        temperature_c: the highest.
        limits: what held the clock down in any sample; empty if nothing did.
        pcie: highest link generation and width seen; an idle link reports less than it can.
        pcie_replays: packets sent again since the driver was loaded, as last read.
        samples: how many readings fell into the window.
        duration_s: length of the window.
        whole_card: the device is a MIG partition, and power, energy and heat are its card's.
        note: what else a reader must know about where the figures come from.
        absent: field without a value -> why.
    """

    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    limits: tuple[str, ...] | None = None
    pcie: tuple[int, int] | None = None
    pcie_replays: int | None = None
    samples: int = 0
    duration_s: float = 0.0
    whole_card: bool = False
    note: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Telemetry:
        """The inverse of `to_json`; keys of other versions are left out."""
        known = {k: v for k, v in document.items() if k in cls.__dataclass_fields__}
        for name in ("limits", "pcie"):
            if known.get(name) is not None:
                known[name] = tuple(known[name])
        return cls(**known)


def absent(why: str) -> Telemetry:
    """Telemetry of something that has none, every field with the same reason."""
    return Telemetry(absent=dict.fromkeys(FIELDS, why))


def combined(parts: Sequence[Telemetry]) -> Telemetry:
    """Several windows as one: clocks and power weighted by samples, energy summed if all have it.
    No window leaves every field absent.
    """
    if len(parts) < 2:
        return parts[0] if parts else absent("no window of time was given")

    def seen(name: str) -> list[tuple[Any, int]]:
        return [
            (getattr(p, name), max(p.samples, 1)) for p in parts if getattr(p, name) is not None
        ]

    def mean(name: str) -> float | None:
        values = seen(name)
        total = sum(weight for _, weight in values)
        return sum(v * weight for v, weight in values) / total if values else None

    def highest(name: str) -> Any:
        return max((v for v, _ in seen(name)), default=None)

    energies = [p.energy_j for p in parts]
    limits = list(dict.fromkeys(name for names, _ in seen("limits") for name in names))
    values = {
        "sm_clock_hz": mean("sm_clock_hz"),
        "memory_clock_hz": mean("memory_clock_hz"),
        "power_w": mean("power_w"),
        "energy_j": None if None in energies else sum(e for e in energies if e is not None),
        "temperature_c": highest("temperature_c"),
        "limits": tuple(limits) if seen("limits") else None,
        "pcie": highest("pcie"),
        "pcie_replays": highest("pcie_replays"),
    }
    return Telemetry(
        **values,
        samples=sum(p.samples for p in parts),
        duration_s=sum(p.duration_s for p in parts),
        whole_card=parts[0].whole_card,
        note=parts[0].note,
        absent={
            name: next((p.absent[name] for p in parts if name in p.absent), "no sample")
            for name, value in values.items()
            if value is None
        },
    )
