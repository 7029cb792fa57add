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
from pymicro.devices.cpu import usable_cores
from pymicro.devices.here import Device
from pymicro.dtypes import DTYPES
from pymicro.environment import pressure
from pymicro.errors import PymicroError
from pymicro.telemetry import Sampler, Telemetry
from pymicro.workbench import Workbench, free_memory_bytes


class Session:
    """Opens everything before the first measurement, so that a bad path or device fails early."""

    def __init__(self, device: Device, common: Common) -> None:
        """Open the store and the device.

        Raises:
            UsageError: the store cannot be written.
            Unavailable: the device cannot be opened.
        """
        self._device, self._common = device, common
        self._store = _open_store(common)
        self.bench = Workbench(device.kind, device.index or 0)
        self._stack = ExitStack()
        self._sampler: Sampler | None = None
        self._note: str | None = None
        self._busy = None
        if device.kind == "cpu":
            cores = usable_cores()
            self._busy = pressure.said(pressure.cpu_pressure(), pressure.load(), cores)

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
        own: dict[str, Any] = {"threads": usable_cores(), "sms": self.bench.place.sm_count}
        own |= {"pair": self.bench.pairs(), "node": "near"}
        free_bytes = free_memory_bytes(self._device.kind)
        suited = benchmark.within(benchmark.defaults(self._device.kind, peak), free_bytes)
        return own | dict(suited) | dict(benchmark.of_format(self._device.kind, dtype))

    def context(
        self, interrupted: Callable[[], bool], on_case: Callable[[Case, str], None]
    ) -> run.Context:
        """What all results of this run share."""
        uuid = self._device.gpu.uuid if self._device.gpu else None
        captured = environment.capture(uuid, label=self._common.label)
        return run.Context(
            bench=self.bench,
            device=self._facts() | self._ceilings(captured),
            environment=captured,
            run_id=results.new_run_id(),
            telemetry=self._telemetry,
            interrupted=interrupted,
            on_case=on_case,
            notes=tuple(note for note in (self._note, self._busy) if note),
        )

    def _facts(self) -> dict[str, Any]:
        device, gpu = self._device, self._device.gpu
        facts: dict[str, Any] = {"kind": device.kind, "name": device.name}
        if gpu is not None:
            facts["capability"] = ".".join(map(str, self.bench.place.capability or ()))
            facts["memory_bytes"] = gpu.memory_bytes
        return facts | dict(peaks.facts(device.spec)) | {"identified": device.note}

    def _ceilings(self, captured: Mapping[str, Any]) -> dict[str, Any]:
        """What probes in the store say that the power of this device allows, by format."""
        if self._device.kind != "cuda" or self._store is None or not self._store.path.exists():
            return {}
        from pymicro.analysis import ceiling

        read = self._store.read().results
        found = ceiling.stored(read, self._facts(), captured)
        return {"ceilings": found} if found else {}

    def _telemetry(self, windows: Sequence[tuple[float, float]]) -> Telemetry | None:
        return self._sampler.during(windows) if self._sampler is not None else None

    def keep(self, result: results.Result) -> None:
        """Append a result to the store at once; a store that fails is given up, with a word."""
        if self._store is None:
            return
        try:
            self._store.append(result)
        except PymicroError as error:
            click.echo(f"pymicro: {error} Results from here on are shown, not kept.", err=True)
            self._store = None

    def headline(self) -> str:
        """The device and how it was recognised, for the head of a table."""
        text = f"{self._device.name} ({self._device.note})"
        return "\n".join([text, *self._device.warnings])

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[Case, str], None]]:
        """A bar on stderr while cases run; nothing unless stderr is a terminal."""
        if self._common.quiet or sys.stderr is None or not sys.stderr.isatty():
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


def _open_store(common: Common) -> results.Store | None:
    """The store, found writable before anything is measured.

    The user's own folder may be read-only or missing, as in a container: then nothing is kept.

    Raises:
        UsageError: the file that was asked for cannot be written.
    """
    if common.no_store:
        return None
    try:
        store = results.Store(common.store)
        store.check_writable()
    except PymicroError as error:
        if common.store is not None:
            raise
        click.echo(f"pymicro: {error} Results are shown, not kept (--store FILE).", err=True)
        return None
    return store
