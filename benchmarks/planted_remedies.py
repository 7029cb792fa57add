"""Does a step gain what `pymicro explain --trace` says its first reason costs?

    python benchmarks/planted_remedies.py               a CUDA GPU; half a minute

Each planted job runs untraced, then its twin in which the reason alone was taken away, in turns.
Beside the gain stands what the split gave the reason, from a trace recorded just before. Taking a
reason away gains about its time, more where other waits go with it, less where something else then
holds up the step. Expected: within a quarter; products in TF32 gain more than the half that counts
as avoidable. It has not yet run on hardware.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import planted_jobs as jobs
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from pymicro import profiling
from pymicro.analysis import profile

STEPS, TURNS = 10, 3


def tf32() -> jobs.Step:
    step = jobs.vision_transformer("cuda", False)

    def with_tf32() -> object:
        torch.set_float32_matmul_precision("high")
        try:
            return step()
        finally:
            torch.set_float32_matmul_precision("highest")

    return with_tf32


def norms_left_on_the_device() -> jobs.Step:
    """As `item_in_every_step`, but the norms are added up where they are."""
    model, data = jobs._deep("cuda", False)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        total = loss.detach()
        for parameter in model.parameters():
            assert parameter.grad is not None
            total = total + parameter.grad.norm() ** 2
        optimizer.step()
        return total

    return step


def loader_with_workers() -> jobs.Step:
    batches: Iterator[torch.Tensor] = iter(
        DataLoader(jobs._SlowPictures(), batch_size=16, num_workers=12, prefetch_factor=4)
    )
    width = 128
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 3), torch.nn.ReLU(), torch.nn.Conv2d(width, width, 3),
        torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(width, 10),
    ).to("cuda")  # fmt: skip
    return jobs._trainer(model, lambda: model(next(batches).to("cuda")).square().mean())


def captured(job: Callable[[str, bool], jobs.Step]) -> Callable[[], jobs.Step]:
    def make() -> jobs.Step:
        step = job("cuda", False)
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay

    return make


def pinned_copies() -> jobs.Step:
    model = torch.nn.Linear(1024, 1024).to("cuda")
    data = torch.randn(1 << 16, 1024).pin_memory()
    back = torch.empty_like(data).pin_memory()

    @torch.no_grad()
    def step() -> torch.Tensor:
        found = F.linear(data.to("cuda", non_blocking=True), model.weight, model.bias)
        back.copy_(found)
        return back

    return step


REMEDIES: dict[str, Callable[[], jobs.Step]] = {
    "vision-transformer": tf32,
    "item-in-every-step": norms_left_on_the_device,
    "slow-loader": loader_with_workers,
    "tiny-kernels": captured(jobs.tiny_kernels),
    "diffusion": captured(jobs.diffusion),
    "pageable-copies": pinned_copies,
}


def step_s(step: jobs.Step) -> float:
    torch.cuda.synchronize()
    begin_s = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin_s) / STEPS


def main() -> int:
    for name, make in REMEDIES.items():
        plain, better = jobs.JOBS[name]("cuda", False), make()
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "trace.json"
            with profiling.trace(path, skip=8, steps=3) as done:
                for _ in range(12):
                    plain()
                    done()
            cause = profile.explain(path).causes[0]
        step_s(better)
        turns = [(step_s(plain), step_s(better)) for _ in range(TURNS)]
        before_s, after_s = (statistics.median(column) for column in zip(*turns, strict=True))
        gain_s = before_s - after_s
        print(
            f"{name:20} {before_s * 1e3:8.2f} ms, without the reason {after_s * 1e3:8.2f} ms: "
            f"gains {gain_s * 1e3:7.2f} ms; {cause.code} was given {cause.s * 1e3:7.2f} ms "
            f"({cause.s / gain_s:.2f} of the gain)",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
