"""Traces written by hand, as PyTorch's profiler would write them of a job whose times are known.

A `Job` has a host thread and a device; both are clocks that its methods move on. A kernel starts
when it has been launched and the device is free, as on the machine.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PID, TID, STREAM = 4321, 4321, 7
GEMM = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1"
TINY = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
HOPPER: Mapping[str, Any] = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "numSms": 132}


class Job:
    """Times are microseconds, as in the file."""

    latency_us = 4.0
    launch_us = 3.0

    def __init__(self, start_us: float = 1e6, tid: int = TID) -> None:
        self.events: list[dict[str, Any]] = []
        self.host_us = self.gpu_us = start_us
        self.tid = tid
        self._correlation = self._step = 0

    def wait(self, us: float) -> None:
        """The host does something that the profiler does not see."""
        self.host_us += us

    @contextmanager
    def range(self, name: str, cat: str = "user_annotation", **args: Any) -> Iterator[None]:
        event = self._add(cat, name, self.host_us, 0.0, {"External id": len(self.events), **args})
        yield
        event["dur"] = round(self.host_us - event["ts"], 3)

    @contextmanager
    def step(self) -> Iterator[None]:
        self._step += 1
        with self.range(f"ProfilerStep#{self._step}"):
            yield

    def op(
        self,
        name: str = "aten::add",
        host_us: float = 5.0,
        gpu_us: float = 2.0,
        kernel: str = TINY,
        *,
        cat: str = "kernel",
        stream: int = STREAM,
        **args: Any,
    ) -> None:
        """An operator that launches one kernel in its middle."""
        with self.range(name, "cpu_op", **args):
            self.host_us += host_us / 2
            self.launch(gpu_us, kernel, cat=cat, stream=stream)
            self.host_us += host_us / 2

    def launch(
        self,
        gpu_us: float,
        kernel: str = TINY,
        call: str = "",
        cat: str = "kernel",
        stream: int = STREAM,
    ) -> None:
        call = call or ("cudaLaunchKernel" if cat == "kernel" else "cudaMemcpyAsync")
        correlation = self.call(call, self.launch_us)
        self.kernel(gpu_us, kernel, correlation, cat, stream)

    def kernel(
        self, gpu_us: float, name: str, correlation: int, cat: str = "kernel", stream: int = STREAM
    ) -> None:
        start = max(self.gpu_us, self.host_us + self.latency_us)
        self.gpu_us = start + gpu_us
        args = {"device": 0, "stream": stream, "correlation": correlation}
        self.events.append(_complete(cat, name, 0, stream, start, gpu_us, args))

    def call(self, name: str, host_us: float) -> int:
        """A call of the runtime; its correlation number."""
        self._correlation += 1
        args = {"cbid": 1, "correlation": self._correlation}
        self._add("cuda_runtime", name, self.host_us, host_us, args)
        self.host_us += host_us
        return self._correlation

    def synchronize(self, call: str = "cudaStreamSynchronize", return_us: float = 6.0) -> None:
        """Wait for the device in a call."""
        until = max(self.gpu_us, self.host_us) + return_us
        self.call(call, until - self.host_us)

    def item(self) -> None:
        with self.range("aten::item", "cpu_op"), self.range("aten::_local_scalar_dense", "cpu_op"):
            self.host_us += 2
            self.launch(1.5, "Memcpy DtoH (Device -> Pageable)", cat="gpu_memcpy")
            self.synchronize()
            self.host_us += 1

    def _add(
        self, cat: str, name: str, ts: float, dur: float, args: dict[str, Any]
    ) -> dict[str, Any]:
        event = _complete(cat, name, PID, self.tid, ts, dur, args)
        self.events.append(event)
        return event

    def document(self, **head: Any) -> dict[str, Any]:
        return {
            "schemaVersion": 1,
            "deviceProperties": [HOPPER],
            **head,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1,
            "traceEvents": self.events,
            "traceName": "trace.json",
        }


def _complete(
    cat: str, name: str, pid: int, tid: int, ts: float, dur: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
        "ts": round(ts, 3), "dur": round(dur, 3), "args": args,
    }  # fmt: skip


def write(path: Path, document: Mapping[str, Any]) -> Path:
    """Write a document with the profiler's line breaks; gzipped if the name says so."""
    head = {k: v for k, v in document.items() if k not in ("traceEvents", "traceName")}
    lines = [f'  "{k}": {json.dumps(v)},' for k, v in head.items()]
    events = ",\n  ".join(json.dumps(e, indent=2) for e in document["traceEvents"])
    text = "{\n" + "\n".join(lines) + f'\n  "traceEvents": [\n  {events}\n  ],"traceName": "x" }}'
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
