"""NVML, NVIDIA's monitoring library: opening it, and finding the device that CUDA means.

What is asked of a device lives with the askers. A device is never found by index: NVML ignores
CUDA_VISIBLE_DEVICES and orders by bus, CUDA by speed, so the same number means two cards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pymicro.errors import Unavailable

_REASONS = {
    1: "NVML is not initialised",
    2: "this driver does not accept the question",
    3: "not supported by this device",
    4: "no permission",
    6: "not found",
    9: "the NVIDIA kernel module is not loaded",
    10: "the driver did not answer in time",
    12: "no NVIDIA driver is installed (its library libnvidia-ml is missing)",
    13: "this driver is too old to offer it",
    15: "the GPU has fallen off the bus or is otherwise lost",
    16: "the GPU needs a reset",
    17: "the operating system blocks access to the GPU",
    18: "the kernel module and the driver library have different versions; reboot or reload "
    "the module",
    25: "this driver expects another version of the question",
    999: "the driver answers 'unknown error'",
}
# Busy, not ready, timed out, no data yet, unknown: these may pass, all others stay.
_PASSING = {10, 19, 21, 27, 999}
_NOT_AVAILABLE = {2**32 - 1, 2**64 - 1}  # NVML_VALUE_NOT_AVAILABLE in its two widths.


class NoValue(Exception):
    """The driver answered, but with its mark for 'no value' or with an impossible zero."""


@dataclass(frozen=True)
class NvmlDevice:
    """A device handle. `found_by` says how sure we are that it is the device CUDA uses.

    Attributes:
        nvml: the initialised binding.
        handle: what most questions take; the whole card's where the device is a MIG partition.
        is_partition: the CUDA device is a MIG partition of the card behind `handle`.
    """

    nvml: Any
    handle: Any
    found_by: Literal["uuid", "pci bus id", "only device"]
    is_partition: bool = False


def reason(error: Exception) -> str:
    """What an error of the binding means, in plain words and without paths."""
    if isinstance(error, NoValue):
        return str(error)
    if isinstance(error, AttributeError):
        return "the installed nvidia-ml-py is too old to ask"
    code = getattr(error, "value", None)
    if code is None:
        return f"NVML failed with {type(error).__name__}"
    return _REASONS.get(code, f"NVML answers error {code}")


def may_pass(error: Exception) -> bool:
    """Whether asking again later can succeed."""
    return isinstance(error, NoValue) or getattr(error, "value", None) in _PASSING


def positive(value: int) -> int:
    """Return `value`, a clock, power, limit or count that cannot truly be zero.

    Raises:
        NoValue: it is zero or NVML's mark for 'not available'.
    """
    if value in _NOT_AVAILABLE:
        raise NoValue("the driver marks it as not available")
    if value <= 0:
        raise NoValue("the driver answers 0")
    return value


def ask(question: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The answer and None, or None and the error."""
    # The binding raises far more than its own error: a library of another version can miss
    # symbols or misread structures. No telemetry is worth the measurement beside it.
    try:
        return question(), None
    except Exception as error:
        return None, error


def initialise(binding: Any = None) -> tuple[Any, str | None]:
    """The initialised binding (`pynvml`) and None, or None and why not; again costs nothing."""
    if binding is None:
        try:
            import pynvml
        except ImportError:
            return None, "its binding nvidia-ml-py is not installed"
        except Exception as broken:  # A broken package raises anything while it loads.
            return None, f"its binding does not import ({type(broken).__name__})"
        binding = pynvml
    _, error = ask(lambda: binding.nvmlInit())
    if isinstance(error, AttributeError):
        return None, "the package pynvml found is not NVIDIA's binding (nvidia-ml-py)"
    return (binding, None) if error is None else (None, reason(error))


def open_nvml(binding: Any = None) -> Any:
    """The initialised binding.

    Raises:
        Unavailable: not installed, no driver, version mismatch or no permission.
    """
    nvml, why = initialise(binding)
    if why is not None:
        raise Unavailable(f"NVML cannot be read: {why}.")
    return nvml


def find(uuid: str | None, pci_bus_id: str | None = None, binding: Any = None) -> NvmlDevice:
    """Find the device CUDA calls `uuid`, else by PCI address, else the only one there is.

    A guest's UUIDs differ from those of the physical card (vGPU), hence the other two ways.

    Raises:
        Unavailable: NVML does not open, or which of several devices is meant cannot be told.
    """
    nvml = open_nvml(binding)
    if uuid:
        handle, error = ask(lambda: nvml.nvmlDeviceGetHandleByUUID(uuid))
        if error is None:
            return _whole_card(nvml, handle)
    if pci_bus_id:
        handle, error = ask(lambda: nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id))
        if error is None:
            return NvmlDevice(nvml, handle, "pci bus id")
    count, error = ask(nvml.nvmlDeviceGetCount)
    if error is None and count == 1:
        handle, error = ask(lambda: nvml.nvmlDeviceGetHandleByIndex(0))
        if error is None:
            return NvmlDevice(nvml, handle, "only device")
    if error is not None:
        raise Unavailable(f"NVML does not find the device: {reason(error)}.")
    raise Unavailable(f"NVML sees {count} devices, and none by the UUID or PCI address CUDA gives.")


def _whole_card(nvml: Any, handle: Any) -> NvmlDevice:
    # Most counters exist for whole cards only and answer 'not supported' for a partition.
    is_partition, _ = ask(lambda: nvml.nvmlDeviceIsMigDeviceHandle(handle))
    if not is_partition:
        return NvmlDevice(nvml, handle, "uuid")
    card, error = ask(lambda: nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))
    return NvmlDevice(nvml, handle if error else card, "uuid", is_partition=True)
