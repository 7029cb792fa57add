"""Does the simulated time of a job agree with the measured one, nothing fitted?

    python benchmarks/e2e_h200.py list                     configurations, one JSON object a line
    python benchmarks/e2e_h200.py run --to runs.jsonl      resumes after a stop
    python benchmarks/e2e_h200.py score runs.jsonl predictions.jsonl [--figure step_s]

Predictions are written to a file before the runs (e2e_predictions.py), a line of
`{"key": …, "busy_s": …, "step_s": …}` each. The host of a rented machine changes its pace within a
second, so a job takes turns with a narrow copy of itself, which tells the host's cost, and the
pace is read at each step of both: a prediction made afterwards takes these and nothing else of the
run. Expected: the median error of a step's time within 10 %, the worst within 25 %.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from pymicro.analysis.host_probe import as_probed, at_pace, job_pace_s, steps_of
from pymicro.workloads.jobs import Job, job
from pymicro.workloads.models import MODELS
from pymicro.workloads.precisions import PRECISIONS

TOKENS, STEPS_A_TURN = 12, 6
TURNS = {"train": 3, "generate": 2}
# A host that waits longer is not slower for it.
LONGEST_BUSY_S = 0.03
# Precision, attention, batch, length, beams; 0 where nothing is generated. In this order: what
# shares a model stands together, and every group of precisions comes early.
_JOBS: dict[str, tuple[tuple[str, str, int, int, int], ...]] = {
    "distilbert fp32": (
        ("fp32", "sdpa", 4, 128, 0),
        ("fp32", "sdpa", 16, 512, 0),
        ("fp32", "sdpa", 48, 128, 0),
        ("fp32", "sdpa", 24, 256, 0),
        ("fp32", "eager", 16, 128, 0),
        ("tf32", "sdpa", 16, 128, 0),
        ("tf32", "sdpa", 32, 256, 0),
        ("tf32", "sdpa", 16, 512, 0),
    ),
    "t5-large fp32": (
        ("fp32", "sdpa", 1, 512, 1),
        ("fp32", "sdpa", 2, 320, 1),
        ("fp32", "sdpa", 16, 320, 1),
        ("fp32", "sdpa", 4, 512, 4),
        ("fp32", "sdpa", 16, 256, 4),
        ("tf32", "sdpa", 48, 256, 1),
    ),
    "distilbert amp": (
        ("amp_fp16", "sdpa", 16, 128, 0),
        ("amp_fp16", "sdpa", 48, 256, 0),
        ("amp_fp16", "sdpa", 16, 512, 0),
        ("amp_bf16", "sdpa", 4, 64, 0),
        ("amp_bf16", "sdpa", 24, 512, 0),
        ("bf16", "sdpa", 32, 256, 0),
    ),
    "t5-large fp16": (
        ("fp16", "sdpa", 4, 320, 1),
        ("fp16", "sdpa", 16, 512, 4),
        ("fp16", "sdpa", 1, 320, 4),
        ("fp16", "sdpa", 64, 320, 1),
    ),
    "t5-large bf16": (
        ("bf16", "sdpa", 2, 512, 1),
        ("bf16", "sdpa", 32, 320, 1),
        ("bf16", "sdpa", 16, 320, 4),
        ("bf16", "sdpa", 4, 256, 4),
    ),
}

# None of the study's jobs: does the machinery run, before a long run rests on it?
_PILOT: dict[str, tuple[tuple[str, str, int, int, int], ...]] = {
    "distilbert": (("amp_fp16", "sdpa", 8, 192, 0), ("fp32", "sdpa", 12, 256, 0)),
    "t5-large": (("fp32", "sdpa", 3, 128, 1), ("fp32", "sdpa", 6, 192, 4)),
}


def configurations(pilot: bool = False) -> list[Job]:
    """Jobs of the two tasks, neighbours sharing a model."""
    found = []
    for words, rows in (_PILOT if pilot else _JOBS).items():
        model = MODELS[words.split()[0]]
        for precision, attention, batch, length, beams in rows:
            more = {"beams": beams, "output": TOKENS} if beams else {}
            found.append(
                job(model, precision=precision, attention=attention, batch=batch, length=length,
                    **more)
            )  # fmt: skip
    return found


def key(wanted: Job) -> str:
    words = (wanted.model, wanted.precision, wanted.attention)
    return "-".join((*words, f"b{wanted.batch}", f"l{wanted.length}", f"k{wanted.beams}"))


def run(
    to: Path,
    device: str,
    budget_s: float,
    only: str,
    predicted: Path | None = None,
    pilot: bool = False,
) -> None:
    """Measure what the file does not have yet, until the budget is spent."""
    busy_s = {}
    if predicted is not None:
        busy_s = {p["key"]: p["busy_s"] for p in map(json.loads, predicted.open())}
    done = {json.loads(line)["key"] for line in to.open()} if to.exists() else set()
    began_s = time.perf_counter()
    models: dict[tuple[str, str, str], Any] = {}
    with to.open("a", encoding="utf-8") as file:
        for wanted in configurations(pilot):
            if key(wanted) in done or not any(word in key(wanted) for word in only.split(",")):
                continue
            if time.perf_counter() - began_s > budget_s:
                print("the budget is spent; run again to go on")
                return
            began_one_s = time.perf_counter()
            try:
                record = one(wanted, device, models, busy_s.get(key(wanted), 0.0))
            except Exception:
                # One job that fails must not cost the others their time on the machine.
                print(f"{key(wanted)} failed:\n{traceback.format_exc()}", flush=True)
                continue
            print(json.dumps(record), file=file, flush=True)
            took_s = time.perf_counter() - began_one_s
            print(_line(record), f"{took_s:.1f} s", flush=True)


def one(
    wanted: Job, device: str, models: dict[tuple[str, str, str], Any], busy_s: float = 0.0
) -> dict[str, Any]:
    """A job's turns with its probe, and then a profiler's pass.

    Args:
        busy_s: what was predicted, before anything ran, of the device's work on a step.
    """
    import torch

    from pymicro.e2e.measure import busy, measure, profile
    from pymicro.e2e.pace import Pace
    from pymicro.e2e.probe import HostProbe
    from pymicro.e2e.task import Task, synthetic
    from pymicro.e2e.turns import alternate
    from pymicro.telemetry import Sampler

    row = MODELS[wanted.model]
    torch.backends.cuda.matmul.allow_tf32 = PRECISIONS[wanted.precision].allows_tf32
    model = _model(wanted, device, models)
    pace = Pace(device, row.task == "train")
    probe = HostProbe(row, wanted, device, pace)
    task = Task(row, wanted, model, device, synthetic(wanted, model.config.vocab_size))
    uuid = None
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    waits_s = min(busy_s, LONGEST_BUSY_S)
    with Sampler(uuid) as sampler:
        measured = measure(task, 2, 3)
        began_s = time.perf_counter()
        seen = alternate(task, probe, pace, waits_s, TURNS[row.task], STEPS_A_TURN)
        told = sampler.between(began_s, time.perf_counter())
    products = {"seconds": probe.products_s, "readings": probe.products_readings}
    turns = {**asdict(seen), "products": products}
    busy_by, kernels = _counted(task, busy, profile)
    return {
        "key": key(wanted),
        "job": asdict(wanted),
        "step_s": median(steps_of(turns)),
        **asdict(measured),
        "busy_s": busy_by,
        "kernels": kernels,
        "turns": turns,
        "expected_busy_s": busy_s,
        "telemetry": told.to_json(),
    }


def _model(wanted: Job, device: str, models: dict[tuple[str, str, str], Any]) -> Any:
    """The job's model; the one before it is forgotten if it was another."""
    import torch

    from pymicro.e2e import build

    wide = PRECISIONS[wanted.precision].recorded_as
    weights = (wanted.model, wide, wanted.attention)
    if weights not in models:
        models.clear()
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        models[weights] = build.build(MODELS[wanted.model], wide, wanted.attention, device)
    return models[weights]


