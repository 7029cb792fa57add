"""What one case gave, checked when it is made and never changed. Statistics are not kept here."""

from __future__ import annotations

import json
import math
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pymicro.telemetry import Telemetry

SCHEMA = 1
Outcome = Literal["ok", "skipped", "failed"]
Cache = Literal["hot", "cold"]


@dataclass(frozen=True)
class Verified:
    """The check before timing. `error` is None where it is not finite: NaN or infinite output."""

    reference: str
    error: float | None
    tolerance: float

    def __post_init__(self) -> None:
        if self.error is not None and not math.isfinite(self.error):
            object.__setattr__(self, "error", None)
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError(f"tolerance {self.tolerance!r} is not a finite number from 0")

    @property
    def passed(self) -> bool:
        return self.error is not None and self.error <= self.tolerance


@dataclass(frozen=True)
class Result:
    """One case: who, what, where, whether it was right, and every sample in order.

    Attributes:
        params: axes of the case, as `Case.params`.
        device: what was measured (name, sm_count, …); no host name, user name or path.
        environment: what `environment.capture` gave.
        reason: why it was skipped or failed, in plain words; None if ok.
        flop: operations of one call; so are `bytes` (once per direction) and `steps`.
        times_s: seconds a call in the steady state: sustained load, or whatever has no burst.
        burst_s: seconds a call in the burst that follows idling; one of the two may be empty.
        sample_sm_clock_hz: SM clock beside each of `samples_s`, None where it was not read.
        telemetry: read while `samples_s` were taken.
        burst_telemetry: read while `burst_s` were taken, if both phases were measured.
        fill: how inputs were drawn (`normal`, `zeros`, …): the power drawn depends on it.
        timer: what took the times (`events`, `host`, …).
        details: what the backend and the sampling loop say of the run: kernel, versions, repeats.
        notes: sentences for a reader.
        run_id: the same for all results of one command.
        extra: fields of a record that this version does not know; they are written back.
    """

    benchmark: str
    backend: str
    variant: str
    dtype: str
    accumulate: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome = "ok"
    reason: str | None = None
    verified: Verified | None = None
    flop: int = 0
    bytes: int = 0
    steps: int = 0
    times_s: tuple[float, ...] = ()
    burst_s: tuple[float, ...] = ()
    sample_sm_clock_hz: tuple[float | None, ...] | None = None
    telemetry: Telemetry | None = None
    burst_telemetry: Telemetry | None = None
    cache: Cache = "hot"
    fill: str = ""
    seed: int | None = None
    timer: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    created_utc: str = field(default_factory=lambda: now_utc())
    run_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("benchmark", "backend", "variant", "dtype"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"a result needs its {name}")
        for name in ("params", "device", "environment", "details", "extra"):
            object.__setattr__(self, name, _plain(name, getattr(self, name)))
        for name in ("times_s", "burst_s"):
            object.__setattr__(self, name, _seconds(name, getattr(self, name)))
        if isinstance(self.notes, str) or not all(isinstance(n, str) for n in self.notes):
            raise ValueError("notes is not a list of sentences")
        object.__setattr__(self, "notes", tuple(self.notes))
        self._check_work()
        self._check_outcome()
        self._check_clocks()

    def _check_work(self) -> None:
        for name in ("flop", "bytes", "steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} {value!r} is not a count")
        if self.cache not in get_args(Cache):
            raise ValueError(f"cache {self.cache!r} is none of {get_args(Cache)}")

    def _check_outcome(self) -> None:
        if self.outcome not in get_args(Outcome):
            raise ValueError(f"outcome {self.outcome!r} is none of {get_args(Outcome)}")
        if self.outcome == "ok":
            if not self.samples_s:
                raise ValueError("an ok result needs times")
            if self.reason is not None:
                raise ValueError("an ok result has no reason")
            if self.verified and not self.verified.passed:
                raise ValueError("a wrong answer has no time: it is failed, not ok")
        else:
            if not self.reason:
                raise ValueError(f"a {self.outcome} result needs a reason")
            if self.samples_s:
                raise ValueError(f"a {self.outcome} result carries no times")

    def _check_clocks(self) -> None:
        if self.sample_sm_clock_hz is None:
            return
        clocks = tuple(self.sample_sm_clock_hz)
        if len(clocks) != len(self.samples_s):
            raise ValueError("sample_sm_clock_hz needs one entry for each sample")
        if not all(c is None or _is_positive(c) for c in clocks):
            raise ValueError("sample_sm_clock_hz holds something other than a clock or None")
        object.__setattr__(self, "sample_sm_clock_hz", clocks)

    @property
    def samples_s(self) -> tuple[float, ...]:
        """What the headline rests on: the steady samples, or the burst's if there are no others."""
        return self.times_s or self.burst_s

    @property
    def phase(self) -> Literal["steady", "burst"]:
        """To which phase `samples_s` belong."""
        return "steady" if self.times_s or not self.burst_s else "burst"

    def to_json(self) -> dict[str, Any]:
        """A record of plain values, with the schema number first."""
        record = {"schema": SCHEMA} | {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("telemetry", "burst_telemetry"):
            record[name] = record[name] and record[name].to_json()
        record["verified"] = self.verified and asdict(self.verified)
        return record.pop("extra") | record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Result:
        """The inverse of `to_json`. Fields that are not known go to `extra`.

        Raises:
            ValueError: something is missing or cannot be; the caller has checked the schema.
        """
        known = {f.name for f in fields(cls)} - {"extra"}
        values: dict[str, Any] = {k: v for k, v in record.items() if k in known}
        try:
            for name in ("telemetry", "burst_telemetry"):
                values[name] = values.get(name) and Telemetry.from_json(values[name])
            values["verified"] = values.get("verified") and Verified(**values["verified"])
            # `summary` is derived: a JSON document carries it for readers, and we compute it.
            rest = {k: v for k, v in record.items() if k not in known | {"schema", "summary"}}
            return cls(**values, extra=rest)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not a result: {error}") from error


def now_utc() -> str:
    """This second, like `2026-12-01T09:30:00Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id() -> str:
    """A random name for one command's results; it says nothing of who or where."""
    return secrets.token_hex(6)


def _is_positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value <= sys.float_info.max


def _seconds(name: str, values: Iterable[float]) -> tuple[float, ...]:
    values = tuple(values)
    for value in values:
        if not _is_positive(value):
            raise ValueError(f"{name} holds {value!r}, which is not a finite positive time")
    return tuple(float(v) for v in values)


def _plain(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    # Through JSON and back: a copy that nobody else holds, equal to what a reader will see.
    try:
        copy = json.loads(json.dumps(dict(values), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not plain JSON: {error}") from error
    return copy
