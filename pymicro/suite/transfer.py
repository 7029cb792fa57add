"""Transfers between the host and a GPU: how fast copies cross the link, and what one costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro.benchmark import Axis, Benchmark, Clock, Operand, Params, Work
from pymicro.errors import UsageError, WrongResult

if TYPE_CHECKING:
    import numpy as np

    from pymicro.verify import Check

_ITEM_BYTES = 4
# Paths that go both ways, and how much a call of theirs puts into a queue.
_REQUESTS = {"both": 4, "h2d-busy": 4, "d2h-busy": 4}


class _Copied:
    """Bit for bit what was to be copied."""

    def __init__(self, source: np.ndarray) -> None:
        self._source = source

    def check(self, out: np.ndarray) -> Check:
        """Compare all of it.

        Raises:
            WrongResult: some words differ; how many.
        """
        from pymicro.verify import Check

        wrong = int((out != self._source).sum())
        if wrong:
            raise WrongResult(f"wrong result: {wrong} of {out.size} words differ after the copy.")
        return Check("every word", 0.0, 0.0)


def _operands(dtype: str, p: Params) -> tuple[Operand, ...]:
    if p["size"] % _ITEM_BYTES:
        raise UsageError(f"--size {p['size']} is not a multiple of {_ITEM_BYTES} bytes.")
    words = (p["size"] // _ITEM_BYTES,)
    return Operand("a", words, "int32"), Operand("c", words, "int32", fill="output")


def _work(dtype: str, p: Params) -> Work:
    """Bytes that cross the link, in both directions together; inside a GPU read and written."""
    return Work(bytes=p["size"] * (2 if p.get("path") in ("both", "d2d") else 1))


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> _Copied:
    return _Copied(inputs["a"])


def _defaults(kind: str, peak_ops_per_s: float | None) -> dict[str, Any]:
    """From what is all latency to what is all rate, so that a line can be laid through."""
    return {"size": tuple(2**n for n in range(12, 29, 4))}


def _applies(variant: str, p: Params) -> bool:
    """SMs reach pinned memory only; inside a GPU the kind of the host's memory means nothing; and
    what is pinned needs no stage."""
    path, is_pageable = p.get("path"), p.get("host") == "pageable"
    if path == "d2d":
        return p.get("host") == "pinned" and variant != "staged"
    if path in _REQUESTS and is_pageable:
        return False  # Each of the two would wait for the other.
    return is_pageable if variant == "staged" else not (variant == "sm" and is_pageable)


def _clock(p: Params) -> Clock:
    """Copies of pageable memory hold the host until they are done: a gate would never open."""
    if p.get("host") == "pageable":
        return Clock("host")
    return Clock("device", _REQUESTS.get(p.get("path", ""), 1))


BENCHMARK = Benchmark(
    name="transfer",
    summary="Copies between host and GPU: pinned or not, by copy engines, SMs or host threads.",
    axes=(
        Axis("size", "bytes", "of a copy: 1GiB, 4:4GiB:x4 (default: 4 KiB to 256 MiB)"),
        Axis(
            "path",
            "choice",
            "host to device, device to host, both at once; one way while the other is busy; inside "
            "the device",
            default="h2d,d2h,h2d-busy,d2h-busy",
            choices=("h2d", "d2h", "both", "h2d-busy", "d2h-busy", "d2d"),
            only="cuda",
        ),
        Axis(
            "host",
            "choice",
            "memory of the host: pinned, pinned and written past the caches, ordinary, ordinary "
            "and pinned later",
            default="pinned,pageable",
            choices=("pinned", "combined", "pageable", "registered"),
            only="cuda",
        ),
    ),
    dtypes=("int32",),
    default_dtype="int32",
    rate="bytes_per_s",
    cache="hot",
    draws_power=False,
    budget_s=0.25,
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=_defaults,
    examples=(
        "pymicro transfer",
        "pymicro transfer --host pinned,pageable --size 1GiB",
        "pymicro transfer --path h2d --size 4:4GiB:x4",
    ),
    clock=_clock,
    applies=_applies,
)
