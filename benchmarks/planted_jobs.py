"""Small PyTorch jobs, each with a known reason for its time. None is a model that pymicro ships.

A job is a function of a device that builds what it needs and returns one step; what was planted
stands in `planted_causes.py`. The sizes are for a data-centre GPU; `--small` makes them fit a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

Step = Callable[[], Any]


def vision_transformer(device: str, small: bool) -> Step:
    """Trains six encoder layers on 14 × 14 patches, in FP32 as PyTorch does by default."""
    width, batch = (64, 2) if small else (768, 64)
    layer = nn.TransformerEncoderLayer(width, 12 if not small else 4, 4 * width, batch_first=True)
    model = nn.Sequential(
        nn.Conv2d(3, width, 16, 16), nn.Flatten(2), _Swap(), nn.TransformerEncoder(layer, 6),
        _Mean(), nn.Linear(width, 1000),
    ).to(device)  # fmt: skip
    images = torch.randn(batch, 3, 224, 224, device=device)
    labels = torch.randint(0, 1000, (batch,), device=device)
    return _trainer(model, lambda: F.cross_entropy(model(images), labels))


class _Swap(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


class _Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


def _trainer(model: nn.Module, loss: Callable[[], torch.Tensor]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return step


def recurrent(device: str, small: bool) -> Step:
    """Trains a two-layer LSTM over 128 steps of 64 sequences.

    No step can start before the last, so cuDNN launches some small kernels for each, and they end
    sooner than it launches.
    """
    width, length = (16, 8) if small else (512, 128)
    model = nn.LSTM(width, width, 2, batch_first=True).to(device)
    text = torch.randn(64, length, width, device=device)
    return _trainer(model, lambda: model(text)[0].square().mean())


class _Block(nn.Module):
    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(8, inside), nn.Conv2d(inside, out, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.silu(self.norm(x)))


class _UNet(nn.Module):
    """Three resolutions down and up again, with attention at the lowest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        self.first, self.last = nn.Conv2d(4, width, 3, padding=1), _Block(width, 4)
        self.down = nn.ModuleList(_Block(a, b) for a, b in pairwise(widths))
        self.attention = nn.MultiheadAttention(widths[-1], 8, batch_first=True)
        self.up = nn.ModuleList(
            _Block(2 * b, a) for a, b in zip(widths[-2::-1], widths[:0:-1], strict=True)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        kept = []
        for block in self.down:
            x = F.avg_pool2d(block(x), 2)
            kept.append(x)
        flat = x.flatten(2).transpose(1, 2)
        attended = self.attention(flat, flat, flat, need_weights=False)[0]
        x = x + attended.transpose(1, 2).reshape(x.shape)
        for block in self.up:
            x = F.interpolate(block(torch.cat((x, kept.pop()), 1)), scale_factor=2.0)
        return self.last(x)


def diffusion(device: str, small: bool) -> Step:
    """Ten denoising steps of one latent image in FP16: little work a kernel, one by one."""
    dtype = torch.float32 if small else torch.float16
    model = _UNet(8 if small else 64).to(device, dtype).eval()
    latent = torch.randn(1, 4, 64, 64, device=device, dtype=dtype)

    @torch.no_grad()
    def step() -> torch.Tensor:
        x = latent
        for beta in (0.1,) * (1 if small else 10):
            noise = model(x)
            x = (x - beta * noise) / (1 - beta) ** 0.5
        return x

    return step


def cold_start(device: str, small: bool) -> Step:
    """The first steps of a process: libraries load their kernels, memory is allocated."""
    model = _UNet(8 if small else 64).to(device)
    latent = torch.randn(4, 4, 64, 64, device=device)
    return _trainer(model, lambda: (model(latent) - latent).square().mean())


class _SlowPictures(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)  # decoding a JPEG
        return torch.full((3, 64, 64), 0.5)


def slow_loader(device: str, small: bool) -> Step:
    """A small convolutional net fed by a loader that decodes in the main process."""
    width = 8 if small else 128
    model = nn.Sequential(
        nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
    ).to(device)  # fmt: skip
    batches: Iterator[torch.Tensor] = iter(DataLoader(_SlowPictures(), batch_size=16))
    return _trainer(model, lambda: model(next(batches).to(device)).square().mean())


def _deep(device: str, small: bool) -> tuple[nn.Module, torch.Tensor]:
    width, batch, layers = (32, 16, 6) if small else (2048, 8192, 24)
    dtype = torch.float32 if small else torch.bfloat16
    parts = [m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*parts).to(device, dtype)
    return model, torch.randn(batch, width, device=device, dtype=dtype)


def item_in_every_step(device: str, small: bool) -> Step:
    """Large BF16 products; then each parameter's gradient norm is read back by `.item()`."""
    model, data = _deep(device, small)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        total = loss.item()
        for parameter in model.parameters():
            assert parameter.grad is not None
            total += parameter.grad.norm().item() ** 2
        optimizer.step()
        return total

    return step


def tiny_kernels(device: str, small: bool) -> Step:
    """Element-wise work on 4,096 numbers, 450 kernels a step."""
    x = torch.ones(4096, device=device)

    def step() -> torch.Tensor:
        y = x
        for _ in range(4 if small else 150):
            y = (y * 1.01 + 0.1).tanh()
        return y

    return step


def cuda_graph(device: str, small: bool) -> Step:
    """The same kernels, captured once and replayed by one call a step."""
    plain = tiny_kernels(device, small)
    if not device.startswith("cuda"):
        return plain
    for _ in range(3):
        plain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plain()
    return graph.replay


def pageable_copies(device: str, small: bool) -> Step:
    """Moves a large batch from pageable memory in every step, and the answer back."""
    model = nn.Linear(1024, 1024).to(device)
    data = torch.randn(64 if small else 1 << 16, 1024)

    @torch.no_grad()
    def step() -> torch.Tensor:
        return model(data.to(device)).cpu()

    return step


JOBS: dict[str, Callable[[str, bool], Step]] = {
    "cold-start": cold_start,
    "vision-transformer": vision_transformer,
    "recurrent": recurrent,
    "diffusion": diffusion,
    "slow-loader": slow_loader,
    "item-in-every-step": item_in_every_step,
    "tiny-kernels": tiny_kernels,
    "cuda-graph": cuda_graph,
    "pageable-copies": pageable_copies,
}
