"""How far software serves a chip, layer by layer: from tables for a stack that is named, from what
the probes found for the one that is installed.

What needs a measurement (which kernel a library really launches, the library gap, the generation
gap) is read from stored results; its rows are of the same kind, with `profiler` as evidence.
"""

from pymicro.analysis.readiness.from_measured import with_measured
from pymicro.analysis.readiness.installed import Installed, for_machine, installed
from pymicro.analysis.readiness.named import for_stack, parse_stack
from pymicro.analysis.readiness.rows import Readiness, Row

__all__ = [
    "Installed",
    "Readiness",
    "Row",
    "for_machine",
    "for_stack",
    "installed",
    "parse_stack",
    "with_measured",
]
