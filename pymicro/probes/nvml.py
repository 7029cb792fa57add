"""Checks of NVML and of the monitor program: telemetry that fails is missing telemetry."""

from __future__ import annotations

from collections.abc import Iterator

from pymicro.probes.evidence import Evidence
from pymicro.probes.quote import quote
from pymicro.results.findings import Finding

_NO_TELEMETRY = "benchmarks go on, without clocks, power and limits in their results"
_RELOAD = "reboot, or unload and reload the kernel module nvidia"


def nvml(e: Evidence) -> Iterator[Finding]:
    """Whether NVML answers, and if not, what its error means."""
    report = e.nvml_report
    error = report.facts.get("nvml_error")
    reason = e.view.reason or ""
    if not report.is_installed:
        seen = "the NVML binding (nvidia-ml-py) is not installed"
        yield Finding("nvml-absent", "warning", seen, _NO_TELEMETRY, "pip install nvidia-ml-py")
    elif report.ended in ("crash", "timeout"):
        seen = f"NVML does not come back: {report.how} ({report.step})"
        yield Finding("nvml-hangs", "error", seen, _NO_TELEMETRY, _RELOAD)
    elif error == 18 or "different versions" in reason or e.monitor.trouble == "mismatch":
        seen = "the kernel module and the driver library have different versions"
        why = f"the driver was updated without a reboot; {_NO_TELEMETRY}"
        yield Finding("nvml-mismatch", "error", seen, why, _RELOAD)
    elif not e.view.gpus and e.devices:
        seen = f"CUDA shows a GPU and NVML none: {quote(reason, e.env)}"
        do = "give the container the capability `utility` (NVIDIA_DRIVER_CAPABILITIES)"
        yield Finding("nvml-no-device", "warning", seen, _NO_TELEMETRY, do)
    for gpu in e.view.gpus:
        if len(gpu.missing) and "handle" in gpu.missing:
            seen = f"GPU {gpu.index} of NVML does not answer: {quote(gpu.missing['handle'], e.env)}"
            do = "look at dmesg for Xid lines; the card may have fallen off the bus"
            yield Finding("gpu-lost", "error", seen, "it cannot be used until it is reset", do)


def monitor(e: Evidence) -> Iterator[Finding]:
    """Whether the monitor program (nvidia-smi) works; other tools depend on it, we do not."""
    said = e.monitor
    if said.trouble in ("hangs", "fails"):
        yield Finding(
            "monitor-fails",
            "warning",
            f"nvidia-smi {said.trouble}: {quote(said.said, e.env)}",
            "scripts that call it fail; pymicro asks NVML instead",
            "look at dmesg for Xid lines",
        )
    elif not said.trouble and e.view.gpus and len(said.rows) != len(e.view.gpus):
        seen = f"nvidia-smi lists {len(said.rows)} GPU(s), NVML {len(e.view.gpus)}"
        why = "one of them belongs to another driver or is a wrapper"
        yield Finding("monitor-differs", "warning", seen, why, "check which nvidia-smi is first")
