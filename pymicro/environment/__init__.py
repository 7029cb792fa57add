"""What was true of the machine while we measured, as a dict for the record.

Only what is listed is taken. No host name, no user name, no path: a node is a salted hash or the
user's own label. A fact that cannot be read is None, with its reason under `absent`.
"""

from __future__ import annotations

import os
from typing import Any

from pymicro import nvml
from pymicro.environment.gpu import driver_facts, gpu_facts
from pymicro.environment.host import host_facts, is_container, software, versions
from pymicro.environment.node import node_name
from pymicro.environment.variables import allowed_variables
from pymicro.errors import Unavailable

__all__ = ["capture", "is_container", "node_name"]


def capture(
    device_uuid: str | None,
    pci_bus_id: str | None = None,
    *,
    label: str | None = None,
    binding: Any = None,
) -> dict[str, Any]:
    """Facts of this machine now, plain values; `gpu` is None where the CPU is measured.

    Raises:
        UsageError: the label cannot be one.
    """
    driver, absent = driver_facts(binding)
    gpu = None
    if device_uuid or pci_bus_id:
        try:
            gpu, missing = gpu_facts(nvml.find(device_uuid, pci_bus_id, binding))
            absent |= missing
        except Unavailable as error:
            absent["gpu"] = str(error)
    return {
        "node": node_name(label),
        "software": software(),
        "versions": versions(),
        "host": host_facts(),
        "driver": driver,
        "gpu": gpu,
        "variables": allowed_variables(os.environ),
        "absent": absent,
    }