def _counted(task: Any, first: Any, otherwise: Any) -> Any:
    """What the profiler saw; the longer way where this version of it cannot go the short one."""
    try:
        return first(task, task.wanted.output or 2)
    except (RuntimeError, AttributeError, AssertionError) as error:
        print(f"profiler: {error}", flush=True)
        return otherwise(task)


def _line(record: dict[str, Any]) -> str:
    turns = record["turns"]
    step = ("decode",) if record["job"]["output"] else ("step", *_TRAINING)
    host_ms = [1e3 * sum(found.get(p, 0.0) for p in step)
               for found in (as_probed(turns), at_pace(turns))]  # fmt: skip
    busy_ms = 1e3 * sum(record["busy_s"].get(p, 0.0) for p in step)
    count = sum(record["kernels"].get(p, 0) for p in step)
    steps_ms = sorted(1e3 * s for s in steps_of(turns))
    return (
        f"{record['key']}: step {1e3 * record['step_s']:.2f} ms ({steps_ms[0]:.1f} to "
        f"{steps_ms[-1]:.1f}), busy {busy_ms:.2f} ms, {count} kernels, host {host_ms[0]:.2f} ms, "
        f"at the job's pace of {1e6 * job_pace_s(turns, step[-1]):.0f} us {host_ms[1]:.2f} ms, "
        f"{(record['telemetry'].get('sm_clock_hz') or 0) / 1e6:.0f} MHz"
    )


_TRAINING = ("loader", "input", "forward", "backward", "optimiser")


def score(runs: Path, predictions: Path, figure: str = "step_s") -> None:
    """The error of each predicted step, and the two figures that were promised."""
    measured = {r["key"]: r for r in map(json.loads, runs.open())}
    errors = []
    for predicted in map(json.loads, predictions.open()):
        record = measured.get(predicted["key"])
        if record is None:
            continue
        error = predicted[figure] / record["step_s"] - 1
        errors.append(abs(error))
        print(
            f"{predicted['key']}: measured {1e3 * record['step_s']:.2f} ms, "
            f"predicted {1e3 * predicted[figure]:.2f} ms, {error:+.1%}"
        )
    if not errors:
        sys.exit("no prediction has a run")
    print(f"{len(errors)} runs: median error {median(errors):.1%}, worst {max(errors):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("list", "run", "score"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--to", type=Path, default=Path("runs.jsonl"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--predicted", type=Path, help="lines with key and busy_s, for the probes")
    parser.add_argument("--only", default="", help="parts of keys, commas between")
    parser.add_argument("--pilot", action="store_true", help="a few jobs that are not the study's")
    parser.add_argument("--figure", default="step_s", help="which figure of the predictions")
    chosen = parser.parse_args()
    if chosen.what == "list":
        for wanted in configurations():
            print(json.dumps({"key": key(wanted), "job": asdict(wanted)}))
    elif chosen.what == "run":
        run(chosen.to, chosen.device, chosen.budget, chosen.only, chosen.predicted, chosen.pilot)
    else:
        score(*chosen.files, figure=chosen.figure)


if __name__ == "__main__":
    main()
