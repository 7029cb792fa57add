"""The devices of this machine: from a word such as `auto` or `cuda:1` to one device with its spec.

On a machine that has an NVIDIA GPU, `auto` is that GPU or an error with its remedy; it is the CPU
only where there is no GPU or where the user hid all of them, and then the note says so.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymicro.devices import cpu
from pymicro.devices.catalogue import catalogue
from pymicro.devices.cuda_gpus import cuda_gpus, join
from pymicro.devices.identify import Identification, identify
from pymicro.devices.mask import Mask, parse_mask
from pymicro.devices.nvml import LocalGpu, NvmlView, look
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import Unavailable, UsageError

_CUDA_WORD = re.compile(r"(?:cuda|gpu)(?::(\d+))?")
_UUID_WORD = re.compile(r"(?:gpu|mig)-[0-9a-f/-]+(?:gpu-[0-9a-f/-]+)?")
_MASK = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Device:
    """What will be measured.

    Attributes:
        kind: `cuda` or `cpu`.
        index: CUDA ordinal in this process, None for the CPU.
        spec: what it can do on paper; None for a GPU of which nothing is known.
        note: how it was chosen and identified.
        gpu: what the driver says of it, None for the CPU.
    """

    kind: str
    index: int | None
    name: str
    spec: DeviceSpec | cpu.CpuSpec | None
    note: str
    warnings: tuple[str, ...] = ()
    gpu: LocalGpu | None = None
    driver_version: str | None = None

    @property
    def word(self) -> str:
        """The word that names it on the command line."""
        return self.kind if self.index is None else f"{self.kind}:{self.index}"

    @property
    def capability(self) -> tuple[int, int] | None:
        return None if self.gpu is None else self.gpu.capability


@dataclass(frozen=True)
class Machine:
    """Where answers come from; tests put their own in.

    Attributes:
        cuda_gpus: asks the CUDA driver, without a context; raises Unavailable.
        has_bindings: whether the CUDA extra is installed.
    """

    env: Mapping[str, str]
    nvml: Any = None
    root: Path = Path("/")
    cuda_gpus: Callable[[], list[LocalGpu]] = cuda_gpus
    has_bindings: Callable[[], bool] = lambda: _has_bindings()


def this_machine() -> Machine:
    return Machine(os.environ)


def resolve(
    word: str = "auto",
    machine: Machine | None = None,
    specs: Mapping[str, DeviceSpec] | None = None,
) -> Device:
    """The device that `auto`, `cpu`, `cuda`, `cuda:N` or a GPU's UUID (or its start) means.

    Raises:
        UsageError: no such form of word.
        Unavailable: the device is not there or cannot be used, in one sentence with the remedy.
    """
    machine = this_machine() if machine is None else machine
    word = word.strip()
    wanted = _wanted(word)
    if wanted == "cpu":
        return _cpu("the CPU was asked for")
    view = look(machine.nvml)
    proof = gpu_proof(view, machine.root)
    if proof is None:
        reason = view.reason or "NVML shows no GPU"
        if wanted == "auto":
            return _cpu(f"no NVIDIA GPU: {reason}{_unused_card(machine.root)}")
        raise Unavailable(f"{word}: there is no NVIDIA GPU here: {reason}.")
    mask = _mask(machine.env, view)
    if wanted == "auto" and mask is not None and mask.hides_on_purpose:
        return _cpu(f"all GPUs are hidden by {_MASK}='{machine.env[_MASK]}'")
    _refuse_hidden(machine.env, mask, view)
    if not view.gpus and not (machine.root / "dev/nvidia0").exists():
        raise Unavailable(
            "the NVIDIA kernel driver is loaded, but this process has no access to a GPU "
            f"(/dev/nvidia0 is missing; {view.reason}); start the container with GPU access, "
            "or say --device cpu."
        )
    if not machine.has_bindings():
        raise Unavailable(
            f"this machine has an NVIDIA GPU ({proof}), but the CUDA part of pymicro is not "
            f"installed; {install_line(view, machine.root)} adds it, --device cpu does without."
        )
    seen = machine.cuda_gpus()
    return _device(_pick(word, wanted, seen, view), view, specs)


def inventory(
    machine: Machine | None = None, specs: Mapping[str, DeviceSpec] | None = None
) -> tuple[NvmlView, list[tuple[LocalGpu, Identification]]]:
    """Every GPU that NVML shows, masked or not, each with its row; needs no CUDA."""
    machine = this_machine() if machine is None else machine
    specs = catalogue() if specs is None else specs
    view = look(machine.nvml)
    return view, [(gpu, identify(gpu, specs)) for gpu in view.gpus]


def gpu_proof(view: NvmlView, root: Path = Path("/")) -> str | None:
    """What shows that this machine has an NVIDIA GPU with a driver, None if nothing does."""
    if view.gpus:
        named = view.gpus[0].name or "unnamed"
        return named if len(view.gpus) == 1 else f"{named} and {len(view.gpus) - 1} more"
    for path in ("proc/driver/nvidia/version", "dev/nvidia0"):
        if (root / path).exists():
            return f"/{path} exists"
    return None


def install_line(view: NvmlView, root: Path = Path("/")) -> str:
    """The pip line for this machine's driver and GPUs.

    CUDA 13 needs a driver that reports it, and dropped compute capabilities below 7.5.
    """
    old = any(g.capability is not None and g.capability < (7, 5) for g in view.gpus)
    newest = view.cuda_version or _cuda_of_driver(root)
    if newest is None and not old:
        return 'pip install "pymicro-gpu[cuda13]" (driver 580 or newer) or "pymicro-gpu[cuda12]"'
    extra = "cuda13" if newest is not None and newest >= (13, 0) and not old else "cuda12"
    return f'pip install "pymicro-gpu[{extra}]"'


def _cuda_of_driver(root: Path) -> tuple[int, int] | None:
    """From /proc where NVML is broken: branch 580 is the first that runs CUDA 13."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(errors="replace")
    except OSError:
        return None
    branch = re.search(r"\b(\d{3})\.\d+", text)
    return None if branch is None else (13, 0) if int(branch[1]) >= 580 else (12, 0)


