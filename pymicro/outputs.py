"""An output array that is looked over where it lies: parts of it on the host, all of it in place.

Arrays of many GiB are checked so: inputs repeat themselves after a prime number of elements, so
results do too, and it takes one comparison on the device to carry the check of the first period
to every element.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from pymicro import compiler, driver

_CHUNK = 2**22
_BLOCKS, _THREADS = 2048, 256


class Output(Protocol):
    """A one-dimensional array of stored bits."""

    size: int

    def part(self, start: int, stop: int) -> np.ndarray:
        """Elements from `start` to `stop`, on the host."""
        ...

    def first_break(self, period: int) -> int:
        """The least i from `period` on whose bits are not those a period before, else `size`."""
        ...

    def bit_sum(self) -> int:
        """The sum of all elements' bits as unsigned integers, mod 2^64."""
        ...


class HostOutput:
    """An array of numpy's."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.size = array.reshape(-1), array.size

    def part(self, start: int, stop: int) -> np.ndarray:
        return self._array[start:stop]

    def first_break(self, period: int) -> int:
        bits = as_bits(self._array)

        def look(part: slice) -> int:
            shifted = slice(part.start + period, part.stop + period)
            differs = bits[shifted] != bits[part]
            return shifted.start + int(differs.argmax()) if differs.any() else self.size

        with ThreadPoolExecutor() as pool:
            return min(pool.map(look, chunks(max(self.size - period, 0))), default=self.size)

    def bit_sum(self) -> int:
        bits = as_bits(self._array)
        return sum(int(bits[p].sum(dtype=np.uint64)) for p in chunks(self.size)) % 2**64


class DeviceOutput:
    """An array in device memory; `csrc/cuda/repeats.cu` looks it over."""

    def __init__(self, buffer: driver.Buffer, arch: str) -> None:
        self._buffer, self._arch = buffer, arch
        self.size = buffer.nbytes // buffer.storage.itemsize

    def part(self, start: int, stop: int) -> np.ndarray:
        array = np.empty(stop - start, self._buffer.storage)
        driver.check(driver.cuda().cuCtxSynchronize())
        if array.size:
            at = self._buffer.ptr + start * array.itemsize
            driver.check(driver.cuda().cuMemcpyDtoH(array.ctypes.data, at, array.nbytes))
        return array

    def first_break(self, period: int) -> int:
        if period >= self.size:
            return self.size
        return self._ask("first_break", [ctypes.c_int64(period)], self.size)

    def bit_sum(self) -> int:
        return self._ask("bit_sum", [], 0)

    def _ask(self, entry: str, own: list[Any], before: int) -> int:
        bits = 8 * self._buffer.storage.itemsize
        cubin = compiler.compile_cubin("repeats.cu", self._arch, (("BITS", bits),))
        answer = driver.Buffer((1,), "uint64")
        try:
            answer.upload(np.array([before], np.uint64))
            ends = ctypes.c_uint64(self._buffer.ptr), ctypes.c_uint64(answer.ptr)
            arguments = [ends[0], ctypes.c_int64(self.size), *own, ends[1]]
            kernel = driver.Kernel.load(cubin, entry)
            kernel.bind((_BLOCKS, 1, 1), (_THREADS, 1, 1), arguments, 0)()
            return int(answer.download()[0])
        finally:
            answer.free()


def as_bits(array: np.ndarray) -> np.ndarray:
    """The same memory as unsigned integers."""
    return array.view(f"u{array.dtype.itemsize}")


def chunks(count: int) -> Iterator[slice]:
    """Slices of some million elements that cover `count`."""
    for start in range(0, count, _CHUNK):
        yield slice(start, min(start + _CHUNK, count))
