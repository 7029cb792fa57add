"""One training step in the order of transformers' Trainer, cut into phases.

The recorder, the runner and the host probe all call this code, so that a trace is of the very
calls that are timed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from pymicro.workloads.precisions import PRECISIONS

PHASES = ("input", "forward", "backward", "optimiser")
# Trainer's defaults: learning rate, decay of the weights, and the norm it clips gradients to.
_LEARNING_RATE, _WEIGHT_DECAY, _MAX_NORM = 5e-5, 0.0, 1.0


class Training:
    """A model in training; `step` runs the four phases on one batch of the host."""

    def __init__(self, model: Any, precision: str, device: str, steps: int = 1000) -> None:
        import torch

        self.model, self.device = model, device
        self.kind = torch.device(device).type
        self.optimizer = torch.optim.AdamW(_groups(model), lr=_LEARNING_RATE, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda done: max(0.0, (steps - done) / steps)
        )
        half = PRECISIONS[precision].autocast_torch
        self._half = getattr(torch, half) if half else None
        self.scaler = torch.amp.GradScaler(self.kind) if half == "float16" else None
        self.total_loss = torch.zeros((), device=device)

    def input(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch on the device; the copy ends before this returns, as in Trainer."""
        return {name: tensor.to(self.device) for name, tensor in batch.items()}

    def forward(self, batch: dict[str, Any]) -> Any:
        """The loss, of which nothing has been read yet."""
        import torch

        casting = torch.autocast(self.kind, self._half) if self._half else nullcontext()
        with casting:
            return self.model(**batch).loss

    def backward(self, loss: Any) -> Any:
        """Gradients of all weights; in float16 of the loss scaled up."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        return loss.detach()

    def optimise(self, loss: Any) -> None:
        """Trainer's rest of a step: is the loss finite, clip, update, schedule, forget."""
        import torch

        if not (torch.isnan(loss) or torch.isinf(loss)):
            self.total_loss += loss
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        # What torch chooses by itself on either kind; on fake tensors it would choose otherwise.
        foreach = self.kind == "cuda"
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), _MAX_NORM, foreach=foreach)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.scheduler.step()
        self.model.zero_grad()

    def step(self, batch: dict[str, Any], at: Callable[[str], None] = lambda phase: None) -> None:
        """One step; `at` is told each phase as it begins."""
        at("input")
        there = self.input(batch)
        at("forward")
        loss = self.forward(there)
        del there
        at("backward")
        loss = self.backward(loss)
        at("optimiser")
        self.optimise(loss)


def _groups(model: Any) -> list[dict[str, Any]]:
    """Weights that decay and those that do not, as Trainer parts them: two calls a step."""
    import torch

    spared: set[str] = set()
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.LayerNorm):
            spared |= {f"{path}.{name}" for name, _ in module.named_parameters(recurse=False)}
    named = dict(model.named_parameters())
    spared |= {name for name in named if name.endswith("bias")}
    return [
        {"params": [p for n, p in named.items() if n not in spared], "weight_decay": _WEIGHT_DECAY},
        {"params": [p for n, p in named.items() if n in spared], "weight_decay": 0.0},
    ]


def host_batch(batch: int, length: int, vocabulary: int, pinned: bool) -> dict[str, Any]:
    """A batch as a collator leaves it in main memory: full length, nothing padded."""
    import torch

    made = {
        "input_ids": torch.randint(3, vocabulary, (batch, length)),
        "attention_mask": torch.ones(batch, length, dtype=torch.int64),
        "labels": torch.randint(0, 2, (batch,)),
    }
    return {name: t.pin_memory() for name, t in made.items()} if pinned else made
