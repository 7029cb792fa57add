"""One run on one device: its workbench, telemetry, environment, store and progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from pymicro import environment, results, run
from pymicro.benchmark import Benchmark, Case
from pymicro.cli.options import Common
from pymicro.devices import peaks
from pymicro.devices.here import Device
from pymicro.dtypes import DTYPES
from pymicro.telemetry import Sampler, Telemetry
from pymicro.workbench import Workbench, usable_cores


class Session:
    """Opens everything before the first measurement, so that a bad path or device fails early."""

    def __init__(self, device: Device, common: Common) -> None:
        """Open the store and the device.

        Raises:
            UsageError: the store cannot be written.
            Unavailable: the device cannot be opened.
        """
        self._device, self._common = device, common
        self._store = None if common.no_store else results.Store(common.store)
        if self._store is not None:
            self._store.check_writable()
        self.bench = Workbench(device.kind, device.index or 0)
        self._stack = ExitStack()
        self._sampler: Sampler | None = None
        self._note: str | None = None

    def __enter__(self) -> Session:
        if self._device.kind == "cuda":
            gpu = self._device.gpu
            uuid, bus_id = (gpu.uuid, gpu.pci_bus_id) if gpu else (None, None)
            lock = results.device_lock(uuid or "", lambda said: click.echo(said, err=True))
            self._note = self._stack.enter_context(lock)
            self._sampler = self._stack.enter_context(Sampler(uuid, bus_id))
        return self

    def __exit__(self, *_: object) -> None:
        self.bench.release()
        self._stack.close()

    def defaults(self, benchmark: Benchmark, dtype: str) -> Mapping[str, Any]:
        """Values for axes that the user left open."""
        peak = peaks.peak_ops_per_s(self._device.spec, DTYPES[dtype])
        own = {"threads": usable_cores(), "sms": self.bench.place.sm_count}
        return own | dict(benchmark.defaults(self._device.kind, peak))

    def context(
        self, interrupted: Callable[[], bool], on_case: Callable[[Case, str], None]
    ) -> run.Context:
        """What all results of this run share."""
        uuid = self._device.gpu.uuid if self._device.gpu else None
        return run.Context(
            bench=self.bench,
            device=self._facts(),
            environment=environment.capture(uuid, label=self._common.label),
            run_id=results.new_run_id(),
            telemetry=self._telemetry,
            interrupted=interrupted,
            on_case=on_case,
        )

    def _facts(self) -> dict[str, Any]:
        device, gpu = self._device, self._device.gpu
        facts: dict[str, Any] = {"kind": device.kind, "name": device.name}
        if gpu is not None:
            facts["capability"] = ".".join(map(str, self.bench.place.capability or ()))
            facts["memory_bytes"] = gpu.memory_bytes
        return facts | dict(peaks.facts(device.spec)) | {"identified": device.note}

    def _telemetry(self, windows: Sequence[tuple[float, float]]) -> Telemetry | None:
        return self._sampler.during(windows) if self._sampler is not None else None

    def keep(self, result: results.Result) -> None:
        """Append a result to the store at once."""
        if self._store is not None:
            self._store.append(result)

    def headline(self) -> str:
        """The device and how it was recognised, for the head of a table."""
        text = f"{self._device.name} ({self._device.note})"
        return "\n".join([text, *self._device.warnings, *filter(None, [self._note])])

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[Case, str], None]]:
        """A bar on stderr while cases run; nothing unless stderr is a terminal."""
        if self._common.quiet or not sys.stderr.isatty():
            yield lambda case, phase: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total)

            def on_case(case: Case, phase: str) -> None:
                text = f"{case.backend} {case.variant} {case.dtype}"
                bar.update(task, description=f"{text} {phase}" if phase != "run" else text)
                if phase == "run":
                    bar.advance(task)

            yield on_case
