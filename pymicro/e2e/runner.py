"""Runs a job and makes a result of it: phases, steps, host probes, clocks, memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from pymicro import results
from pymicro.analysis.cases import of_job
from pymicro.e2e import build, loader, memory
from pymicro.errors import Unavailable
from pymicro.telemetry import Sampler, Telemetry
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import Model
from pymicro.workloads.precisions import PRECISIONS

# A minute's answer: so many steps or tokens, the rest extrapolated and said so.
QUICK_STEPS, QUICK_TOKENS = 10, 24


# GPUs that torch's profiler has watched in this process: how it may end depends on it.
PROFILED: set[str] = set()


@dataclass(frozen=True)
class Choices:
    """How to run, apart from the job itself."""

    device: str = "cpu"
    uuid: str | None = None
    quick: bool = False
    compiled: bool = False
    graphs: bool = False
    weights: str | None = None
    records: str | None = None
    profiled: bool = True
    # Told the seconds that the job will about take, before it begins.
    expect: Callable[[float], None] = lambda seconds: None


def refuse(row: Model, wanted: Job, choices: Choices) -> None:
    """Everything that can be said before torch is busy.

    Raises:
        Unavailable: packages are missing, or memory is; what would fit.
    """
    from pymicro.workbench import free_memory_bytes

    build.need_packages()
    kind = "cuda" if choices.device.startswith("cuda") else "cpu"
    try:
        case = of_job(row, wanted, kind)
    except Unavailable:
        return  # Nobody recorded this job, so torch itself must say whether it fits.
    memory.refuse_too_large(case, _free(choices.device) or free_memory_bytes(kind))


def _free(device: str) -> int | None:
    if not device.startswith("cuda"):
        return None
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def run(row: Model, wanted: Job, choices: Choices, began_s: float) -> results.Result:
    """Run the job; `began_s` is when the process began to load torch, on `perf_counter`.

    Raises:
        Unavailable, UsageError: it cannot run here, see `refuse` and `build`.
    """
    refuse(row, wanted, choices)
    import torch

    try:
        return _run(row, wanted, choices, began_s)
    except torch.OutOfMemoryError as error:
        raise Unavailable(
            f"{row.key} at batch {wanted.batch} and length {wanted.length} ran out of memory."
        ) from error


def _run(row: Model, wanted: Job, choices: Choices, began_s: float) -> results.Result:
    import torch

    from pymicro.e2e.measure import busy, measure, profile
    from pymicro.e2e.probe import HostProbe
    from pymicro.e2e.task import Task

    torch.backends.cuda.matmul.allow_tf32 = PRECISIONS[wanted.precision].allows_tf32
    marks = {"start_up_s": time.perf_counter() - began_s}
    probe = HostProbe(row, wanted, choices.device)
    began_s = time.perf_counter()
    model = _model(row, wanted, choices)
    marks["load_s"] = time.perf_counter() - began_s
    count = max(wanted.records, 2 * wanted.batch)
    vocabulary = model.config.vocab_size
    texts = loader.texts(choices.records, count)
    rows, marks["tokenise_s"] = loader.tokenised(texts, wanted.length, vocabulary)
    task = Task(row, wanted, model, choices.device, rows)
    _remedies(task, choices)
    runs, tokens = _amount(row, wanted, choices)
    if choices.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(choices.device)
    with Sampler(choices.uuid) as sampler:
        before = probe.seconds()
        measured = measure(task, runs, tokens, expect=choices.expect)
        after = probe.seconds()
        told = sampler.between(*measured.window_s) if choices.uuid else None
    # A recorder of operators makes compiled code run as if it were not.
    counted = busy if choices.compiled or choices.graphs else profile
    busy_s, kernels = counted(task) if choices.profiled else ({}, {})
    if choices.profiled and choices.device.startswith("cuda"):
        PROFILED.add(choices.device)
    details = {
        **marks,
        "busy_s": busy_s,
        "kernels": kernels,
        **{k: v for k, v in asdict(measured).items() if k not in ("steps_s", "window_s")},
        "host_probe_s": {"before": before, "after": after},
        "host_products_s": probe.products_s,
        "software": _software(),
        "attention_ran": _ran(model),
        "parameters": sum(p.numel() for p in model.parameters()),
        **_whole(row, wanted, measured, marks),
    }
    return _result(row, wanted, choices, measured.steps_s or measured.runs_s, told, details)


def _amount(row: Model, wanted: Job, choices: Choices) -> tuple[int, int | None]:
    """Runs to make, and tokens of each; None is all."""
    runs = wanted.batches * wanted.epochs
    if not choices.quick:
        return runs, None
    if row.task == "train":
        return min(runs, QUICK_STEPS), None
    return 1, min(wanted.output, QUICK_TOKENS)


def _model(row: Model, wanted: Job, choices: Choices) -> Any:
    arguments = (wanted.precision, wanted.attention, choices.device)
    if choices.weights is not None:
        return build.load(row, choices.weights, *arguments)
    return build.build(row, *arguments)


def _remedies(task: Any, choices: Choices) -> None:
    """Compile the model's forward pass; CUDA graphs are a mode of the compiler."""
    if not (choices.graphs or choices.compiled):
        return
    # A cache that grows would be compiled anew at each token.
    task.use_static_cache()
    if choices.graphs:
        task.tell_graphs()
    task.model.compile(mode="reduce-overhead" if choices.graphs else None)


def _whole(row: Model, wanted: Job, measured: Any, marks: Mapping[str, float]) -> dict[str, Any]:
    """Seconds of the whole job: all its batches, after the first, cold one."""
    batches = wanted.batches * wanted.epochs
    if row.task == "train":
        batch_s = sum(measured.runs_s) / len(measured.runs_s)
        partial = len(measured.runs_s) < batches
    else:
        step_s = median(measured.steps_s) if measured.steps_s else 0.0
        made = len(measured.steps_s) // len(measured.runs_s) + 1
        batch_s = median(measured.runs_s) + (wanted.output - made) * step_s
        partial = made < wanted.output or len(measured.runs_s) < batches
    return {
        "batch_s": batch_s,
        "job_s": batches * batch_s + marks["tokenise_s"],
        "batches": batches,
        "extrapolated": partial,
    }


def _software() -> dict[str, str]:
    from pymicro.e2e.recordings import software

    return software()


def _ran(model: Any) -> str:
    """The attention path that transformers says it took."""
    return str(getattr(model.config, "_attn_implementation", "unknown"))


def _result(
    row: Model,
    wanted: Job,
    choices: Choices,
    steps_s: tuple[float, ...],
    told: Telemetry | None,
    details: Mapping[str, Any],
) -> results.Result:
    how = "graphs" if choices.graphs else "compile" if choices.compiled else ""
    params = {k: v for k, v in asdict(wanted).items() if k not in ("precision", "attention")}
    notes = []
    if details["extrapolated"]:
        notes.append("the whole job's time is extrapolated from a part of it.")
    if choices.weights is None:
        notes.append("random weights of the true configuration: time does not depend on them.")
    return results.Result(
        benchmark="e2e",
        backend="torch",
        variant="-".join(filter(None, (wanted.attention, how))),
        dtype=wanted.precision,
        params=params,
        steps=1,
        times_s=steps_s,
        telemetry=told,
        fill="checkpoint" if choices.weights else "normal",
        timer="host",
        details={
            # A folder's name would say who and where.
            "weights": {None: "random", "hub": "hub"}.get(choices.weights, "folder"),
            "unit": "step" if row.task == "train" else "token",
            **details,
        },
        notes=tuple(notes),
    )
