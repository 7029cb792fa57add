"""Probes of issue, pure or fed: the source for each unit, the chips that have it, the launch."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.backends.cuda.tensor_maps import tensor_map
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable
from pymicro.issue import FEEDS, LAP, MATRICES_A, PROBES, Feed, Probe

Capability = tuple[int, int]
_ROW_BYTES = 128  # the span of the swizzle
# The swizzled panels of wgmma: 64 rows and 256, moved to a multiple of 1024.
_PANEL_BYTES = (64 + 256) * _ROW_BYTES + 1024
_BARRIERS_AND_FEEDER_BYTES = 16 * 4 + 64


@dataclass(frozen=True)
class ProbeKernel:
    """One compiled probe.

    `first` is the oldest chip that has the instruction, `lacks` later ones that have not, where
    the compiler would make it of others; `last` the newest, if its successors dropped it.
    `opcodes` are the starts of its names in machine code; `ran_on` the keys of devices on which
    its results were found right.
    """

    probe: Probe
    source: str
    opcodes: tuple[str, ...]
    first: Capability
    last: Capability | None = None
    lacks: tuple[Capability, ...] = ()
    macros: tuple[tuple[str, str | int], ...] = ()
    ran_on: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"peak_{self.probe.unit}_{self.probe.dtype}"

    @property
    def feed(self) -> Feed | None:
        return FEEDS.get(self.probe.unit)

    @property
    def block_threads(self) -> int:
        """Threads of a block, those that only load included."""
        return self.probe.threads + 128 * (self.feed is not None and self.feed.has_producer)

    @property
    def shared_bytes(self) -> int:
        if self.feed is not None:
            stage = sum(self.feed.tile) * _ROW_BYTES
            return self.feed.stages * stage + _BARRIERS_AND_FEEDER_BYTES
        return _PANEL_BYTES if self.probe.unit == "wgmma" else 0

    def runs_on(self, capability: Capability) -> bool:
        return (
            capability >= self.first
            and (self.last is None or capability <= self.last)
            and capability not in self.lacks
        )

    @property
    def span(self) -> str:
        """The chips that it is for, as `8.9 and newer but 9.0`."""
        low = ".".join(map(str, self.first))
        if self.last == self.first:
            return low
        but = ", ".join(".".join(map(str, c)) for c in self.lacks)
        return f"{low} and newer{f' but {but}' if but else ''}"

    def arch(self, capability: Capability) -> str:
        major, minor = capability
        return f"sm_{major}{minor}{'a' if 'wgmma' in self.source else ''}"

    def defines(self) -> tuple[tuple[str, str | int], ...]:
        probe = self.probe
        sizes = {"THREADS": probe.threads, "CHAINS": probe.chains, "STEPS": probe.steps}
        return (*sizes.items(), *self.macros)


_WGMMA = {
    "fp16": ("FP16", "HGMMA.64x256x16.F32"),
    "bf16": ("BF16", "HGMMA.64x256x16.F32.BF16"),
    "fp8_e4m3": ("E4M3", "QGMMA.64x256x32.F32.E4M3.E4M3"),
    "int8": ("INT8", "IGMMA.64x256x32.S8.S8"),
    "tf32": ("TF32", "HGMMA.64x256x8.F32.TF32"),
}


def _wgmma(unit: str, dtype: str, **more: Any) -> ProbeKernel:
    format_, opcode = _WGMMA[dtype]
    source, macros = "peak/wgmma.cu", {f"FORMAT_{format_}": 1, "INSTRUCTION_N": 256}
    if unit in FEEDS:
        feed = FEEDS[unit]
        macros |= {"BLOCK_M": feed.tile[0], "BLOCK_N": feed.tile[1], "STAGES": feed.stages}
        macros |= {"WARPGROUPS": feed.tile[0] // 64, "PRODUCER": int(feed.has_producer)}
        macros |= {"CLUSTER_M": feed.cluster[0], "CLUSTER_N": feed.cluster[1], "LAP": LAP}
        macros |= {"PRODUCER_REGISTERS": 40, "CONSUMER_REGISTERS": 232}
        source, macros["STEP"] = "peak/wgmma_fed.cu", _ROW_BYTES // DTYPES[dtype].itemsize_bytes
    return ProbeKernel(
        PROBES[unit, dtype], source, (opcode,), (9, 0), (9, 0), macros=tuple(macros.items()), **more
    )


def _mma(dtype: str, opcodes: tuple[str, ...], first: Capability, **more: Any) -> ProbeKernel:
    probe = PROBES["dmma" if dtype == "fp64" else "mma", dtype]
    macros: tuple[tuple[str, str | int], ...] = (
        ("DTYPE", dtype),
        (f"IS_{dtype.upper()}", 1),
        ("RESTARTS", int(probe.restarts)),
        ("MATRICES_A", MATRICES_A),
    )
    return ProbeKernel(probe, "peak/mma.cu", opcodes, first, macros=macros, **more)


def _vector(
    unit: str, dtype: str, opcode: str, first: Capability, *macros: tuple[str, int]
) -> ProbeKernel:
    own: tuple[tuple[str, str | int], ...] = (("OP", unit), *macros)
    return ProbeKernel(PROBES[unit, dtype], "peak/vector.cu", (opcode,), first, macros=own)


# fp8 as mma.sync: 9.0 and 10.x compute it in fp16. dmma on 12.x: the assembler pads each product
# with dozens of empty instructions, so that the loop fits no instruction cache.
_ROWS = (
    *(_wgmma(unit, dtype) for unit in ("wgmma", *FEEDS) for dtype in _WGMMA),
    _mma("fp16", ("HMMA.16816.F32", "HMMA.1688.F32"), (7, 5)),
    _mma("bf16", ("HMMA.16816.F32.BF16",), (8, 0)),
    _mma("fp8_e4m3", ("QMMA.16832.F32.E4M3.E4M3",), (8, 9), lacks=((9, 0), (10, 0), (10, 3))),
    _mma("int8", ("IMMA.16832.S8.S8", "IMMA.8816.S8.S8"), (7, 5)),
    _mma("tf32", ("HMMA.1688.F32.TF32",), (8, 0)),
    _mma("fp64", ("DMMA.16x8x16", "DMMA.884", "DMMA.8x8x4"), (8, 0), lacks=((12, 0), (12, 1))),
    _vector("ffma", "fp32", "FFMA", (6, 1)),
    _vector("hfma2", "fp16", "HFMA2", (6, 1), ("HALF_IS_BF16", 0)),
    _vector("hfma2", "bf16", "HFMA2", (8, 0), ("HALF_IS_BF16", 1)),
    _vector("dfma", "fp64", "DFMA", (6, 1)),
    _vector("dp4a", "int8", "IDP.4A.S8.S8", (6, 1)),
    _vector("imad", "int32", "IMAD", (7, 0)),
)
# Where each was found right, in the form that it has now. The loops of vector units and those that
# are fed, and `wgmma` of other formats, ran in an earlier form only.
_H200 = {
    ("wgmma", "bf16"), ("dmma", "fp64"),
    *(("mma", dtype) for dtype in ("fp16", "bf16", "int8", "tf32")),
}  # fmt: skip
ROWS = tuple(
    replace(row, ran_on=("h200_sxm_141gb",)) if (row.probe.unit, row.probe.dtype) in _H200 else row
    for row in _ROWS
)
_BY_UNIT = {(row.probe.unit, row.probe.dtype): row for row in ROWS}


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return ("issue",) if any(row.probe.dtype == dtype for row in ROWS) else ()


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Compile, load and bind the probe of a case.

    Raises:
        Unavailable: the unit has no such format, or the chip no such unit.
    """
    assert place.capability is not None
    row = choose(case.params["unit"], case.dtype, place.capability)
    kernel = driver.Kernel.load(
        compiler.compile_cubin(row.source, row.arch(place.capability), row.defines()),
        "peak",
        row.shared_bytes,
    )
    notes = {"kernel": row.name, "ran_on": list(row.ran_on)}
    if row.feed is not None:
        return Prepared(_bind_fed(row, row.feed, kernel, case.params["sms"], arrays, place), notes)
    arguments = [
        *(ctypes.c_uint64(arrays[name].ptr) for name in "ab" if name in arrays),
        ctypes.c_uint32(row.probe.trips),
        ctypes.c_uint64(arrays["c"].ptr),
    ]
    grid, block = (case.params["sms"], 1, 1), (row.probe.threads, 1, 1)
    call = kernel.bind(grid, block, arguments, place.stream, row.shared_bytes)
    return Prepared(call, notes)


