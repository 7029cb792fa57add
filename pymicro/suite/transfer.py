"""Transfers between the host and a GPU: how fast copies cross the link, and what one costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymicro.benchmark import Axis, Benchmark, Clock, Operand, Params, Work
from pymicro.errors import UsageError, WrongResult
from pymicro.paths import HOST_PATHS, PEER_PATHS, ROWS, initiator, is_peer, stages

if TYPE_CHECKING:
    import numpy as np

    from pymicro.outputs import Output
    from pymicro.verify import Check

_ITEM_BYTES = 4
_TWO_WAYS = ("both", "h2d-busy", "d2h-busy")
# How much a call puts into a queue, where it is more than one copy.
_REQUESTS = dict.fromkeys((*_TWO_WAYS, "p2p-both"), 4)


class _Copied:
    """Bit for bit what was to be copied."""

    def __init__(self, source: np.ndarray) -> None:
        self._source = source

    def check(self, out: np.ndarray) -> Check:
        """Compare all of it.

        Raises:
            WrongResult: some words differ; how many.
        """
        from pymicro.outputs import HostOutput

        return self.check_in_place(HostOutput(out))

    def check_in_place(self, out: Output) -> Check:
        """The same piece by piece: fresh memory for a whole copy would take longer than copies."""
        from pymicro.outputs import chunks
        from pymicro.verify import Check

        pieces = chunks(self._source.size)
        wrong = sum(int((out.part(p.start, p.stop) != self._source[p]).sum()) for p in pieces)
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
    return Work(bytes=p["size"] * (2 if p.get("path") in ("both", "d2d", "p2p-both") else 1))


def _reference(dtype: str, p: Params, inputs: dict[str, Any]) -> _Copied:
    return _Copied(inputs["a"])


def _defaults(kind: str, peak_ops_per_s: float | None) -> dict[str, Any]:
    """From what is all latency to what is all rate, so that a line can be laid through."""
    return {"size": tuple(2**n for n in range(12, 29, 4))}


def _applies(variant: str, p: Params) -> bool:
    """SMs reach pinned memory only; what is pinned needs no stage, what goes through the host
    between GPUs nothing else."""
    path, is_pageable = p.get("path", ""), p.get("host") == "pageable"
    if path == "d2d" or is_peer(path):
        return (variant == "staged") == (path == "p2p-host")
    if path in _TWO_WAYS and is_pageable:
        return False  # Each of the two would wait for the other.
    return is_pageable if variant == "staged" else not (variant == "sm" and is_pageable)


def _reduced(p: Params) -> Params:
    """Inside a GPU and between two the host's memory means nothing; pairs only between two."""
    path, unsaid = p.get("path", ""), set()
    if is_peer(path) or path == "d2d":
        unsaid |= {"host", "node"}
    if not is_peer(path):
        unsaid.add("pair")
    if p.get("node") == "near":
        unsaid.add("node")
    return {name: value for name, value in p.items() if name not in unsaid}


def _clock(p: Params) -> Clock:
    """Copies of pageable memory hold the host until they are done: a gate would never open.
    Copies between GPUs are in the queue of who starts them. One copy leads, so that the engine
    has started, and traffic the other way is under way, when the clock starts."""
    path = p.get("path", "")
    if p.get("host") == "pageable":
        return Clock("host")
    requests = _REQUESTS.get(path, 1)
    if not is_peer(path):
        return Clock("device", requests, lead=1)
    if path == "p2p-host":
        return Clock("device", 6 * stages(p["size"]), initiator(path, p["pair"]))
    return Clock("device", requests, initiator(path, p["pair"]), lead=1)


def _kernels() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every variant: what it does, and where that has run."""
    never = "not yet run on hardware"
    return ("variant", "what it does", "has run on", "between GPUs"), [
        (row.variant, row.does, " ".join(row.ran_on) or never, " ".join(row.peers_ran_on) or never)
        for row in ROWS
    ]


BENCHMARK = Benchmark(
    name="transfer",
    summary="Copies between host and GPU: pinned or not, by copy engines, SMs or host threads.",
    axes=(
        Axis("size", "bytes", "of a copy: 1GiB, 4:4GiB:x4 (default: 4 KiB to 256 MiB)"),
        Axis(
            "path",
            "choice",
            "h2d: host to device; d2h: back; both: at once; h2d-busy, d2h-busy: one way while "
            "copies go the other; d2d: inside the device; p2p: to another GPU; p2p-read: started "
            "by that one; p2p-both: at once; p2p-host: through the host",
            default="h2d,d2h,h2d-busy,d2h-busy",
            choices=(*HOST_PATHS, "d2d", *PEER_PATHS),
            only="cuda",
        ),
        Axis("pair", "pair", "GPUs of p2p paths, from-to: 0-1 (default: all pairs)", only="cuda"),
        Axis(
            "node",
            "node",
            "NUMA node of the host's memory: its number, or near (the GPU's)",
            default="near",
            only="cuda",
        ),
        Axis(
            "host",
            "choice",
            "memory of the host: pinned; combined: pinned, written past the caches; pageable: "
            "ordinary; registered: ordinary, pinned later",
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
    batch_s=0.01,
    operands=_operands,
    work=_work,
    reference=_reference,
    defaults=_defaults,
    examples=(
        "pymicro transfer",
        "pymicro transfer --host pinned,pageable --size 1GiB",
        "pymicro transfer --path h2d --size 4:4GiB:x4",
        "pymicro transfer --path p2p,p2p-both --size 256MiB",
        "pymicro transfer --host pinned --node 0,1 --size 256MiB",
        "pymicro transfer --list",
    ),
    clock=_clock,
    applies=_applies,
    reduced=_reduced,
    kernels=_kernels,
)
