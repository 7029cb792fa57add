"""Does the simulated time of a job agree with the measured one, nothing fitted?

    python benchmarks/e2e_h200.py list                     configurations, one JSON object a line
    python benchmarks/e2e_h200.py run --to runs.jsonl      probe, run, probe; resumes after a stop
    python benchmarks/e2e_h200.py score runs.jsonl predictions.jsonl

Predictions are written to a file before the runs, a line of `{"key": …, "step_s": …, "busy_s": …}`
each, with the host's cost left to the probes. The probes take `busy_s` of `--predicted`, to keep
the device busy for so long beside the probed host. Expected: the median error of a step's time
within 10 %, the worst within 25 %.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from pymicro.workloads.jobs import Job, job
from pymicro.workloads.models import MODELS
from pymicro.workloads.precisions import PRECISIONS

TRAIN_STEPS, TOKENS = 8, 24
# Two probes that differ by more than this say that the host drifted: the run is repeated once.
DRIFT, MOST_TRIES = 0.10, 2
# A host that waits longer is not slower for it.
LONGEST_BUSY_S = 0.03
# With `--turns`, probe and run take turns, so that a drift within a second meets both alike.
TURNS, STEPS_A_TURN, TOKENS_A_TURN, WARM_TOKENS = 0, 4, 8, 3
_PROFILED: set[tuple[str, str]] = set()
_TRAIN = [
    (precision, batch, length)
    for precision, sizes in (
        ("fp32", ((32, 128), (8, 128), (32, 512), (64, 256))),
        ("tf32", ((32, 128), (8, 512), (64, 256))),
        ("amp_fp16", ((32, 128), (8, 128), (32, 512), (64, 256))),
        ("amp_bf16", ((32, 128), (64, 512))),
    )
    for batch, length in sizes
]
_GENERATE = [
    ("fp32", 1, 320, 1),
    ("fp32", 8, 320, 1),
    ("fp32", 32, 320, 1),
    ("fp32", 1, 320, 4),
    ("fp32", 32, 320, 4),
    ("tf32", 32, 512, 1),
    ("fp16", 1, 320, 1),
    ("fp16", 32, 512, 1),
    ("fp16", 8, 320, 4),
    ("bf16", 1, 320, 1),
    ("bf16", 8, 320, 4),
    ("bf16", 64, 512, 4),
    ("fp32", 1, 64, 1),
]


def configurations() -> list[Job]:
    """26 jobs of the two tasks, neighbours sharing a model."""
    train = [
        job(MODELS["distilbert"], precision=p, batch=b, length=n, attention="sdpa")
        for p, b, n in _TRAIN
    ]
    generate = [
        job(
            MODELS["t5-large"],
            precision=p,
            batch=b,
            length=n,
            beams=beams,
            output=TOKENS,
            attention="sdpa",
        )
        for p, b, n, beams in _GENERATE
    ]
    return train + generate


def key(wanted: Job) -> str:
    words = (wanted.model, wanted.precision, wanted.attention)
    return "-".join((*words, f"b{wanted.batch}", f"l{wanted.length}", f"k{wanted.beams}"))


def run(to: Path, device: str, budget_s: float, only: str, predicted: Path | None = None) -> None:
    """Measure what the file does not have yet, until the budget is spent."""
    busy_s = {}
    if predicted is not None:
        busy_s = {p["key"]: p["busy_s"] for p in map(json.loads, predicted.open())}
    done = {json.loads(line)["key"] for line in to.open()} if to.exists() else set()
    began_s = time.perf_counter()
    models: dict[tuple[str, str], Any] = {}
    with to.open("a", encoding="utf-8") as file:
        for wanted in configurations():
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
    wanted: Job, device: str, models: dict[tuple[str, str], Any], busy_s: float = 0.0
) -> dict[str, Any]:
    """Probe, run, probe, and again where the two probes differ.

    Args:
        busy_s: what was predicted, before anything ran, of the device's work on a step.
    """
    import torch

    from pymicro.e2e import build
    from pymicro.e2e.measure import alternating, busy, measure, profile
    from pymicro.e2e.probe import HostProbe
    from pymicro.e2e.task import Task, synthetic
    from pymicro.telemetry import Sampler

    row = MODELS[wanted.model]
    torch.backends.cuda.matmul.allow_tf32 = PRECISIONS[wanted.precision].allows_tf32
    wide = PRECISIONS[wanted.precision].recorded_as
    weights = (wanted.model, wide)
    if weights not in models:
        models.clear()
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        models[weights] = build.build(row, wide, wanted.attention, device)
    model = models[weights]
    probe = HostProbe(row, wanted, device)
    task = Task(row, wanted, model, device, synthetic(wanted, model.config.vocab_size))
    runs = TRAIN_STEPS if row.task == "train" else 1
    uuid = None
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    tries = []
    turns: list[dict[str, float]] = []
    steps_s: list[float] = []
    expected_s = min(busy_s, LONGEST_BUSY_S)
    with Sampler(uuid) as sampler:
        if TURNS:
            measured = measure(task, 2, WARM_TOKENS)
            few = 2 if row.task == "train" else 1
            ask = partial(_append, turns, probe, expected_s, few)
            steps_s = alternating(task, ask, TURNS, STEPS_A_TURN, TOKENS_A_TURN)
            half = len(turns) // 2
            tries.append((_middle(turns[:half]), measured, _middle(turns[half:])))
        while not tries or (len(tries) < MOST_TRIES and _drifted(tries[-1])):
            before = probe.seconds(expected_s)
            measured = measure(task, runs)
            tries.append((before, measured, probe.seconds(expected_s)))
        told = sampler.between(*tries[-1][1].window_s)
    before, measured, after = tries[-1]
    alone = probe.seconds() if row.task == "train" else {}
    # Phase by phase takes seconds, so only where a precision is met first.
    is_first = weights not in _PROFILED
    _PROFILED.add(weights)
    busy_by, kernels = _counted(task, profile if is_first else busy, profile)
    return {
        "key": key(wanted),
        "job": asdict(wanted),
        "tries": len(tries),
        "alternating": {"step_s": steps_s, "host_probe_s": turns},
        "step_s": median(steps_s or measured.steps_s),
        "run_s": median(measured.runs_s),
        **asdict(measured),
        "busy_s": busy_by,
        "kernels": kernels,
        "host_probe_s": {"before": before, "after": after},
        "host_products_s": probe.products_s,
        "host_device_idle_s": alone,
        "expected_busy_s": busy_s,
        "telemetry": told.to_json(),
    }


def _append(turns: list[Any], probe: Any, busy_s: float, steps: int) -> None:
    turns.append(probe.seconds(busy_s, steps))


def _drifted(one_try: tuple[dict[str, float], Any, dict[str, float]]) -> bool:
    """Whether the host's cost changed beside the run; turns that alternate need no second try."""
    before, _, after = one_try
    return not TURNS and abs(sum(before.values()) / sum(after.values()) - 1) > DRIFT


