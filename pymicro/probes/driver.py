"""Checks of the driver: absent, without access, broken or too old are four different things."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pymicro.devices.mask import parse_mask
from pymicro.environment.host import is_container
from pymicro.probes.child import Report
from pymicro.probes.evidence import MASK, Evidence
from pymicro.results.findings import Finding
from pymicro.software import stacks
from pymicro.software.versions import Version, dotted, of_cuda, parse

_STARTS = {  # CUresult of cuInit: code, what it means, what to do.
    34: (
        "driver-stub",
        "the driver library found first is the toolkit's stub, made for linking only",
        "take the folder `stubs` off LD_LIBRARY_PATH",
    ),
    101: (
        "mask-wrong",
        f"{MASK} names a device that does not exist",
        f"set {MASK} to an index or UUID that `pymicro devices` shows",
    ),
    803: (
        "driver-mismatch",
        "the kernel module and the driver library have different versions",
        "reboot, or unload and reload the kernel module nvidia",
    ),
    999: (
        "driver-unknown-error",
        "the driver answers 'unknown error' when it starts",
        "reload the kernel module (nvidia_uvm first) or reboot; look at dmesg for Xid lines",
    ),
}


def driver(e: Evidence) -> Iterator[Finding]:
    """Whether CUDA starts and shows a device, and if not, why."""
    if not e.driver.is_ok:
        yield Finding(
            "driver-crash" if e.driver.ended != "timeout" else "driver-hangs",
            "error",
            f"asking the driver library ends in {e.driver.how} ({e.driver.step})",
            "every CUDA program on this machine would end there too",
            "look at dmesg for Xid lines; reinstall the driver, or reboot",
        )
    elif "library" not in e.driver.facts:
        yield _no_library(e)
    elif e.devices:
        yield _works(e)
    elif e.unmasked_driver.facts.get("devices"):
        count = len(e.unmasked_driver.facts["devices"])
        yield Finding(
            "gpus-hidden",
            "info",
            f"{MASK}='{e.env[MASK][:60]}' hides all {count} GPU(s) from this process",
            "nothing can run on them",
            f"unset {MASK} to use them",
        )
    else:
        yield _does_not_start(e)


def _no_library(e: Evidence) -> Finding:
    # The variable alone proves nothing: images of CUDA set it wherever they run.
    wanted = e.env.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("void", "none", "")
    if is_container(e.root, e.env) and (wanted or e.marks):
        return Finding(
            "container-no-gpu",
            "error" if e.marks else "warning",
            "this container has no NVIDIA driver library, "
            + (f"yet {e.marks[0]}" if e.marks else "though NVIDIA_VISIBLE_DEVICES asks for a GPU"),
            "it was started without access to the GPU, or its host has none",
            "start it with GPU access: `docker run --gpus all`, or the NVIDIA runtime class",
        )
    if e.marks:
        return Finding(
            "driver-absent",
            "error",
            f"no NVIDIA driver library can be loaded, yet {e.marks[0]}",
            "a GPU without a driver cannot be used",
            "install NVIDIA's driver (580 or newer serves CUDA 13), then reboot",
        )
    return Finding(
        "no-gpu",
        "info",
        "no NVIDIA GPU and no driver here",
        "the GPU checks were left out; CPU benchmarks, devices, show and all analysis work",
    )


def _works(e: Evidence) -> Finding:
    names = [d.get("name", "unnamed") for d in e.devices]
    named = names[0] if len(names) == 1 else f"{len(names)} devices, the first {names[0]}"
    compat = "may" if allows_forward_compatibility(names[0]) else "may not"
    return Finding(
        "driver-ok",
        "info",
        f"driver {e.driver_branch or 'of unknown version'} serves CUDA up to "
        f"{dotted(e.driver_cuda)}: {named}, compute capability {dotted(e.capability)}",
        f"forward compatibility packages {compat} be used with this class of card",
    )


def _does_not_start(e: Evidence) -> Finding:
    code = e.driver.facts.get("init")
    if code in _STARTS:
        name, seen, do = _STARTS[code]
        return Finding(name, "error", f"{seen} (CUDA error {code})", "no CUDA program starts", do)
    if code == 804:
        return _no_forward_compatibility(e)
    if code == 35:
        return Finding(
            "driver-too-old",
            "error",
            f"the driver ({e.driver_branch or 'version unknown'}) is older than the libraries need",
            "no CUDA program starts",
            "install a newer driver branch: 580 for CUDA 13, 525 for CUDA 12",
        )
    if code not in (0, 100):
        return Finding(
            "driver-start-failed",
            "error",
            f"the driver library does not start: CUDA error {code}",
            "no CUDA program starts",
            "look the number up as CUresult in NVIDIA's driver API; look at dmesg",
        )
    return _no_access(e)


def _no_access(e: Evidence) -> Finding:
    seen = f"the driver library loads (CUDA {dotted(e.driver_cuda)}), but it shows no device"
    if not (e.root / "dev/nvidia0").exists() and not (e.root / "dev/dxg").exists():
        seen += ", and /dev/nvidia0 is missing"
    where = "the container was started" if is_container(e.root, e.env) else "this process runs"
    return Finding(
        "driver-no-access",
        "error" if e.marks else "warning",
        seen,
        f"{where} without access to a GPU, or the machine has none",
        "start containers with `--gpus all`; ask the scheduler for a GPU; check the rights on "
        "/dev/nvidia*",
    )


def _no_forward_compatibility(e: Evidence) -> Finding:
    name = e.view.gpus[0].name if e.view.gpus else None
    allowed = name is not None and allows_forward_compatibility(name)
    return Finding(
        "driver-compat-refused",
        "error",
        f"a CUDA compatibility package is on the library path, and {name or 'this card'} refuses "
        "it (CUDA error 804)",
        "the package is older or newer than this driver accepts"
        if allowed
        else "compatibility packages work on data-centre cards only",
        "take the folder `compat` off LD_LIBRARY_PATH and update the driver of the host",
    )


def allows_forward_compatibility(name: str) -> bool:
    """Whether a card of this name is of the data-centre class, which alone may use the package.

    Source: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
    """
    return not re.search(r"geforce|titan|quadro|\brtx\b|\bgtx\b", name, re.IGNORECASE)


def mask(e: Evidence) -> Iterator[Finding]:
    """Whether CUDA_VISIBLE_DEVICES says what its writer meant."""
    value = e.env.get(MASK)
    if value is None or not e.view.gpus:
        return
    parsed = parse_mask(value, [g.uuid for g in e.view.gpus])
    if parsed.stopped_at is not None and not parsed.hides_on_purpose:
        yield Finding(
            "mask-stops",
            "warning",
            f"CUDA stops reading {MASK}='{value[:60]}' at '{parsed.stopped_at}'",
            "that entry is unknown, ambiguous or there twice, and all after it is left out",
            "write indices or UUIDs that `pymicro devices` shows",
        )
    elif e.devices:
        yield Finding("mask", "info", f"{MASK} shows {len(e.devices)} of {len(e.view.gpus)} GPU(s)")


def libraries_against_driver(e: Evidence) -> Iterator[Finding]:
    """Whether the driver is new enough for what each library was built with."""
    limit = e.driver_cuda
    if limit is None:
        return
    built = built_with(e.libraries)
    needed = {n: v for n, v in built.items() if v[0] > limit[0]}
    serves = f"the driver serves CUDA up to {dotted(limit)}"
    if needed:
        first = stacks.load().driver_for(max(needed.values()))
        yield Finding(
            "driver-too-old",
            "error",
            f"{serves}; built with a newer one: {_listed(needed)}",
            "these libraries fail with error 35, 'driver version is insufficient'",
            f"install driver {dotted(first)} or newer, or their builds for CUDA {limit[0]}",
        )
    elif built:
        seen = f"{serves}: new enough for {_listed(built)}"
        yield Finding("driver-new-enough", "info", seen)


def _listed(built: Mapping[str, Version]) -> str:
    return ", ".join(f"{name} ({dotted(version)})" for name, version in sorted(built.items()))


def built_with(reports: Mapping[str, Report]) -> dict[str, Version]:
    """The CUDA version that each installed library carries."""
    found: dict[str, Version | None] = {}
    for name, report in reports.items():
        told = report.facts.get("cuda")
        found[name] = parse(told) if isinstance(told, str) else of_cuda(told)
    return {name: version for name, version in found.items() if version is not None}


def ptx(e: Evidence) -> Iterator[Finding]:
    """Whether the driver reads the PTX that each JIT compiler hands it (error 222 if not)."""
    for name in ("numba", "cupy"):
        version = parse(_ptx_of(e, name))
        if version is not None and e.driver_cuda is not None:
            yield _ptx_finding(name, version, e.driver_cuda)


def _ptx_of(e: Evidence, name: str) -> str | None:
    """CuPy compiles with NVRTC, which writes the PTX of its own toolkit."""
    facts = e.libraries[name].facts
    if name == "cupy" and facts.get("nvrtc"):
        toolkit = stacks.load().toolkit(tuple(facts["nvrtc"]))
        return dotted(toolkit.ptx) if toolkit else None
    return facts.get("ptx")


def _ptx_finding(name: str, version: Version, limit: Version) -> Finding:
    reads = stacks.reads_ptx(limit, version)
    if reads:
        seen = f"{name} writes PTX {dotted(version)}, which the driver reads"
        return Finding(f"{name}-ptx-ok", "info", seen)
    needed = stacks.load().cuda_of_ptx(version)
    # CuPy asks for machine code of the chip and falls back on PTX only for chips newer than NVRTC.
    only = "; it writes machine code for chips that it knows" if name == "cupy" else ""
    return Finding(
        f"{name}-ptx-too-new",
        "info" if only else "error",
        f"{name} writes PTX {dotted(version)}, made for CUDA {dotted(needed)}; the driver reads "
        f"only that of CUDA {dotted(limit)}{only}",
        "such kernels fail with error 222; code that is compiled beforehand is not concerned",
        "update the driver, or install the CUDA "
        f"{dotted(limit)} builds of the compiler (NVRTC, NVVM) that {name} uses",
    )
