"""How fast are our CUDA matrix products beside the vendor's library, under lasting load?

    python benchmarks/gemm_vs_vendor.py                       everything: 12 s a row or more
    python benchmarks/gemm_vs_vendor.py --seconds 240         as much as fits; again goes on
    python benchmarks/gemm_vs_vendor.py --rows 'fp16-*,int8-8192'
    python benchmarks/gemm_vs_vendor.py --rows 'fp16-*x*' --quick      shorter blocks
    python benchmarks/gemm_vs_vendor.py --device cpu          our C++ beside torch

Expected on an H200: every interval above its bar in BARS, and at least the vendor's TFLOP per
joule. Both sides multiply the same N(0,1) operands, each checked first; after 2 s of warm-up under
load they take turns in blocks of 0.5 s, ten pairs or more. The vendor is torch (cuBLAS, cuBLASLt).
For int8, torch has cuBLASLt run a kernel that was written for Ampere, and the bars were set beside
it; CuPy's cuBLAS, which runs one of Hopper's, has rows of its own. Rows at 8192 have a burst (after
2 s idle) and a twin on zeros, which draw less power.

A finished row is appended at once to reference/<device>/gemm_vs_vendor.jsonl, and is not measured
again unless --again says so. A table and, with the extra `report`, a picture lie beside it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import gemm_vs_vendor_report as report
import paired

from pymicro import backends, environment
from pymicro.backends.base import offered
from pymicro.benchmark import Case
from pymicro.devices import peaks
from pymicro.devices.cpu import usable_cores
from pymicro.devices.here import Device, resolve
from pymicro.errors import PymicroError, Unavailable, UsageError
from pymicro.results import Result, Store, device_lock, new_run_id
from pymicro.run import why_not_dtype
from pymicro.suite import benchmark
from pymicro.telemetry import Sampler
from pymicro.workbench import Workbench

GEMM = benchmark("gemm")
# Where time is short, and for products of microseconds; results say how long a block was.
QUICK = paired.Effort(block_s=0.15, warm_up_s=0.5, most_s=4.0)
QUICK_SMALL = paired.Effort(block_s=0.05, warm_up_s=0.3, most_s=1.5, batch_s=0.01)
_SMALL = 2**34  # m n k: some tens of microseconds in fp16
REFERENCE = Path(__file__).parent / "reference"
DTYPES = ("fp16", "bf16", "fp8_e4m3", "int8", "tf32", "fp32", "fp64")
OURS = {"cuda": "cuda", "cpu": "native"}
TORCH = "torch"
TWO_VENDORS = ("int8",)  # elsewhere CuPy calls what torch calls

# The least ratio to the vendor, (dtype, batch, m, n, k) -> bar, for the interval to lie above.
_CUBES = {
    "fp16": {1024: 1.10, 2048: 1.10, 4096: 1.03, 8192: 1.03, 16384: 1.03},
    "bf16": {4096: 1.03, 8192: 1.03, 16384: 1.03},
    "fp8_e4m3": {4096: 1.04, 8192: 1.06, 16384: 1.05},
    "int8": {4096: 1.35, 8192: 1.45, 16384: 1.40},
    "tf32": {4096: 1.01, 8192: 1.02},
    "fp32": {4096: 1.08, 8192: 1.08},
    "fp64": {4096: 1.05, 8192: 1.07},
}
# Of DistilBERT's training (batch 32 by 128 tokens; its attention's scores, 12 heads each) and of
# T5-large's generation (one and 32 rows).
_MODELS = ((1, 4096, 768, 768), (1, 4096, 3072, 768), (1, 4096, 768, 3072), (1, 32, 1024, 1024),
           (1, 1, 4096, 1024), (1, 1, 1024, 4096), (384, 128, 128, 64))  # fmt: skip
BARS: dict[str, dict[tuple[str, int, int, int, int], float]] = {
    "cuda": {(d, 1, s, s, s): bar for d, sizes in _CUBES.items() for s, bar in sizes.items()}
    | {(dtype, *shape): 1.0 for dtype in ("fp16", "fp32") for shape in _MODELS},
    "cpu": {
        ("fp32", 1, 2048, 2048, 2048): 0.95,
        ("bf16", 1, 2048, 2048, 2048): 1.3,
        ("int8", 1, 2048, 2048, 2048): 2.0,
    },
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    dtype: str
    m: int
    n: int
    k: int
    fill: str = "normal"
    bar: float | None = None
    batch: int = 1
    vendor: str = TORCH

    @property
    def name(self) -> str:
        shape = f"{self.m}" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        shape = f"{self.batch}x{shape}" if self.batch > 1 else shape
        words = (self.fill if self.fill != "normal" else "", self.vendor * (self.vendor != TORCH))
        return "-".join(filter(None, (self.dtype, shape, *words)))

    @property
    def has_burst(self) -> bool:
        return (self.batch, self.m, self.n, self.k) == (1, 8192, 8192, 8192)


def rows(kind: str) -> list[Row]:
    """The table for `cuda` or `cpu`, rows with a bar first: they come first where time runs out."""
    own = [Row(d, *mnk, bar=bar, batch=many) for (d, many, *mnk), bar in BARS[kind].items()]
    others = [r for r in own if r.dtype in TWO_VENDORS and kind == "cuda"]
    own += [replace(row, vendor="cupy", bar=None) for row in others]
    zeros = [row for row in own if row.has_burst and row.vendor == TORCH]
    return own + [replace(row, fill="zeros", bar=None) for row in zeros]


def chosen(kind: str, words: str | None) -> list[Row]:
    """Rows whose names match one of the patterns; a name of the same form may be none of them.

    Raises:
        UsageError: a word matches nothing and is no row's name.
    """
    table = rows(kind)
    if words is None:
        return table
    found: dict[str, Row] = {}
    for word in words.split(","):
        fitting = [row for row in table if fnmatchcase(row.name, word)] or [_parsed(word)]
        found |= {row.name: row for row in fitting}
    return list(found.values())


def _parsed(word: str) -> Row:
    """A row of its own: `fp16-512`, `fp32-64x32x16`, `fp16-512-zeros`, `fp16-8x64x32x16`, and
    `int8-512-cupy`."""
    dtype, _, rest = word.partition("-")
    shape, _, fill = rest.partition("-")
    vendor = "cupy" if fill.endswith("cupy") and dtype in TWO_VENDORS else TORCH
    fill = fill.removesuffix("cupy").rstrip("-") if vendor == "cupy" else fill
    sides = shape.split("x")
    whole = len(sides) in (1, 3, 4) and all(side.isdecimal() and int(side) > 0 for side in sides)
    if dtype not in DTYPES or not whole or fill not in ("", "zeros"):
        raise UsageError(f"no row is called '{word}', and it is not of the form fp16-4096x768x768.")
    batch, m, n, k = map(int, sides if len(sides) == 4 else ["1", *sides * (3 // len(sides))])
    return Row(dtype, m, n, k, fill or "normal", batch=batch, vendor=vendor)


def is_done(held: Sequence[Result], row: Row) -> bool:
    """Whether both sides of a row are in the store."""
    return report.pair(held, row) is not None


def run_row(
    row: Row, bench: Workbench, effort: paired.Effort, shared: paired.Shared
) -> list[Result]:
    """Ours and the vendor's, in this order; of its ways the one that a short burst shows faster.

    Raises:
        PymicroError: one of the two cannot run here, or is wrong; or what a library raised.
    """
    kind = bench.place.kind
    lacking = why_not_dtype(row.dtype, kind, bench.place.capability)
    if lacking is not None:
        raise Unavailable(lacking)
    sides: list[paired.Side] = []
    refused: list[str] = []
    try:
        for case in _cases(row, kind, bench):
            try:
                sides.append(paired.prepare(GEMM, case, bench, row.fill, 0))
            except PymicroError as error:
                if case.backend == OURS[kind]:
                    raise
                refused.append(f"{paired.name_of(case)}: {error}")
        if len(sides) < 2:
            raise PymicroError("no vendor: " + ("; ".join(refused) or "none is installed"))
        vendor, seconds = paired.fastest(bench.timer, sides[1:])
        both = [sides[0], vendor]
        results = paired.measured(GEMM, bench, both, effort, shared, row.has_burst)
        role = {"row": row.name, "vendors_burst_s": seconds, "refused": refused}
        return [
            replace(
                result, fill=row.fill, seed=0,
                details={**result.details, **role, "is_vendor": bool(index)},
            )
            for index, result in enumerate(results)
        ]  # fmt: skip
    finally:
        for side in sides:
            side.prepared.close()


def _cases(row: Row, kind: str, bench: Workbench) -> Iterator[Case]:
    own = {"threads": usable_cores()} if kind == "cpu" else {"path": "auto"}
    several = {"batch": row.batch} if row.batch > 1 else {}
    params = {"m": row.m, "n": row.n, "k": row.k, "layout": "nt", **several, **own}
    for name in (OURS[kind], row.vendor):
        backend = backends.backend(name)
        variants, _ = offered(backend, GEMM.name, row.dtype, bench.place)
        if name == OURS[kind]:
            variants = variants[:1]
        elif not backend.is_vendor:
            variants = tuple(v for v in variants if v in backend.vendor_variants)
        yield from (Case(GEMM.name, name, v, row.dtype, params) for v in variants)


@contextmanager
def opened(device: Device) -> Iterator[tuple[Workbench, paired.Shared]]:
    """The device, locked against other runs of ours, with telemetry if it is a GPU."""
    bench = Workbench(device.kind, device.index or 0)
    gpu = device.gpu
    facts: dict[str, Any] = {"kind": device.kind, "name": device.name, **peaks.facts(device.spec)}
    with ExitStack() as stack:
        telemetry = lambda windows: None  # noqa: E731
        if gpu is not None:
            stack.enter_context(device_lock(gpu.uuid or "", _say))
            telemetry = stack.enter_context(Sampler(gpu.uuid, gpu.pci_bus_id)).during
        captured = environment.capture(gpu.uuid if gpu else None, label=device_key(device))
        yield bench, paired.Shared(facts, captured, new_run_id(), telemetry)
        bench.release()


def device_key(device: Device) -> str:
    """The folder of a device's results: its key in the catalogue, else `cpu` or `unknown`."""
    if device.kind == "cpu":
        return "cpu"
    return getattr(device.spec, "key", None) or "unknown"


