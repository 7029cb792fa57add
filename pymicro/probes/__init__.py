"""What doctor and readiness look at: small checks in a table, each with its findings.

A check takes the evidence and yields findings: what was seen, why it matters, what to do. Adding
a check is adding a function and a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pymicro.probes import compilers, driver, gpus, host, libraries, nvml, paths
from pymicro.probes.evidence import Evidence
from pymicro.results.findings import Finding

__all__ = ["CHECKS", "Check", "Evidence", "examine"]


@dataclass(frozen=True)
class Check:
    """One row. `needs_gpu`: left out where no GPU is, which `driver` then says once."""

    find: Callable[[Evidence], Iterable[Finding]]
    needs_gpu: bool = False


CHECKS = (
    Check(driver.driver),
    Check(driver.mask, needs_gpu=True),
    Check(nvml.nvml, needs_gpu=True),
    Check(nvml.monitor, needs_gpu=True),
    Check(gpus.gpus, needs_gpu=True),
    Check(host.numa, needs_gpu=True),
    Check(host.iommu, needs_gpu=True),
    Check(host.counters, needs_gpu=True),
    Check(driver.libraries_against_driver, needs_gpu=True),
    Check(host.busy),
    Check(libraries.libraries),
    Check(libraries.torch_build),
    Check(driver.ptx, needs_gpu=True),
    Check(compilers.nvrtc_target, needs_gpu=True),
    Check(compilers.triton_assemblers),
    Check(compilers.toolkit),
    Check(compilers.host_compiler),
    Check(compilers.native_module),
    Check(paths.loader_path),
    Check(paths.wheels),
    Check(paths.two_cupys),
    Check(paths.toolkit_variables),
    Check(host.governor),
    Check(host.virtual),
    Check(host.pinned_memory),
)


def examine(e: Evidence, checks: Iterable[Check] = CHECKS) -> Iterator[Finding]:
    """The findings of all checks that apply, in the order of the table."""
    for check in checks:
        if not check.needs_gpu or has_gpu(e):
            yield from _guarded(check, e)


def has_gpu(e: Evidence) -> bool:
    """Whether there is a GPU or a driver to speak of, working or not."""
    return bool(e.devices or e.marks or "library" in e.driver.facts or e.view.gpus)


def _guarded(check: Check, e: Evidence) -> Iterator[Finding]:
    """A check that fails is itself a finding, and does not take the others with it."""
    try:
        yield from check.find(e)
    except Exception as error:
        name = check.find.__name__
        yield Finding(
            f"check-failed-{name.replace('_', '-')}",
            "error",
            f"the check '{name}' failed with {type(error).__name__}",
            "what it looks at is not known; this is a fault of pymicro",
            "report it with the output of `pymicro doctor --format json`",
        )
