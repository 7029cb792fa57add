"""A job made ready to run: its model on the device and its data, and one call that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from pymicro.e2e import loader
from pymicro.e2e.generating import Enough, Generating
from pymicro.e2e.training import Training
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import Model

Listener = Callable[[str], None]


class Task:
    """One step of training, or one batch of prompts, at each call of `run`.

    Attributes:
        tokens: new tokens that a run makes; a steady step of training makes none.
    """

    def __init__(
        self, row: Model, wanted: Job, model: Any, device: str, rows: list[dict[str, Any]]
    ) -> None:
        """`rows` are tokenised records, at least a batch of them."""
        self.row, self.wanted, self.device, self.model = row, wanted, device, model
        self._batches: Iterator[dict[str, Any]] = loader.batches(
            rows, wanted.batch, pinned=device.startswith("cuda")
        )
        self._training: Training | None = None
        self._generating: Generating | None = None
        self._begin: Callable[[], None] = lambda: None
        if row.task == "train":
            self._training = Training(model, wanted.precision, device)
        else:
            self._generating = Generating(model, wanted.output, wanted.beams)

    def run(self, at: Listener, tokens: int | None = None) -> None:
        """Run once, telling each phase as it begins.

        Args:
            tokens: stop generating after so many, the first included; None makes all.
        """
        self._begin()
        at("loader")
        batch = next(self._batches)
        if self._training is not None:
            self._training.step(batch, at)
            return
        assert self._generating is not None
        at("input")
        prompt = {name: batch[name].to(self.device) for name in ("input_ids", "attention_mask")}

        def told(phase: str, made: int) -> None:
            if tokens is not None and made == tokens:
                raise Enough
            at(phase)

        self._generating.run(prompt, told)

    def use_static_cache(self) -> None:
        """A cache of fixed size, without which a graph cannot be replayed step after step."""
        if self._generating is not None:
            self._generating.settings.cache_implementation = "static"
            # With such a cache `generate` compiles by itself, in a mode of its own choice.
            self._generating.settings.disable_compile = True

    def tell_graphs(self) -> None:
        """Before each run, say that what earlier replays of a graph returned is done with."""
        import torch

        self._begin = torch.compiler.cudagraph_mark_step_begin

    def loader_s(self, count: int) -> float:
        """Median seconds to make one batch in main memory."""
        spans = []
        for _ in range(count):
            began_s = time.perf_counter()
            next(self._batches)
            spans.append(time.perf_counter() - began_s)
        return median(spans)


def synthetic(wanted: Job, vocabulary: int) -> list[dict[str, Any]]:
    """Rows of random ids, two batches of them: all that a measurement of steps needs."""
    import random

    draw = random.Random(0)
    return [
        {
            "input_ids": [draw.randrange(3, vocabulary) for _ in range(wanted.length)],
            "attention_mask": [1] * wanted.length,
            "labels": number % 2,
        }
        for number in range(2 * wanted.batch)
    ]
