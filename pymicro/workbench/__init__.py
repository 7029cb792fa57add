"""The place where cases run: device, clock, operands and reference, shared by all backends.

Operands of a problem are drawn and placed once; each backend gets the same arrays, and its
output is poisoned before the checked call, so that a kernel that writes nothing is found out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pymicro import driver
from pymicro.backends.base import Place
from pymicro.benchmark import Benchmark, Case, Clock, Operand, Reference
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError, Unavailable
from pymicro.timers import ElsewhereTimer, EventTimer, HostTimer, RequestTimer, Timer
from pymicro.units import binary_bytes
from pymicro.workbench import caches

# Left free beside the operands: a library's workspace, the context, other people's surprises.
_HEADROOM = 1.05
# Beside the operands, the reference works in slabs of float64 on the host; see `verify`.
_CHECK_BYTES = 2**29

# Parameters that change neither operands nor the expected answer.
_FREE = ("threads", "path", "host", "node", "pair")


@dataclass
class Problem:
    """The operands of one problem where a backend can use them, and the expected answer."""

    key: Any
    arrays: dict[str, Any]
    output: str
    output_dtype: str
    reference: Reference
    arch: str = ""

    def poison(self) -> None:
        """Fill the output with what no right answer is: NaN, or in integers a far number."""
        from pymicro import operands

        array, byte = self.arrays[self.output], operands.poison(DTYPES[self.output_dtype])
        if isinstance(array, driver.Buffer):
            array.fill_bytes(byte)
        else:
            array.view("uint8").fill(byte)

    def result(self) -> Any:
        array = self.arrays[self.output]
        return array.download() if isinstance(array, driver.Buffer) else array

    def check(self) -> Any:
        """Compare the output with the reference.

        Raises:
            WrongResult: it is beyond tolerance.
        """
        array, in_place = self.arrays[self.output], getattr(self.reference, "check_in_place", None)
        if in_place is None or not isinstance(array, driver.Buffer):
            return self.reference.check(self.result())
        from pymicro.outputs import DeviceOutput

        return in_place(DeviceOutput(array, self.arch))


class Workbench:
    """One device with its clock. Holds one problem at a time: the next one frees the last."""

    def __init__(self, kind: str, index: int = 0) -> None:
        """Open the device.

        Raises:
            Unavailable: no driver or no such device; the reason why.
        """
        self.place, self.timer = _open(kind, index)
        self._problem: Problem | None = None
        self._flushes: dict[float, Callable[[], None]] = {}
        self._flushed: driver.Buffer | None = None
        self._refused: tuple[Any, Unavailable] | None = None
        self._others: dict[int, tuple[Any, EventTimer]] = {}

    def clock(self, wanted: Clock) -> Timer:
        """The timer for a case; a CPU has one for all.

        Raises:
            Unavailable: one call asks for more than the device's queue holds.
        """
        timer = self.timer
        if not isinstance(timer, EventTimer):
            return timer
        if wanted.device not in (None, self.place.index):
            return self._elsewhere(wanted)
        if wanted.side == "host":
            return RequestTimer(self.synchronise, wanted.requests)
        if (wanted.requests, wanted.lead) == (1, 0):
            return timer
        return timer.for_requests(wanted.requests, wanted.lead)

    def _elsewhere(self, wanted: Clock) -> Timer:
        """The clock of another device, on whose queue the work of a case is put."""
        assert wanted.device is not None
        if wanted.device not in self._others:
            gpu = driver.open_gpu(wanted.device)
            driver.open_gpu(self.place.index)
            with driver.current(gpu.context):
                self._others[wanted.device] = gpu.context, EventTimer(gpu, self.place.stream)
        context, timer = self._others[wanted.device]
        return ElsewhereTimer(
            partial(driver.current, context), timer.for_requests(wanted.requests, wanted.lead)
        )

    def pairs(self) -> tuple[str, ...]:
        """All ordered pairs of GPUs, `0-1`; of a single one that with itself."""
        count = driver.device_count() if self.place.kind == "cuda" else 1
        found = (f"{a}-{b}" for a in range(count) for b in range(count) if a != b)
        return tuple(found) or ("0-0",)

    def problem(self, benchmark: Benchmark, case: Case, fill: str, seed: int) -> Problem:
        """The operands of a case, drawn anew only if the last case had others.

        Raises:
            Unavailable: they do not fit; the message has what is needed and what is free.
        """
        shared = {k: v for k, v in case.params.items() if k not in _FREE}
        key = (benchmark.name, case.dtype, tuple(sorted(shared.items())), fill, seed)
        if self._refused is not None and self._refused[0] == key:
            raise self._refused[1]  # For one backend, so for all: not drawn again to find out.
        if self._problem is None or self._problem.key != key:
            self.release()
            try:
                self._problem = self._draw(benchmark, case, fill, seed, key)
            except Unavailable as reason:
                self._refused = (key, reason)
                raise
        return self._problem

    def release(self) -> None:
        """Free the operands of the last problem."""
        problem, self._problem = self._problem, None
        if problem is not None:
            _free(problem.arrays)

    def _draw(self, benchmark: Benchmark, case: Case, fill: str, seed: int, key: Any) -> Problem:
        wanted = benchmark.operands(case.dtype, case.params)
        self._refuse_too_large(wanted, benchmark.beside(case.params, self.place.kind), case)
        arrays: dict[str, Any] = {}
        try:
            inputs = self._fill(wanted, fill, seed, arrays)
            reference = benchmark.reference(case.dtype, case.params, inputs)
        except BaseException:
            _free(arrays)
            raise
        output = next(o for o in wanted if o.fill == "output")
        return Problem(key, arrays, output.name, output.dtype, reference, self._arch())

    def _arch(self) -> str:
        return "sm_{}{}".format(*self.place.capability) if self.place.capability else ""

    def _fill(
        self, wanted: Sequence[Operand], fill: str, seed: int, arrays: dict[str, Any]
    ) -> dict[str, Any]:
        """Put every operand into `arrays`; returns the host's copies of the inputs, of those that
        repeat one period."""
        from pymicro import operands

        inputs = {}
        for number, operand in enumerate(wanted):
            dtype = DTYPES[operand.dtype]
            if operand.fill != "output":
                if operand.fill == "cycle":
                    host = operands.cycle(operand.shape[0], seed + number)
                elif operand.fill == "repeated":
                    drawn = operand.shape[1:] or (operands.period(operand.shape[0]),)
                    host = operands.draw(drawn, dtype, fill, seed + number)
                else:
                    host = operands.draw(operand.shape, dtype, fill, seed + number)
                inputs[operand.name] = host
                arrays[operand.name] = self._place(host, operand.shape)
            else:
                arrays[operand.name] = self._empty(operand.shape, dtype.storage)
        return inputs

    def _refuse_too_large(
        self, wanted: Sequence[Operand], beside: Mapping[str, int], case: Case
    ) -> None:
        # The host keeps a copy of the inputs and, for checking, of the output.
        on_host = {"cpu": _bytes_of(wanted, is_host=self.place.kind == "cuda") + _CHECK_BYTES}
        size = case.params.get("size")
        what = f"at size {binary_bytes(size)} the operands" if size else "the operands"
        for kind, operands_bytes in ({self.place.kind: _bytes_of(wanted)} | on_host).items():
            needed = operands_bytes + beside.get(kind, 0)
            free = free_memory_bytes(kind)
            if needed * _HEADROOM > free:
                where = "GPU" if kind == "cuda" else "main"
                raise Unavailable(
                    f"{what} need {binary_bytes(needed)}; {binary_bytes(free)} of {where} "
                    "memory is free."
                )

    def _place(self, host: Any, shape: tuple[int, ...]) -> Any:
        """An array of `shape` that holds `host`, again and again if it is longer."""
        whole = self._empty(shape, host.dtype.str)
        if self.place.kind == "cuda":
            whole.upload_repeated(host)
            return whole
        if host.shape == shape:
            return host
        from pymicro import operands

        operands.repeat(whole, host)
        return whole

    def _empty(self, shape: tuple[int, ...], storage: str) -> Any:
        if self.place.kind == "cpu":
            import numpy as np

            return np.empty(shape, storage)
        return driver.Buffer(shape, storage)

    def is_alive(self) -> bool:
        """Whether the device still answers; a kernel that faulted takes its context along."""
        try:
            self.synchronise()
        except PymicroError:
            return False
        return True

    def synchronise(self) -> None:
        if self.place.kind == "cuda":
            driver.check(driver.cuda().cuCtxSynchronize())

    def flush(self, written: float = 1.0) -> Callable[[], None]:
        """A call that goes over twice the last cache level, so that nothing else stays in it; it
        writes to so large a share of the lines (0 to 1) and reads the others."""
        if written not in self._flushes:
            make = caches.cpu_flush if self.place.kind == "cpu" else self._gpu_flush
            self._flushes[written] = make(written)
        return self._flushes[written]

    def _gpu_flush(self, written: float) -> Callable[[], None]:
        if self._flushed is None:
            self._flushed = caches.room(self.place.index)
        return caches.gpu_flush(self.place, self._arch(), self._flushed, written)


def _free(arrays: Mapping[str, Any]) -> None:
    for array in arrays.values():
        if isinstance(array, driver.Buffer):
            array.free()


def _open(kind: str, index: int) -> tuple[Place, Timer]:
    if kind == "cpu":
        return Place("cpu"), HostTimer()
    gpu = driver.open_gpu(index)
    sms = gpu.attribute("MULTIPROCESSOR_COUNT")
    place = Place("cuda", index, gpu.capability, sms)
    return place, EventTimer(gpu, place.stream)


def free_memory_bytes(kind: str) -> int:
    """Memory that an allocation may take now, on the GPU or on the host."""
    if kind == "cuda":
        return int(driver.check(driver.cuda().cuMemGetInfo())[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields: Mapping[str, str] = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _bytes_of(wanted: Sequence[Operand], is_host: bool = False) -> int:
    """Bytes of operands; on a GPU's host, where one period stands for arrays that repeat and
    their results are looked over in place, only of what the host needs."""
    from pymicro import operands

    repeats = is_host and any(operand.fill == "repeated" for operand in wanted)
    total = 0
    for operand in wanted:
        elements = math.prod(operand.shape)
        if repeats:
            elements = operands.period(elements)
        total += elements * DTYPES[operand.dtype].itemsize_bytes
    return total
