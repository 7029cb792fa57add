"""Kernels of ours beside the work that is timed: one holds the stream, one reads the SM clock."""

from __future__ import annotations

import ctypes

from pymicro import compiler, driver

_GATE_TIMEOUT_NS = 2_000_000_000


class Gate:
    """A kernel that waits for a word in pinned host memory; see `csrc/cuda/gate.cu`."""

    def __init__(self, gpu: driver.Gpu, stream: int) -> None:
        cuda = driver.cuda()
        self._host = int(driver.check(cuda.cuMemHostAlloc(8, 2)))  # 2: mapped into the device
        device = int(driver.check(cuda.cuMemHostGetDevicePointer(self._host, 0)))
        self._words = (ctypes.c_uint32 * 2).from_address(self._host)
        kernel = driver.Kernel.load(compiler.compile_cubin("gate.cu", arch(gpu)), "gate")
        self.launch = kernel.bind(
            (1, 1, 1),
            (1, 1, 1),
            [
                ctypes.c_uint64(device),
                ctypes.c_uint64(device + 4),
                ctypes.c_uint64(_GATE_TIMEOUT_NS),
            ],
            stream,
        )

    def close(self) -> None:
        self._words[0] = self._words[1] = 0
        self.launch()

    def open(self) -> None:
        self._words[0] = 1

    def timed_out(self) -> bool:
        """Whether the gate gave up before it was opened: what followed ran while being queued."""
        return bool(self._words[1])


class ClockProbe:
    """Reads each SM's cycle counter before and after; see `csrc/cuda/clock.cu`."""

    def __init__(self, gpu: driver.Gpu, stream: int) -> None:
        sms = gpu.attribute("MULTIPROCESSOR_COUNT")
        # %smid may exceed the SM count where SMs are fused off; 1024 is above any chip so far.
        self._rows = [driver.Buffer((2, 1024), "uint64") for _ in range(2)]
        for row in self._rows:
            row.fill_bytes(0)
        self._last_ns = 0
        kernel = driver.Kernel.load(compiler.compile_cubin("clock.cu", arch(gpu)), "clock_probe")
        self._launches = [
            kernel.bind(
                (4 * sms, 1, 1),
                (1, 1, 1),
                [ctypes.c_uint64(row.ptr), ctypes.c_uint64(row.ptr + 1024 * 8)],
                stream,
            )
            for row in self._rows
        ]

    def read(self, which: int) -> None:
        self._launches[which]()

    def mean_hz(self) -> float | None:
        """The mean over SMs that both launches saw; None if the span is too short to tell.

        An SM that a launch missed keeps the readings of an earlier sample; those do not count.
        """
        before, after = (row.download().astype("int64") for row in self._rows)
        fresh = before[1] > self._last_ns
        self._last_ns = int(after[1].max())
        cycles, nanoseconds = after[0] - before[0], after[1] - before[1]
        # %globaltimer may tick once a microsecond; 50 of its steps bound the error by 2 %.
        seen = fresh & (nanoseconds > 50_000) & (cycles > 0)
        if not seen.any():
            return None
        return float((cycles[seen] / nanoseconds[seen]).mean() * 1e9)


def arch(gpu: driver.Gpu, suffix: str = "") -> str:
    """The compiler's name of a device's architecture, `sm_90` or `sm_90a`."""
    major, minor = gpu.capability
    return f"sm_{major}{minor}{suffix}"
