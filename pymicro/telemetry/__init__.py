"""Clocks, power, heat and limits of a GPU while something runs on it, read beside it by a thread.

It reports and does not judge. A field that cannot be read is None and its reason is kept once; it
is never zero and never costs the other fields. No NVML at all leaves every field absent.
"""

from pymicro.telemetry.counters import limits_of
from pymicro.telemetry.record import FIELDS, SLOWDOWNS, Telemetry, absent
from pymicro.telemetry.sampler import Sampler

__all__ = ["FIELDS", "SLOWDOWNS", "Sampler", "Telemetry", "absent", "limits_of"]
