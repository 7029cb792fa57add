"""How many kernels does each operator of a real job launch on this GPU, and which?

    python benchmarks/kernels_per_operator.py --to kernels.jsonl [--from 9]

One device's lines, as a table, are `reference/<device>/kernels.csv`, from which fit_primitives.py
takes what operators launch.

Runs every model under torch's profiler, a training step or a prompt with a few tokens, and writes
one line for each phase, operator, dtype and shape. Most operators are expected to launch one
kernel; the others are why a trace alone cannot tell the number of launches.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from pymicro.e2e import build, generating, kernels, training
from pymicro.e2e.generating import Enough, Generating
from pymicro.e2e.recordings import software
from pymicro.e2e.training import Training
from pymicro.workloads.jobs import Job, job
from pymicro.workloads.models import MODELS
from pymicro.workloads.precisions import PRECISIONS

_STEPS = 3
# (model, precision, attention, batch, length, beams); the first of a model also serves its kin.
CASES = (
    ("distilbert", "fp32", "sdpa", 32, 128, 1),
    ("distilbert", "tf32", "sdpa", 32, 128, 1),
    ("distilbert", "amp_fp16", "sdpa", 32, 128, 1),
    ("distilbert", "amp_bf16", "sdpa", 32, 128, 1),
    ("distilbert", "fp32", "eager", 32, 128, 1),
    ("distilbert", "amp_fp16", "sdpa", 32, 512, 1),
    ("t5-large", "fp32", "sdpa", 1, 320, 1),
    ("t5-large", "fp32", "eager", 1, 320, 1),
    ("t5-large", "fp16", "sdpa", 1, 320, 1),
    ("t5-large", "fp16", "eager", 1, 320, 1),
    ("t5-large", "bf16", "sdpa", 1, 320, 1),
    ("t5-large", "fp32", "sdpa", 8, 320, 4),
    ("t5-large", "fp16", "sdpa", 8, 320, 4),
    ("bert-large", "amp_bf16", "sdpa", 32, 128, 1),
    ("gpt2", "fp16", "sdpa", 8, 128, 1),
    ("llama-1b", "bf16", "sdpa", 8, 128, 1),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--from", dest="first", type=int, default=0, help="cases to leave out")
    chosen = parser.parse_args()
    head = {
        **software(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "cuda": torch.version.cuda,
        "cublas": torch.backends.cuda.preferred_blas_library().name,
    }
    with chosen.to.open("w", encoding="utf-8") as file:
        print(json.dumps(head), file=file, flush=True)
        for model, precision, attention, batch, length, beams in CASES[chosen.first :]:
            began_s = time.perf_counter()
            row = MODELS[model]
            more = {"output": 32, "beams": beams} if row.task == "generate" else {}
            wanted = job(
                row, precision=precision, attention=attention, batch=batch, length=length, **more
            )
            rows = measure(wanted)
            for line in kernels.summary(rows):
                print(json.dumps({**vars(wanted), **line}), file=file, flush=True)
            count = sum(len(launched.kernels) for _, _, launched in rows)
            busy_s = sum(launched.busy_s for _, _, launched in rows)
            took_s = time.perf_counter() - began_s
            print(
                f"{model} {precision} {attention} {batch}x{length}, {beams} beam(s): {len(rows)} "
                f"operators, {count} kernels, busy {busy_s * 1e3:.2f} ms; {took_s:.1f} s",
                flush=True,
            )
            torch.cuda.empty_cache()


def measure(wanted: Job) -> list[tuple[str, Any, kernels.Launched]]:
    row = MODELS[wanted.model]
    torch.backends.cuda.matmul.allow_tf32 = PRECISIONS[wanted.precision].allows_tf32
    model = build.build(row, wanted.precision, wanted.attention, "cuda")
    if row.task == "train":
        return _train(model, wanted)
    prompt = generating.prompt(wanted.batch, wanted.length, model.config.vocab_size, "cuda")
    task = Generating(model, wanted.output, wanted.beams)

    def work(listener: Any) -> None:
        def at(phase: str, made: int) -> None:
            if made == _STEPS:
                raise Enough
            listener(phase)

        task.run(prompt, at)

    work(lambda phase: None)
    return kernels.profile(lambda counting: work(counting.at), "cuda", {})


def _train(model: Any, wanted: Job) -> list[tuple[str, Any, kernels.Launched]]:
    task = Training(model, wanted.precision, "cuda")
    batch = training.host_batch(wanted.batch, wanted.length, model.config.vocab_size, pinned=True)
    for _ in range(2):
        task.step(batch)
    return kernels.profile(lambda counting: task.step(batch, counting.at), "cuda", {})


if __name__ == "__main__":
    main()