def _middle(probes: list[dict[str, float]]) -> dict[str, float]:
    """The median of each phase."""
    return {phase: median(probe[phase] for probe in probes) for phase in probes[0]}


def _counted(task: Any, first: Any, otherwise: Any) -> Any:
    """What the profiler saw; the longer way where this version of it cannot go the short one."""
    try:
        return first(task)
    except (RuntimeError, AttributeError, AssertionError) as error:
        print(f"profiler: {error}", flush=True)
        return otherwise(task)


def _line(record: dict[str, Any]) -> str:
    probe = record["host_probe_s"]
    step = ("decode",) if record["job"]["output"] else ("step", *probe["before"])
    host_ms = [1e3 * sum(probe[when].get(p, 0.0) for p in step) for when in ("before", "after")]
    busy_ms = 1e3 * sum(record["busy_s"].get(p, 0.0) for p in step)
    count = sum(record["kernels"].get(p, 0) for p in step)
    return (
        f"{record['key']}: step {1e3 * record['step_s']:.2f} ms, busy {busy_ms:.2f} ms, "
        f"{count} kernels, host {host_ms[0]:.2f} and {host_ms[1]:.2f} ms, "
        f"{(record['telemetry'].get('sm_clock_hz') or 0) / 1e6:.0f} MHz"
    )


def score(runs: Path, predictions: Path) -> None:
    """The error of each predicted step, and the two figures that were promised."""
    measured = {r["key"]: r for r in map(json.loads, runs.open())}
    errors = []
    for predicted in map(json.loads, predictions.open()):
        record = measured.get(predicted["key"])
        if record is None:
            continue
        error = predicted["step_s"] / record["step_s"] - 1
        errors.append(abs(error))
        print(
            f"{predicted['key']}: measured {1e3 * record['step_s']:.2f} ms, "
            f"predicted {1e3 * predicted['step_s']:.2f} ms, {error:+.1%}"
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
    parser.add_argument("--only", default="", help="part of a key")
    parser.add_argument("--turns", type=int, default=0, help="of probe and run, alternating")
    chosen = parser.parse_args()
    globals()["TURNS"] = chosen.turns
    if chosen.what == "list":
        for wanted in configurations():
            print(json.dumps({"key": key(wanted), "job": asdict(wanted)}))
    elif chosen.what == "run":
        run(chosen.to, chosen.device, chosen.budget, chosen.only, chosen.predicted)
    else:
        score(*chosen.files)


if __name__ == "__main__":
    main()
