"""How long does one operator of PyTorch take on this device, at the shapes of real jobs?

    python benchmarks/operator_times.py --out operators.jsonl [--of decoding] [--seconds 120]

Answer expected: products come near the rate of `pymicro gemm`, everything else near the memory
bandwidth at its size, and nothing is shorter than the kernel floor of one to two microseconds.

Each line is one operator at one shape: seconds a call while the queue is full (so that the host's
speed stays out), seconds inside kernels and how many there are (from a profiler pass of its own),
and what issuing one call costs the host. Operands rotate through more memory than the cache holds,
as the weights and activations of a job do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import operator_rows
import operator_rows_decoding
import torch
from operator_rows import Row

# Training, and generating at many rows; one decode step.
GROUPS = {"jobs": operator_rows.GROUPS, "decoding": operator_rows_decoding.GROUPS}

ROTATE_BYTES = 160e6
MOST_SETS = 24


def sets_of(row: Row, device: torch.device) -> list[Callable[[], Any]]:
    count = max(1, min(MOST_SETS, int(ROTATE_BYTES / max(row.bytes, 1)) + 1))
    return [
        row.make(device) for _ in range(1 if row.op == "adamw" or device.type == "cpu" else count)
    ]


def measure(row: Row, device: torch.device) -> None:
    """Fills in seconds a call: of the device with a full queue, and of the host to ask."""
    torch.backends.cuda.matmul.allow_tf32 = row.dtype == "tf32"
    calls = sets_of(row, device)
    for call in (*calls[:2], calls[0]):
        call()
    many = max(len(calls), 8) if row.flop < 5e10 and row.bytes < 5e8 else 3
    if device.type == "cpu":
        began = time.perf_counter()
        calls[0]()
        row.result = {"time_s": time.perf_counter() - began}
        return
    torch.cuda.synchronize()
    began = time.perf_counter()
    for i in range(8):
        calls[i % len(calls)]()
    host_s = (time.perf_counter() - began) / 8
    torch.cuda.synchronize()
    times = []
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    for _ in range(3):
        torch.cuda._sleep(int(2e9 * (many * host_s * 1.5 + 3e-4)))
        start.record()
        for i in range(many):
            calls[i % len(calls)]()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1e3 / many)
    row.result = {"time_s": statistics.median(times), "host_s": host_s}
    if len(calls) > 1:
        # The same operands again and again: what the cache holds is not fetched anew.
        torch.cuda._sleep(int(2e9 * (many * host_s * 1.5 + 3e-4)))
        start.record()
        for _ in range(many):
            calls[0]()
        stop.record()
        torch.cuda.synchronize()
        row.result["hot_s"] = start.elapsed_time(stop) / 1e3 / many


def profile(rows: list[Row], device: torch.device) -> None:
    """Kernels a call: a short spin kernel parts one row from the next."""
    from torch.profiler import ProfilerActivity

    calls = 3
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as made:
        for row in rows:
            torch.backends.cuda.matmul.allow_tf32 = row.dtype == "tf32"
            ready = sets_of(row, device)[: calls + 1]
            ready[0]()
            torch.cuda._sleep(1000)
            for i in range(calls):
                ready[i % len(ready)]()
            torch.cuda._sleep(1000)
            torch.cuda.synchronize()
            del ready
    events = [e for e in made.profiler.kineto_results.events() if e.device_type().name == "CUDA"]
    events = sorted(events, key=lambda e: e.start_ns())
    parts: list[list[Any]] = [[]]
    for event in events:
        if "spin_kernel" in event.name():
            parts.append([])
        else:
            parts[-1].append(event)
    for row, part in zip(rows, parts[1::2], strict=False):
        names = list(dict.fromkeys(e.name() for e in part))
        row.result["kernels"] = len(part) / calls
        row.result["kernel_s"] = sum(e.duration_ns() for e in part) / 1e9 / calls
        row.result["names"] = [n[:120] for n in names[:4]]


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--out", required=True)
    words.add_argument("--seconds", type=float, default=120)
    words.add_argument("--device", default="cuda")
    words.add_argument("--of", choices=tuple(GROUPS), default="jobs")
    words.add_argument("--few", action="store_true", help="two rows a group: does it run at all?")
    chosen = words.parse_args()
    device = torch.device(chosen.device)
    began = time.perf_counter()
    with open(chosen.out, "w") as out:
        head = {
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        }
        out.write(json.dumps(head) + "\n")
        for group in GROUPS[chosen.of]:
            rows = list(itertools.islice(group(), 2)) if chosen.few else list(group())
            done = []
            for row in rows:
                if time.perf_counter() - began > chosen.seconds:
                    break
                try:
                    measure(row, device)
                    done.append(row)
                except RuntimeError as error:
                    print(f"{row.op} {row.dtype} {row.params}: {error}"[:300], file=sys.stderr)
            if device.type == "cuda" and done:
                try:
                    for part in (
                        itertools.batched(done, 150) if hasattr(itertools, "batched") else [done]
                    ):
                        profile(list(part), device)
                except Exception as error:  # A profiler that fails must not cost the times.
                    print(f"profile: {type(error).__name__}: {error}"[:400], file=sys.stderr)
            for row in done:
                line = {
                    "op": row.op,
                    "dtype": row.dtype,
                    **row.params,
                    "flop": row.flop,
                    "bytes": row.bytes,
                    **row.result,
                }
                out.write(json.dumps(line) + "\n")
            out.flush()
            if device.type == "cuda":
                torch.cuda.empty_cache()
            took_s = time.perf_counter() - began
            print(f"{group.__name__}: {len(done)} of {len(rows)} rows, {took_s:.1f} s", flush=True)


if __name__ == "__main__":
    main()