def _bind_fed(
    row: ProbeKernel,
    feed: Feed,
    kernel: driver.Kernel,
    sms: int,
    arrays: Mapping[str, Any],
    place: Place,
) -> Callable[[], None]:
    """The launch of a fed loop.

    Raises:
        Unavailable: its blocks work in pairs, and there is one too many or too few.
    """
    size = math.prod(feed.cluster)
    if sms % size:
        raise Unavailable(f"blocks of {row.probe.unit} work in pairs: --sms must be even.")
    dtype, (m, n) = DTYPES[row.probe.dtype], feed.rows(sms)
    step = _ROW_BYTES // dtype.itemsize_bytes
    boxes = ((feed.tile[0] // feed.cluster[1], step), (feed.tile[1] // feed.cluster[0], step))
    rows = (m, feed.panels * n)
    maps = [
        tensor_map(dtype.name, arrays[name].ptr, count, LAP * step, box)
        for name, count, box in zip("ab", rows, boxes, strict=True)
    ]
    numbers = (row.probe.trips, feed.grid(sms)[0], n if feed.panels > 1 else 0)
    arguments: Sequence[driver.Argument] = (
        *maps,
        *map(ctypes.c_uint32, numbers),
        ctypes.c_uint64(arrays["c"].ptr),
    )
    block = (row.block_threads, 1, 1)
    return kernel.bind((sms, 1, 1), block, arguments, place.stream, row.shared_bytes, (size, 1, 1))


def choose(unit: str, dtype: str, capability: Capability | None) -> ProbeKernel:
    """The probe of a unit in a format.

    Raises:
        Unavailable: the unit has no such format, or the chip no such unit.
    """
    row = _BY_UNIT.get((unit, dtype))
    if row is None:
        raise Unavailable(f"{unit} has no {dtype}.")
    assert capability is not None
    if not row.runs_on(capability):
        have = ".".join(map(str, capability))
        raise Unavailable(f"{unit} of {dtype} has no hardware at compute capability {have}.")
    return row
