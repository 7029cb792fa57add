"""One run on one device: its workbench, telemetry, environment, store and progress bar."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from pymicro import environment, results, run
from pymicro.benchmark import Benchmark, Case
from pymicro.cli.options import Common
from pymicro.devices import Device
from pymicro.telemetry import Sampler
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
        self.bench = Workbench(device.kind, device.index)
        self._stack = ExitStack()
        self._sampler: Sampler | None = None

    def __enter__(self) -> Session:
        if self._device.kind == "cuda":
            waiting = "another pymicro measures on this GPU; waiting for it."
            lock = results.device_lock(self._device.uuid, lambda: click.echo(waiting, err=True))
            self._stack.enter_context(lock)
            sampler = Sampler(self._device.uuid, self._device.pci_bus_id)
            self._sampler = self._stack.enter_context(sampler)
        return self

    def __exit__(self, *_: object) -> None:
        self.bench.release()
        self._stack.close()

    def defaults(self, benchmark: Benchmark, dtype: str) -> Mapping[str, Any]:
        """Values for axes that the user left open."""
        peak = self._device.peak_ops_per_s(dtype)
        return {"threads": usable_cores()} | dict(benchmark.defaults(self._device.kind, peak))

    def context(
        self, interrupted: Callable[[], bool], on_case: Callable[[Case, str], None]
    ) -> run.Context:
        """What all results of this run share."""
        uuid = self._device.uuid if self._device.kind == "cuda" else None
        return run.Context(
            bench=self.bench,
            device=self._device.to_json(),
            environment=environment.capture(uuid, label=self._common.label),
            run_id=secrets.token_hex(6),
            telemetry=self._telemetry,
            interrupted=interrupted,
            on_case=on_case,
        )

    def _telemetry(self, windows: list[tuple[float, float]]) -> Mapping[str, Any] | None:
        if self._sampler is None or not windows:
            return None
        return self._sampler.during(windows).to_json()

    def keep(self, result: results.Result) -> None:
        """Append a result to the store at once."""
        if self._store is not None:
            self._store.append(result)

    def headline(self) -> str:
        """The device and how it was recognised, for the head of a table."""
        return self._device.headline()

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[Case, str], None]]:
        """A bar on stderr while cases run; nothing unless stderr is a terminal."""
        if self._common.quiet or not sys.stderr.isatty():
            yield lambda case, phase: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total)

            def on_case(case: Case, phase: str) -> None:
                text = f"{case.backend} {case.variant} {case.dtype}"
                bar.update(task, description=f"{text} {phase}" if phase != "run" else text)
                if phase == "run":
                    bar.advance(task)

            yield on_case
