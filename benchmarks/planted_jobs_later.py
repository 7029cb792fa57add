"""More small jobs with a known reason for their time, written after `explain --trace` was.

The jobs of `planted_jobs.py` helped to mend it. These did not: what they should be told is in
`planted_causes.py`, and was written down before the first of them ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from planted_jobs import Step, _trainer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


def masked_rows(device: str, small: bool) -> Step:
    """Chooses rows by a mask twenty times: how many there are has to come back each time."""
    table = torch.randn(1 << (10 if small else 18), 64, device=device)

    @torch.no_grad()
    def step() -> torch.Tensor:
        total = torch.zeros(64, device=device)
        for index in range(2 if small else 20):
            total += table[table[:, index] > 0].sum(0)
        return total

    return step


class _Spectra(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)  # reading a file
        return torch.full((128, 64), float(index % 7))


def few_workers(device: str, small: bool) -> Step:
    """Two workers of a loader that each read 32 files a batch, for a model that needs little."""
    width = 16 if small else 512
    model = nn.Sequential(nn.Flatten(), nn.Linear(128 * 64, width), nn.ReLU(), nn.Linear(width, 8))
    model = model.to(device)
    loader = DataLoader(_Spectra(), 32, num_workers=2, pin_memory=device.startswith("cuda"))
    batches: Iterator[torch.Tensor] = iter(loader)
    return _trainer(model, lambda: model(next(batches).to(device, non_blocking=True)).sum())


def optimiser_one_by_one(device: str, small: bool) -> Step:
    """AdamW that goes through 200 small parameters, a dozen kernels for each."""
    layers, width = (4, 16) if small else (100, 256)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))).to(device)
    data = torch.randn(64, width, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, foreach=False)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        value = model(data).square().mean()
        value.backward()
        optimizer.step()
        return value

    return step


def logits_home(device: str, small: bool) -> Step:
    """All scores of a language model's head go to the host, where one would do."""
    width, words, rows = (16, 64, 8) if small else (1024, 32_128, 2048)
    dtype = torch.float32 if small else torch.bfloat16
    head = nn.Linear(width, words, bias=False).to(device, dtype)
    hidden = torch.randn(rows, width, device=device, dtype=dtype)

    @torch.no_grad()
    def step() -> torch.Tensor:
        return head(hidden).float().cpu().argmax(-1)

    return step


def large_products(device: str, small: bool) -> Step:
    """Twenty BF16 products of 8192 × 8192: nothing to mend."""
    side = 64 if small else 8192
    dtype = torch.float32 if small else torch.bfloat16
    a = torch.randn(side, side, device=device, dtype=dtype)

    @torch.no_grad()
    def step() -> torch.Tensor:
        b = a
        for _ in range(2 if small else 20):
            b = F.normalize(a @ b, dim=0)
        return b

    return step


def long_rows(device: str, small: bool) -> Step:
    """Softmax, layer norm and GELU on half a gigabyte: memory works, and nothing waits."""
    shape = (64, 64) if small else (32_768, 8192)
    x = torch.randn(*shape, device=device).to(torch.float32 if small else torch.bfloat16)

    @torch.no_grad()
    def step() -> torch.Tensor:
        y = x
        for _ in range(4):
            y = F.gelu(F.layer_norm(F.softmax(y, -1), shape[-1:]))
        return y

    return step


def emptied_cache(device: str, small: bool) -> Step:
    """Gives all unused memory back to the driver in every step, and takes it again."""
    rows = 64 if small else 1 << 17
    model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(8)))
    model = model.to(device, torch.float32 if small else torch.bfloat16)
    data = torch.randn(rows, 256, device=device).to(next(model.parameters()).dtype)
    train = _trainer(model, lambda: model(data).square().mean())

    def step() -> torch.Tensor:
        value = train()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        return value

    return step


def plain_attention(device: str, small: bool) -> Step:
    """Attention by two FP32 einsums, in a model left in FP32."""
    batch, heads, length, depth = (1, 2, 16, 8) if small else (32, 16, 512, 64)
    width = heads * depth
    into, out = nn.Linear(width, 3 * width).to(device), nn.Linear(width, width).to(device)
    text = torch.randn(batch, length, width, device=device)

    def loss() -> torch.Tensor:
        parts = into(text).view(batch, length, 3, heads, depth).unbind(2)
        query, key, value = parts
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * depth**-0.5
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)
        return out(mixed.reshape(batch, length, width)).square().mean()

    return _trainer(nn.ModuleList([into, out]), loss)


JOBS: dict[str, Callable[[str, bool], Step]] = {
    "masked-rows": masked_rows,
    "few-workers": few_workers,
    "optimiser-one-by-one": optimiser_one_by_one,
    "logits-home": logits_home,
    "large-products": large_products,
    "long-rows": long_rows,
    "emptied-cache": emptied_cache,
    "plain-attention": plain_attention,
}
