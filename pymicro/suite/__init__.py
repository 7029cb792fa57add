"""The benchmarks, by name. A benchmark is a value in a module here; adding one is adding a row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points

from pymicro.benchmark import Benchmark
from pymicro.errors import unknown

_MODULES = ("gemm", "bandwidth", "latency", "peak", "launch", "transfer")


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks, those of installed entry points (`pymicro.benchmarks`) last.

    A plugin that does not load is left out: its package must not stop ours.
    """
    own = [import_module(f"pymicro.suite.{name}").BENCHMARK for name in _MODULES]
    return {b.name: b for b in (*own, *_plugins())}


def _plugins() -> Iterator[Benchmark]:
    for entry in entry_points(group="pymicro.benchmarks"):
        with contextlib.suppress(Exception):
            yield entry.load()


def benchmark(name: str) -> Benchmark:
    known = benchmarks()
    if name not in known:
        raise unknown("benchmark", name, known)
    return known[name]
