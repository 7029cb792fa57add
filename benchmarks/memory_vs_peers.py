"""How fast do our kernels stream memory beside torch, Triton, CuPy, Numba, and other programs?

    python benchmarks/memory_vs_peers.py                       4 GiB arrays, fp32 and fp64
    python benchmarks/memory_vs_peers.py --size 1GiB --op read,copy --dtype fp32
    python benchmarks/memory_vs_peers.py --device cpu          C++ beside Numba, numpy and torch

Expected on an H200: read, write, copy and triad at or above the RATES, at or above torch's by the
BARS, and Triton's and CuPy's best at 0.97 of ours or more in copy and triad. All sides work on the
same arrays, each is checked first, and then they take turns, with another's lines in the cache
before every call; ratios come from pairs of turns. BabelStream, gpu-stream and nvbandwidth are run
too, if their programs are on PATH; they time themselves.

Results are appended to reference/<device>/memory_vs_peers.jsonl; the table is written beside it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import memory_tools
import paired
from gemm_vs_vendor import device_key, opened

from pymicro import backends, stats
from pymicro.backends.base import Prepared, offered
from pymicro.benchmark import Case
from pymicro.devices.cpu import usable_cores
from pymicro.devices.here import resolve
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError, Unavailable
from pymicro.results import Result, Store, Verified
from pymicro.streams import SCALARS
from pymicro.suite import benchmark
from pymicro.units import binary_bytes, parse_bytes, si
from pymicro.workbench import Workbench

BANDWIDTH = benchmark("bandwidth")
REFERENCE = Path(__file__).parent / "reference"
OPS = ("read", "write", "copy", "scale", "add", "triad", "dot")
OURS = {"cuda": "cuda", "cpu": "native"}
PEERS = {"cuda": ("triton", "cupy", "numba", "torch"), "cpu": ("numba", "torch")}
# What an H200 has to reach with arrays of 1 GiB or more, bytes a second.
RATES = {"read": 4.58e12, "write": 4.68e12, "copy": 4.30e12, "triad": 4.38e12}
# The least ratio of our rate to a peer's, that the interval has to lie above.
BARS = {
    ("cuda", "torch"): {"read": 1.05, "write": 1.0, "copy": 1.0, "triad": 1.0},
    ("cpu", "torch"): {"triad": 1.0},
    ("cpu", "numba"): {"triad": 1.0},
    ("cpu", "numpy"): {"triad": 1.0},
}
EFFORT = paired.Effort(block_s=0.02, pairs=15, warm_up_s=0.2, most_s=0.6)


def cases(op: str, dtype: str, size: int, bench: Workbench) -> Iterator[Case]:
    """Ours first, then every variant of every peer."""
    kind = bench.place.kind
    own = {"threads": usable_cores()} if kind == "cpu" else {"sms": bench.place.sm_count}
    params = {"op": op, "size": size, "access": "sequential", "stride": 8, **own}
    if kind == "cuda":
        params["level"] = "memory"
    for name in (OURS[kind], *PEERS[kind]):
        variants, _ = offered(backends.backend(name), BANDWIDTH.name, dtype, bench.place)
        fitting = (v for v in variants if BANDWIDTH.applies(v, params))
        yield from (Case(BANDWIDTH.name, name, v, dtype, params) for v in fitting)
    if kind == "cpu":
        yield Case(BANDWIDTH.name, "numpy", "out", dtype, params)


def prepare(case: Case, bench: Workbench) -> paired.Side:
    """One side, checked.

    Raises:
        PymicroError: it cannot run here, or is wrong; the reason.
    """
    if case.backend != "numpy":
        return paired.prepare(BANDWIDTH, case, bench, "normal", 0)
    problem = bench.problem(BANDWIDTH, case, "normal", 0)
    prepared = Prepared(numpy_call(case, problem.arrays))
    problem.poison()
    prepared.call()
    return paired.Side(case, prepared, Verified(**vars(problem.check())))


def numpy_call(case: Case, arrays: Mapping[str, Any]) -> Any:
    """What numpy does without making new arrays; one thread.

    Raises:
        Unavailable: numpy has no such call.
    """
    import numpy as np

    c, op = arrays["c"], case.params["op"]
    a, b = arrays.get("a"), arrays.get("b")
    s = np.array(SCALARS[case.dtype], DTYPES[case.dtype].storage)

    def triad() -> None:
        np.multiply(b, s, out=c)
        np.add(a, c, out=c)

    calls = {
        "write": lambda: c.fill(s), "copy": lambda: np.copyto(c, a),
        "scale": lambda: np.multiply(a, s, out=c), "add": lambda: np.add(a, b, out=c),
        "triad": triad,
    }  # fmt: skip
    if op not in calls or case.dtype == "bf16":
        raise Unavailable(f"numpy has no {op} of {case.dtype} that leaves partial sums.")
    return calls[op]


def measure(
    op: str, dtype: str, size: int, bench: Workbench, shared: paired.Shared
) -> tuple[list[Result], list[str]]:
    """A result for each side that runs, and a sentence for each that does not."""
    sides, refused = [], []
    for case in cases(op, dtype, size, bench):
        try:
            sides.append(prepare(case, bench))
        except PymicroError as error:
            refused.append(f"{paired.name_of(case)}: {error}")
    try:
        flush = bench.flush(BANDWIDTH.written({"op": op}))
        found = paired.measured(BANDWIDTH, bench, sides, EFFORT, shared, before=flush)
        return [replace(r, cache="cold", fill="normal", seed=0) for r in found], refused
    finally:
        for side in sides:
            side.prepared.close()


def table(results: Sequence[Result], kind: str, key: str) -> list[str]:
    """Markdown: each side's rate, ours over it from pairs, and whether a bar is met."""
    lines = [
        "| op | dtype | arrays | side | rate | ours over it | 95 % interval | bar | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for group in _groups(results):
        ours = min((r for r in group if r.backend == OURS[kind]), key=_median_s, default=None)
        for r in sorted(group, key=_median_s):
            lines.append(_line(r, ours, kind, key))
    return lines


def _line(r: Result, ours: Result | None, kind: str, key: str) -> str:
    op, rate = r.params["op"], r.bytes / _median_s(r)
    name = f"{r.backend} {r.details.get('kernel') or r.variant}"
    bar, ratio, low, high = None, None, 0.0, 0.0
    if ours is not None and r is not ours:
        ratio, low, high = stats.paired_ratio(ours.times_s, r.times_s)
        bar = BARS.get((kind, r.backend), {}).get(op)
        met = low >= bar if bar is not None else None
    else:
        bar = RATES.get(op) if key == "h200_sxm_141gb" and r is ours else None
        met = rate >= bar if bar is not None else None
    cells = [op, r.dtype, binary_bytes(r.params["size"]), name, si(rate, "B/s")]
    cells += [f"{ratio:.3f}", f"{low:.3f} to {high:.3f}"] if ratio else ["", ""]
    cells += ["" if bar is None else f"{bar:.2f}" if bar < 100 else si(bar, "B/s", 3)]
    cells += ["" if met is None else "met" if met else "missed"]
    return f"| {' | '.join(cells)} |"


def _groups(results: Sequence[Result]) -> list[list[Result]]:
    found: dict[tuple, list[Result]] = {}
    for r in results:
        found.setdefault((r.run_id, r.params["op"], r.dtype, r.params["size"]), []).append(r)
    return list(found.values())


def _median_s(r: Result) -> float:
    return stats.median(r.times_s)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda:N or a GPU's UUID")
    parser.add_argument("--op", default="read,write,copy,triad,dot", help="operations, or all")
    parser.add_argument("--dtype", default="fp32,fp64")
    parser.add_argument("--size", help="of each array, a list (default: 4GiB; 256MiB on a CPU)")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="folder of devices' folders")
    given = parser.parse_args(words)
    ops = OPS if given.op == "all" else given.op.split(",")
    try:
        device = resolve(given.device)
        key = device_key(device)
        usual = "256MiB" if device.kind == "cpu" else "4GiB"
        sizes = [parse_bytes(word) for word in (given.size or usual).split(",")]
        folder = given.out / key
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / "memory_vs_peers.jsonl")
        store.check_writable()
        results: list[Result] = []
        said: list[str] = []
        with opened(device) as (bench, shared):
            for dtype, size, op in itertools.product(given.dtype.split(","), sizes, ops):
                found, refused = measure(op, dtype, size, bench, shared)
                said += [f"{op} {dtype} {why}" for why in refused]
                for r in found:
                    store.append(r)
                results += found
                print("\n".join(table(found, device.kind, key)[2:]), flush=True)
        figures, absent = memory_tools.figures(sizes[0]) if device.kind == "cuda" else ([], [])
    except PymicroError as error:
        print(f"memory_vs_peers: {error}", file=sys.stderr)
        return error.exit_code
    others = [f"- {f.tool} {f.op} {f.dtype}: {si(f.bytes_per_s, 'B/s')} ({f.how})" for f in figures]
    text = [f"# Memory streams on {device.name}", "", *table(results, device.kind, key), ""]
    text += [*others, *(f"- {line}" for line in dict.fromkeys([*absent, *said]))]
    (folder / "memory_vs_peers.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    print("\n".join([*others, *absent, *dict.fromkeys(said)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
