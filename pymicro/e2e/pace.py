"""A host's pace: how long a fixed piece of its work takes now, read wherever a step begins.

A rented host slows down and speeds up within a second, and its threads do so apart, as they sit on
other cores. The piece is what a job's host does all day, two layers of torch modules on tensors of
a few KB, so what slows the one slows the other. Nothing of a job enters.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

_LAYERS, _WIDTH, _TOKENS, _HEADS = 2, 64, 4, 2

# Seconds of the thread that issues a model's operators, and of the one that goes backward.
Reading = tuple[float, float]


class Pace:
    """The gauge; a reading takes a server's host 1 to 2 ms, and as much again where one trains."""

    def __init__(self, device: str, is_training: bool) -> None:
        import torch

        self._layers = torch.nn.Sequential(*(_layer() for _ in range(_LAYERS))).to(device)
        self._weights = tuple(self._layers.parameters())
        self._tokens = torch.ones(1, _TOKENS, _WIDTH, device=device)
        self._is_training = is_training
        for _ in range(3):
            self.read()

    def read(self) -> Reading:
        """Seconds of the main thread's piece, and of the backward thread's, 0 if none trains."""
        import torch

        began_s = time.perf_counter()
        with torch.set_grad_enabled(self._is_training):
            out = self._layers(self._tokens)
        forward_s = time.perf_counter() - began_s
        if not self._is_training:
            return forward_s, 0.0
        total = out.sum()
        began_s = time.perf_counter()
        torch.autograd.grad(total, self._weights)
        return forward_s, time.perf_counter() - began_s


def _layer() -> Any:
    import torch

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(_WIDTH)
            self.into = torch.nn.ModuleList(torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(3))
            self.out = torch.nn.Linear(_WIDTH, _WIDTH)
            self.wide = torch.nn.Linear(_WIDTH, 2 * _WIDTH)
            self.narrow = torch.nn.Linear(2 * _WIDTH, _WIDTH)

        def forward(self, tokens: Any) -> Any:
            normal = self.norm(tokens)
            shape = (1, _TOKENS, _HEADS, _WIDTH // _HEADS)
            q, k, v = (into(normal).view(shape).transpose(1, 2) for into in self.into)
            shares = torch.softmax(q @ k.transpose(-1, -2) / 8.0, dim=-1)
            heard = (shares @ v).transpose(1, 2).reshape(tokens.shape)
            tokens = tokens + self.out(heard)
            return tokens + self.narrow(torch.relu(self.wide(tokens)))

    return Layer()


class Paced:
    """A listener of a job that times its phases and reads the pace between some of them.

    Attributes:
        spans: (phase, seconds, place of the last reading before it), in order of time. A reading
            itself is in no span.
        readings: one at each beginning of the phases asked for, and one at the end of each run.
    """

    def __init__(self, pace: Pace, phases: Collection[str]) -> None:
        self._pace, self._phases = pace, phases
        self._phase: str | None = None
        self._began_s = 0.0
        self.spans: list[tuple[str, float, int]] = []
        self.readings: list[Reading] = []

    def at(self, phase: str, *_: object) -> None:
        self._end()
        if phase in self._phases:
            self.readings.append(self._pace.read())
        self._phase, self._began_s = phase, time.perf_counter()

    def pause(self) -> None:
        """End the running phase; what follows until the next one is in no span."""
        self._end()

    def stop(self) -> None:
        """End a run."""
        self._end()
        self.readings.append(self._pace.read())

    def _end(self) -> None:
        if self._phase is not None:
            taken_s = time.perf_counter() - self._began_s
            self.spans.append((self._phase, taken_s, len(self.readings) - 1))
        self._phase = None

    def told(self) -> dict[str, Any]:
        """Both lists, as a record keeps them."""
        return {"spans": self.spans, "readings": self.readings}
