"""Results: what one case gave, what follows from it, and the file that keeps it.

A result keeps every sample and never changes; medians and rates are computed on reading.
"""

from pymicro.results.findings import Finding
from pymicro.results.latest import latest
from pymicro.results.locks import device_lock
from pymicro.results.record import SCHEMA, Result, Verified, new_run_id, now_utc
from pymicro.results.store import Reading, Store, default_path
from pymicro.results.summary import summary

__all__ = [
    "SCHEMA",
    "Finding",
    "Reading",
    "Result",
    "Store",
    "Verified",
    "default_path",
    "device_lock",
    "latest",
    "new_run_id",
    "now_utc",
    "summary",
]
