"""What the operations on long arrays are, for all who measure them: their inputs, how many arrays
they move, how often small arrays are gone through, and where a gather reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Params = Mapping[str, Any]
# Operation -> arrays that it reads. In BabelStream's words, with c for the result:
# read: sums of a. write: c = s. copy: c = a. scale: c = s a. add: c = a + b. triad: c = a + s b.
# dot: sums of a b.
INPUTS = {"read": 1, "write": 0, "copy": 1, "scale": 1, "add": 2, "triad": 2, "dot": 2}
# A reduction leaves this many partial sums, unused ones zero; all of them together are the sum.
PARTIALS = 4096
# What they are added up in, by format.
SUMS = {
    "fp64": "fp64",
    "fp32": "fp32",
    "fp16": "fp32",
    "bf16": "fp32",
    "int32": "int32",
    "int8": "int32",
}
# s, exact in every format.
SCALARS = {"fp64": 0.375, "fp32": 0.375, "fp16": 0.375, "bf16": 0.375, "int32": 3, "int8": 3}

ON_CHIP = ("l1", "shared", "dsmem")
# Arrays that a last-level cache may hold are gone through until so many bytes were moved, lest the
# launch be longer than the work; the largest L2 of a GPU so far is about half of the first figure.
_CACHED_BELOW_BYTES = 2**28
_BYTES_A_CALL = {"cuda": 2**32, "cpu": 2**28}
# A pass of a whole GPU takes the latency of L2 at least, however little it reads.
_MOST_PASSES = {"cuda": 2**14, "cpu": 2**26}
_BYTES_A_CALL_AND_SM = 2**29


def inputs_of(op: str) -> int:
    return INPUTS[op]


def is_reduction(op: str) -> bool:
    return op in ("read", "dot")


def arrays_moved(op: str) -> int:
    """Arrays that an operation reads and writes, each counted once."""
    return INPUTS[op] + (0 if is_reduction(op) else 1)


def passes(params: Params) -> int:
    """How often one call goes through its arrays."""
    if params.get("level", "memory") in ON_CHIP:
        return max(1, _BYTES_A_CALL_AND_SM // params["size"])
    moved = arrays_moved(params["op"]) * params["size"]
    if params.get("access", "sequential") != "sequential" or moved >= _CACHED_BELOW_BYTES:
        return 1
    kind = "cuda" if "sms" in params else "cpu"
    return min(-(-_BYTES_A_CALL[kind] // moved), _MOST_PASSES[kind])


def shuffled(i: np.ndarray, count: int) -> np.ndarray:
    """The permutation of `count` numbers that `csrc/cuda/bandwidth/gather.cu` reads in."""
    import numpy as np

    bits = max(int(count - 1).bit_length(), 1)
    i = i.astype(np.uint64)
    result = _mix(i, bits)
    while (outside := result >= np.uint64(count)).any():
        result[outside] = _mix(result[outside], bits)
    return result


def _mix(x: Any, bits: int) -> Any:
    import numpy as np

    mask, half = np.uint64((1 << bits) - 1), np.uint64(bits // 2 + 1)
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):
        x = x * np.uint64(factor) & mask
        x = x ^ (x >> half)
    return x * np.uint64(0x94D049BB133111EB) & mask
