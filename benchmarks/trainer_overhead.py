"""Does our training step cost what a step of transformers' Trainer costs?

    python benchmarks/trainer_overhead.py --device cuda [--precision fp32]

Times DistilBERT's steps in Trainer (needs accelerate) and in ours, on the same model and sizes,
turn by turn. Expected: Trainer takes a little more, for its callbacks and its bookkeeping; that
difference is the loop's overhead, which our phases leave out.
"""

from __future__ import annotations

import argparse
import itertools
import time
from statistics import median
from typing import Any

from pymicro.e2e import build
from pymicro.e2e.task import Task, synthetic
from pymicro.workloads.jobs import Job, job
from pymicro.workloads.models import MODELS
from pymicro.workloads.precisions import PRECISIONS

_WARM = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tiny", action="store_true", help="a narrow model: the host alone")
    chosen = parser.parse_args()
    row = MODELS["distilbert"]
    wanted = job(row, precision=chosen.precision, batch=chosen.batch, length=chosen.length)
    model = build.build(row, wanted.precision, wanted.attention, chosen.device, tiny=chosen.tiny)
    rows = synthetic(wanted, model.config.vocab_size)
    for turn in range(2):
        ours_s = ours(wanted, model, rows, chosen.device, chosen.steps)
        theirs_s = theirs(wanted, model, rows, chosen.device, chosen.steps)
        print(
            f"turn {turn}: our step {1e3 * ours_s:.2f} ms, Trainer's {1e3 * theirs_s:.2f} ms "
            f"({theirs_s / ours_s - 1:+.1%})",
            flush=True,
        )


def ours(wanted: Job, model: Any, rows: Any, device: str, steps: int) -> float:
    task = Task(MODELS[wanted.model], wanted, model, device, rows)
    stamps = []
    for _ in range(_WARM + steps):
        task.run(lambda phase: None)
        stamps.append(time.perf_counter())
    return _step_s(stamps)


def theirs(wanted: Job, model: Any, rows: Any, device: str, steps: int) -> float:
    import transformers

    stamps: list[float] = []

    class Stamping(transformers.TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            stamps.append(time.perf_counter())

    how = PRECISIONS[wanted.precision]
    arguments = transformers.TrainingArguments(
        output_dir="/tmp/trainer",
        per_device_train_batch_size=wanted.batch,
        max_steps=_WARM + steps,
        logging_steps=10 * steps,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        fp16=how.autocast_torch == "float16",
        bf16=how.autocast_torch == "bfloat16",
        use_cpu=device == "cpu",
    )
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, callbacks=[Stamping()]
    )
    trainer.train()
    return _step_s(stamps)


def _step_s(stamps: list[float]) -> float:
    kept = stamps[_WARM:]
    return median(b - a for a, b in itertools.pairwise(kept))


if __name__ == "__main__":
    main()
