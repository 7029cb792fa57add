"""Which operators does each job dispatch, in each precision and attention path?

    python benchmarks/record_traces.py --device cuda --to pymicro/data/traces [MODEL …]

Records every row on fake tensors, a few seconds each, and prints how many operators each phase
has. `--check` records small models again on real tensors: both must be the same, which is
expected, and is the reason to trust the fake ones.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from pymicro.backends.base import missing
from pymicro.e2e import recordings
from pymicro.errors import PymicroError
from pymicro.workloads import trace, traces
from pymicro.workloads.models import MODELS, Model

PRECISIONS = {
    "generate": ("fp32", "fp16", "bf16"),
    "train": ("fp32", "amp_fp16", "amp_bf16", "bf16"),
}
CHECKED = (
    ("distilbert", "fp32", "sdpa", 1),
    ("distilbert", "amp_fp16", "sdpa", 1),
    ("distilbert", "fp32", "eager", 1),
    ("t5-small", "fp32", "sdpa", 1),
    ("t5-small", "fp16", "sdpa", 1),
    ("t5-small", "fp32", "eager", 4),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--to", type=Path, default=traces.FOLDER)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--missing", action="store_true", help="only those that do not ship yet")
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    if why := missing("torch", "torch"):
        parser.exit(3, f"record_traces: {why}\n")
    chosen.to.mkdir(parents=True, exist_ok=True)
    todo = [
        (name, precision, attention, beams, chosen.device, chosen.to)
        for name in chosen.models
        for precision in PRECISIONS[MODELS[name].task]
        for attention in ("sdpa", "eager")
        for beams in ((1, 4) if MODELS[name].task == "generate" else (1,))
    ]
    if chosen.missing:
        todo = [one for one in todo if not _ships(*one[:5])]
    if chosen.jobs == 1:
        for one in todo:
            print(record(*one), flush=True)
    else:
        # A fork would inherit a driver that does not survive it.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(chosen.jobs, mp_context=context) as pool:
            for done in as_completed([pool.submit(record, *one) for one in todo]):
                print(done.result(), flush=True)
    if chosen.check:
        for name, precision, attention, beams in CHECKED:
            check(MODELS[name], precision, attention, beams, chosen.device)


def _ships(name: str, precision: str, attention: str, beams: int, device: str) -> bool:
    search = "greedy" if beams == 1 else "beam"
    how = "train" if MODELS[name].task == "train" else search
    return traces.path_of(trace.key_of(name, how, precision, attention, device)).exists()


def record(name: str, precision: str, attention: str, beams: int, device: str, folder: Path) -> str:
    """Record and save one trace; a line that says what came of it."""
    import torch

    torch.set_num_threads(1)
    began_s = time.perf_counter()
    try:
        made = recordings.record(MODELS[name], precision, attention, device, beams)
    except (PymicroError, RuntimeError, TypeError) as error:
        return f"{name} {precision} {attention} {beams}: {type(error).__name__}: {error}"
    trace.save(made, traces.path_of(made.key, folder))
    counts = " ".join(f"{p.name} {len(p.operators)}" for p in made.phases)
    alone = sum(trace.UNLESS in o.details for p in made.phases for o in p.operators)
    took_s = time.perf_counter() - began_s
    return f"{made.key}: {counts}; {alone} not at a batch of one; {took_s:.1f} s"


def check(row: Model, precision: str, attention: str, beams: int, device: str) -> None:
    fake = recordings.record(row, precision, attention, device, beams)
    try:
        real = recordings.record(row, precision, attention, device, beams, fake=False)
    except PymicroError as error:
        print(f"{fake.key}, real tensors: {error}", flush=True)
        return
    for one, other in zip(fake.phases, real.phases, strict=True):
        same = one.operators == other.operators
        print(f"{fake.key} {one.name}: {'the same' if same else 'DIFFERS'} on real tensors")
        pairs = enumerate(zip(one.operators, other.operators, strict=False))
        differing = [(n, a, b) for n, (a, b) in pairs if a != b]
        for n, a, b in differing[:3]:
            print(f"  {n}: {a}\n     {b}", flush=True)


if __name__ == "__main__":
    main()
