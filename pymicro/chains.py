"""How long a pointer chase is: what the benchmark counts and what backends walk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Params = Mapping[str, Any]
# Loads of the device code's unrolled loop; a walk is a whole number of them.
STEPS_A_ROUND = 32
# A GPU's kernel finds its L1 empty and must fill it before the first hit, so a chain that fits is
# walked long enough for that to be lost in the total. A CPU keeps its caches from walk to walk, and
# short walks are less often interrupted.
_FITS_L1_BYTES = 2**18
_STEPS = {"small": 2**20, "large": 2**16}
# In shared memory a place is one address, of 64 bits if it may lie in another block.
_PLACE_BYTES = {"shared": 4, "dsmem": 8}


def is_on_chip(params: Params) -> bool:
    return params.get("where") in _PLACE_BYTES


def places(params: Params) -> int:
    """Places of the chain."""
    return params["size"] // place_bytes(params)


def steps(params: Params) -> int:
    """Dependent loads of one call."""
    on_gpu = params.get("where") not in (None, "host")
    is_small = on_gpu and params["size"] <= _FITS_L1_BYTES
    return _STEPS["small" if is_small else "large"] // (16 if params.get("where") == "host" else 1)


def place_bytes(params: Params) -> int:
    """Bytes from one place to the next."""
    return _PLACE_BYTES[params["where"]] if is_on_chip(params) else params["stride"]