def study(
    table: Sequence[Row],
    bench: Workbench,
    shared: paired.Shared,
    store: Store,
    effort: paired.Effort,
    *,
    seconds: float | None = None,
    again: bool = False,
) -> Mapping[str, str]:
    """Measure what is not in the store yet; returns for each row that gave nothing the reason."""
    held = store.read().results if store.path.exists() else []
    began, failed = time.monotonic(), {}
    for row in table:
        if is_done(held, row) and not again:
            continue
        if seconds is not None and time.monotonic() - began >= seconds:
            _say(f"time is up before {row.name}; the same command goes on from there.")
            break
        try:
            results = run_row(row, bench, _effort(effort, row), shared)
        except Exception as error:  # One row never takes the others along.
            failed[row.name] = paired.reason(error)
            _say(f"{row.name}: {failed[row.name]}")
            if not bench.is_alive():
                _say("the GPU's context is gone; run the same command again for the others.")
                break
            continue
        for result in results:
            store.append(result)
        _say(report.line(row, *results))
    return failed


def _effort(asked: paired.Effort, row: Row) -> paired.Effort:
    is_small = row.batch * row.m * row.n * row.k < _SMALL
    return QUICK_SMALL if asked is QUICK and is_small else asked


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda:N or a GPU's UUID")
    parser.add_argument("--rows", metavar="NAME[,NAME]", help="names or patterns of rows")
    parser.add_argument("--seconds", type=float, help="start no row after this many seconds")
    parser.add_argument("--quick", action="store_true", help="ten pairs of 0.15 s after 0.5 s")
    parser.add_argument("--again", action="store_true", help="also rows that are stored already")
    parser.add_argument("--list", action="store_true", help="print the rows' names and end")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="folder of devices' folders")
    given = parser.parse_args(words)
    try:
        device = resolve(given.device)
        table = chosen(device.kind, given.rows)
        if given.list:
            print("\n".join(row.name for row in table))
            return 0
        folder = given.out / device_key(device)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / "gemm_vs_vendor.jsonl")
        store.check_writable()
        with opened(device) as (bench, shared):
            failed = study(
                table, bench, shared, store, QUICK if given.quick else paired.Effort(),
                seconds=given.seconds, again=given.again,
            )  # fmt: skip
    except PymicroError as error:
        _say(f"gemm_vs_vendor: {error}")
        return error.exit_code
    known = {row.name: row for row in (*rows(device.kind), *table)}
    report.write(folder, store.read().results, list(known.values()), device.name, failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
