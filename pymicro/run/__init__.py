"""A plan becomes results, one at a time. Each case is checked before it is timed, and ends as
ok, skipped or failed, the last two with a reason.

`planning` makes the cases, `preparing` checks one, `phases` samples it, `loop` goes through all.
"""

from pymicro.run.context import Context, Options
from pymicro.run.loop import run
from pymicro.run.planning import cases, is_vendor, problems, why_not_dtype
from pymicro.run.preparing import skipped

__all__ = [
    "Context",
    "Options",
    "cases",
    "is_vendor",
    "problems",
    "run",
    "skipped",
    "why_not_dtype",
]
