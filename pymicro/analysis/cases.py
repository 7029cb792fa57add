"""A job of a model, ready to be simulated: its parameters, its trace, its program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pymicro.analysis.program import Program, compiled
from pymicro.analysis.simulate import Config
from pymicro.errors import Unavailable
from pymicro.workloads import traces
from pymicro.workloads.jobs import Job, job, sizes_of
from pymicro.workloads.models import Model, model
from pymicro.workloads.precisions import PRECISIONS
from pymicro.workloads.trace import Trace


@dataclass(frozen=True)
class Case:
    """One job, with the remedies that are tried on it.

    Attributes:
        device: `cuda` or `cpu`: whose operators the trace holds.
        graphs: kernels replayed from a graph. fused: chains of operators compiled into one.
        start_s: seconds before the first batch that the time includes.
        notes: what a reader must know of the trace.
    """

    model: Model
    job: Job
    trace: Trace
    graphs: bool = False
    fused: bool = False
    start_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        return _program(self)

    @property
    def config(self) -> Config:
        return Config(
            batches=self.job.batches * self.job.epochs,
            start_s=self.start_s,
            tf32=PRECISIONS[self.job.precision].allows_tf32,
            graphs=self.graphs or self.fused,
        )

    @property
    def units(self) -> tuple[int, str]:
        """How many steps or tokens the job has, and what one is called."""
        batches = self.config.batches
        if self.trace.task == "train":
            return batches, "step"
        return batches * self.job.output, "token"

    @property
    def label(self) -> str:
        """The job in a line."""
        j = self.job
        words = [f"{self.model.title}, {j.precision}", f"batch {j.batch}", f"length {j.length}"]
        words += [f"{j.output} tokens"] if j.output else []
        words += [f"{j.beams} beams"] if j.beams > 1 else []
        words += [f"{j.records} record{'s' * (j.records > 1)}"] if j.records else []
        words += [f"{j.epochs} epochs"] if j.epochs > 1 else []
        return ", ".join([*words, f"{self.trace.attention} attention"])


def case(name: str, device: str = "cuda", folder: Path = traces.FOLDER, **given: Any) -> Case:
    """The case of a model's job; `given` are fields of `Job`, None for what is usual.

    Raises:
        UsageError: an unknown model or a parameter that cannot be.
        Unavailable: nobody recorded its trace.
    """
    row = model(name)
    return of_job(row, job(row, **given), device, folder)


# Cases that were made, and programs by trace, job and fusion: a comparison asks for the same ones
# again and again.
_programs: dict[tuple[int, Job, bool], tuple[Trace, Program]] = {}
_MOST_PROGRAMS = 64


def _program(case: Case) -> Program:
    key = (id(case.trace), case.job, case.fused)
    if key not in _programs:
        if len(_programs) >= _MOST_PROGRAMS:
            _programs.clear()
        values = dict(sizes_of(case.model, case.job))
        # The trace is kept beside its program, so that its id stays its own.
        _programs[key] = (case.trace, compiled(case.trace, values, case.fused))
    return _programs[key][1]


@lru_cache(maxsize=32)
def _trace(
    model: str, precision: str, attention: str, device: str, beams: int, folder: Path
) -> Trace:
    return traces.find(model, precision, attention, device, beams, folder)


def of_job(row: Model, wanted: Job, device: str = "cuda", folder: Path = traces.FOLDER) -> Case:
    """The case of a job that is already known."""
    notes: tuple[str, ...] = ()
    how = (row.key, wanted.precision, wanted.attention)
    try:
        trace = _trace(*how, device, wanted.beams, folder)
    except Unavailable:
        if device == "cpu":
            raise
        trace = _trace(*how, "cpu", wanted.beams, folder)
        notes = ("operators as a CPU dispatches them; a GPU's differ a little.",)
    return Case(row, wanted, trace, notes=notes)


def changed(before: Case, changes: Mapping[str, Any], folder: Path = traces.FOLDER) -> Case:
    """The case with other parameters of its job, which may be another trace."""
    made = of_job(before.model, replace(before.job, **changes), before.trace.device, folder)
    return replace(made, graphs=before.graphs, fused=before.fused, start_s=before.start_s)