def _unused_card(root: Path) -> str:
    """A hint on a card that is plugged in but has no driver."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
        except OSError:
            continue
        # PCI vendor 10DE is NVIDIA, class 03 a display controller.
        if vendor.strip() == "0x10de" and kind.startswith("0x03"):
            return "; an NVIDIA card is plugged in, but its driver is not at work"
    return ""


def is_a_gpu_here(word: str) -> bool:
    """Whether a word asks for a GPU of this machine (`cuda:0`, a UUID), not for a kind of card."""
    lower = word.strip().lower()
    return bool(_CUDA_WORD.fullmatch(lower) or _UUID_WORD.fullmatch(lower))


def _wanted(word: str) -> str | int:
    """`auto`, `cpu`, a CUDA ordinal, or a UUID as it was written."""
    lower = word.lower()
    if lower in ("auto", "cpu"):
        return lower
    if match := _CUDA_WORD.fullmatch(lower):
        return int(match[1] or 0)
    if _UUID_WORD.fullmatch(lower):
        return word
    hint = "; to look a card up, `pymicro devices NAME`" if re.search(r"\d{2}", word) else ""
    raise UsageError(f"unknown device '{word}'; write auto, cpu, cuda:0 or a UUID GPU-…{hint}.")


def _mask(env: Mapping[str, str], view: NvmlView) -> Mask | None:
    """The mask applied to NVML's GPUs; None where NVML is broken and nothing can be said."""
    return parse_mask(env.get(_MASK), [g.uuid for g in view.gpus]) if view.gpus else None


def _refuse_hidden(env: Mapping[str, str], mask: Mask | None, view: NvmlView) -> None:
    if mask is None or mask.chosen or mask.mig:
        return
    if (mask.stopped_at or "").startswith("GPU-"):
        return  # In a vGPU guest CUDA may know UUIDs that NVML does not: CUDA decides.
    value = env.get(_MASK, "")
    if mask.hides_on_purpose:
        raise Unavailable(f"all GPUs are hidden by {_MASK}='{value}'.")
    raise Unavailable(
        f"{_MASK}='{value}' leaves no GPU visible: CUDA stops reading at '{mask.stopped_at}' "
        f"(unknown, ambiguous or twice), and this machine has {len(view.gpus)} GPU(s)."
    )


def _pick(word: str, wanted: str | int, seen: Sequence[LocalGpu], view: NvmlView) -> LocalGpu:
    if wanted == "auto":
        wanted = 0
    if isinstance(wanted, int):
        if wanted < len(seen):
            return seen[wanted]
        raise Unavailable(f"{word} does not exist; this process sees {len(seen)} GPU(s).")
    folded = wanted.casefold()
    hits = [g for g in seen if g.uuid is not None and g.uuid.casefold().startswith(folded)]
    if len(hits) == 1:
        return hits[0]
    if hits:
        raise Unavailable(f"'{word}' is the start of {len(hits)} UUIDs; write more of it.")
    if any(g.uuid is not None and g.uuid.casefold().startswith(folded) for g in view.gpus):
        raise Unavailable(f"{word} is in this machine, but {_MASK} hides it from this process.")
    raise Unavailable(f"{word} is no GPU of this machine; it has {_uuids(seen)}.")


def _uuids(seen: Sequence[LocalGpu]) -> str:
    return ", ".join(g.uuid for g in seen if g.uuid) or "none that tells its UUID"


def _device(chosen: LocalGpu, view: NvmlView, specs: Mapping[str, DeviceSpec] | None) -> Device:
    gpu, matched = join(chosen, view)
    found = identify(gpu, specs)
    name = found.spec.name if found.spec and not found.spec.computed else gpu.name
    note = found.how + (f"; {matched}" if matched else "")
    return Device(
        "cuda",
        gpu.cuda_index,
        name or "unnamed GPU",
        found.spec,
        note,
        found.warnings,
        gpu,
        view.driver_version,
    )


def _cpu(note: str) -> Device:
    spec = cpu.describe_cpu()
    return Device("cpu", None, spec.name, spec, note)


def _has_bindings() -> bool:
    try:
        return importlib.util.find_spec("cuda.bindings.driver") is not None
    except ModuleNotFoundError:
        return False
