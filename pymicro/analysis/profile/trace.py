"""A trace in memory: one row an event in narrow columns, names once.

Half a GB of text with 1.5 million events is about 100 MB here. Times are seconds since the first
event of the file.
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymicro.analysis.profile import names
from pymicro.analysis.profile.products import Product, product, shapes
from pymicro.analysis.profile.reader import Reader
from pymicro.errors import UsageError

Thread = tuple[int | str, int | str]


@dataclass
class Host:
    """What one thread did: rows of equal length; `product` numbers a product, or is -1."""

    start_s: array[float] = field(default_factory=lambda: array("d"))
    end_s: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("l"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    product: array[int] = field(default_factory=lambda: array("l"))


@dataclass
class Device:
    """What the devices did: rows of equal length."""

    start_s: array[float] = field(default_factory=lambda: array("d"))
    end_s: array[float] = field(default_factory=lambda: array("d"))
    name: array[int] = field(default_factory=lambda: array("l"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    device: array[int] = field(default_factory=lambda: array("q"))
    stream: array[int] = field(default_factory=lambda: array("q"))
    bytes: array[int] = field(default_factory=lambda: array("q"))  # -1 where it is no copy


OP, MARK, CALL, OVERHEAD, STACK = range(5)
KERNEL, MEMCPY, MEMSET = range(3)
_HOST_KINDS = {"op": OP, "mark": MARK, "call": CALL, "overhead": OVERHEAD, "stack": STACK}
_DEVICE_KINDS = {"kernel": KERNEL, "memcpy": MEMCPY, "memset": MEMSET}


@dataclass
class Trace:
    """One file.

    Attributes:
        head: what the file says of itself (devices, versions, `pymicro`: how it was recorded).
        products: matrix products, each kind once.
        shapes: for the name of an operator, the operand shapes first seen, if they were recorded.
        foreign: the vendor, where another vendor's calls were found.
        damaged: events that could not be read.
    """

    path: Path
    head: dict[str, Any]
    names: list[str]
    threads: dict[Thread, Host]
    device: Device
    products: list[Product]
    shapes: dict[int, str]
    foreign: str
    damaged: int
    count: int

    def properties(self, number: int) -> dict[str, Any]:
        """What the file says of a device; empty if nothing."""
        return next((d for d in _devices(self.head) if d.get("id") == number), {})


def load(path: Path) -> Trace:
    """Read a file.

    Raises:
        UsageError: it cannot be read or is no trace of PyTorch's profiler with CUDA events.
    """
    builder = _Builder(path)
    for event in builder.reader:
        builder.add(event)
    return builder.trace()


class _Builder:
    """Sorts events into columns; the loop that reads every event of the file."""

    def __init__(self, path: Path) -> None:
        self.reader = Reader(path)
        self._numbers: dict[str, int] = {}
        self._threads: defaultdict[Thread, Host] = defaultdict(Host)
        self._device = Device()
        self._products: dict[Product, int] = {}
        self._shapes: dict[int, str] = {}
        self._origin_us: float | None = None
        self._foreign = ""
        self._host_kinds = {c: _HOST_KINDS[k] for c, k in names.HOST.items()}
        self._device_kinds = {c: _DEVICE_KINDS[k] for c, k in names.DEVICE.items()}

    def add(self, event: dict[str, Any]) -> None:
        if event.get("ph") != "X":
            return
        category = str(event.get("cat", "")).lower()
        host = self._host_kinds.get(category)
        if host is None and category not in self._device_kinds:
            self._foreign = self._foreign or names.FOREIGN.get(category, "")
            return
        name = str(event.get("name", ""))
        if host == STACK and not _is_own_frame(name):
            return
        try:
            start_us, took_us = float(event["ts"]), max(float(event.get("dur", 0)), 0.0)
        except (KeyError, TypeError, ValueError):
            start_us, took_us = math.nan, math.nan
        if not math.isfinite(start_us + took_us):
            self.reader.damaged += 1
            return
        if self._origin_us is None:
            self._origin_us = start_us
        start_s = (start_us - self._origin_us) * 1e-6
        row = (start_s, start_s + took_us * 1e-6, self._number(name))
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        if host is None:
            self._add_device(row, self._device_kinds[category], event, arguments)
        else:
            self._add_host(row, host, event, arguments)

    def _add_host(
        self, row: tuple[float, float, int], kind: int, event: dict[str, Any], args: dict[str, Any]
    ) -> None:
        thread = self._threads[_label(event.get("pid")), _label(event.get("tid"))]
        thread.start_s.append(row[0])
        thread.end_s.append(row[1])
        thread.name.append(row[2])
        thread.kind.append(kind)
        thread.correlation.append(_integer(args.get("correlation")) if kind == CALL else -1)
        dims = args.get("Input Dims") if kind == OP else None
        thread.product.append(-1 if dims is None else self._product(event, dims, args))
        if dims is not None and row[2] not in self._shapes:
            self._shapes[row[2]] = shapes(dims)
        elif kind == CALL and not self._foreign:
            found = _FOREIGN_CALL.match(str(event.get("name", "")))
            self._foreign = names.FOREIGN[found[0]] if found else ""

    def _product(self, event: dict[str, Any], dims: Any, args: dict[str, Any]) -> int:
        found = product(str(event.get("name", "")), dims, args.get("Input type"))
        return -1 if found is None else self._products.setdefault(found, len(self._products))

    def _add_device(
        self, row: tuple[float, float, int], kind: int, event: dict[str, Any], args: dict[str, Any]
    ) -> None:
        device = self._device
        device.start_s.append(row[0])
        device.end_s.append(row[1])
        device.name.append(row[2])
        device.kind.append(kind)
        device.correlation.append(_integer(args.get("correlation")))
        device.device.append(max(_integer(args.get("device", event.get("pid"))), -1))
        device.stream.append(_integer(args.get("stream", event.get("tid"))))
        device.bytes.append(-1 if kind == KERNEL else _integer(args.get("bytes")))

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def trace(self) -> Trace:
        foreign = self._foreign
        for known in _devices(self.reader.head):
            match = names.FOREIGN_DEVICES.search(str(known.get("name", "")))
            foreign = foreign or (match[0] if match else "")
        found = Trace(
            self.reader.path, self.reader.head, list(self._numbers), dict(self._threads),
            self._device, list(self._products), self._shapes, foreign, self.reader.damaged,
            self.reader.count,
        )  # fmt: skip
        _refuse(found)
        return found


def _devices(head: dict[str, Any]) -> list[dict[str, Any]]:
    found = head.get("deviceProperties")
    return [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []


def _refuse(trace: Trace) -> None:
    """Say in a sentence why a trace cannot be split."""
    name = trace.path.name
    if trace.foreign:
        raise UsageError(
            f"{name} was recorded on {trace.foreign} hardware; the split knows CUDA's calls and "
            "kernels only."
        )
    if not trace.threads:
        raise UsageError(
            f"{name} is no trace of PyTorch's profiler: of its {trace.count:,} events none is an "
            "operator or a call."
        )
    if not trace.device.start_s:
        raise UsageError(
            f"{name} has no device events: it is of a job on the CPU, or ProfilerActivity.CUDA "
            "was off, or another profiler held CUPTI; `pymicro profile` records both sides."
        )


_FOREIGN_CALL = re.compile(r"hip(?=[A-Z])|hsa_|ze(?=[A-Z])|musa(?=[A-Z])|acl(?=[a-z])")
_FRAME = re.compile(r"([^()]*\.py)\(\d+\): ")


def _is_own_frame(name: str) -> bool:
    """Whether a frame of Python's stack is neither PyTorch's nor the standard library's."""
    match = _FRAME.match(name)
    if match is None or "/lib/python" in match[1]:
        return False
    first = match[1].replace("\\", "/").lstrip("/").split("/", 1)[0].removesuffix(".py")
    return first != "torch" and first not in sys.stdlib_module_names


def _label(value: Any) -> int | str:
    """Processes and threads have numbers or names."""
    return value if isinstance(value, int | str) else 0


def _integer(value: Any) -> int:
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return found if abs(found) < 1 << 62 else -1
