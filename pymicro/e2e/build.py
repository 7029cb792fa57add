"""A model from its row: random weights of the true configuration, in the precision of the job."""

from __future__ import annotations

from typing import Any

from pymicro.errors import Unavailable, UsageError
from pymicro.workloads.models import Model
from pymicro.workloads.precisions import PRECISIONS

# For the hub to answer.
_PATIENCE_S = 5.0
IMPLEMENTATIONS = {"eager": "eager", "sdpa": "sdpa", "flash": "flash_attention_2"}


def need_packages() -> None:
    """Find out early whether whole jobs can run here.

    Raises:
        Unavailable: torch or transformers is missing; what to install.
    """
    for name in ("torch", "transformers"):
        try:
            __import__(name)
        except ImportError as error:
            raise Unavailable(
                f"whole jobs need {name} ({error}): pip install 'pymicro-gpu[e2e]'."
            ) from error


def configuration(row: Model, tiny: bool = False) -> Any:
    """The configuration; `tiny` keeps its layers and makes them a few KB each."""
    import transformers

    values = {**row.config, **(row.tiny if tiny else {})}
    return getattr(transformers, row.config_class)(**values)


def build(row: Model, precision: str, attention: str, device: str, *, tiny: bool = False) -> Any:
    """The model on its device, in training or evaluation mode as its task asks.

    It is made in its precision at once: weights that are fake cannot be converted afterwards.

    Raises:
        Unavailable: the attention path is not installed.
    """
    import torch
    import transformers

    cls = getattr(transformers, row.model_class)
    dtype = getattr(torch, PRECISIONS[precision].weights_torch)
    try:
        with torch.device(device):
            model = cls._from_config(
                configuration(row, tiny),
                attn_implementation=IMPLEMENTATIONS[attention],
                dtype=dtype,
            )
            if dtype is torch.float16:
                _keep_wide(model)
    except (ImportError, ValueError) as error:
        if attention == "eager":
            raise
        raise Unavailable(f"{attention} attention of {row.key}: {error}") from error
    return model.eval() if row.task == "generate" else model.train()


def _keep_wide(model: Any) -> None:
    """Modules that transformers leaves in float32 when it loads a checkpoint as float16."""
    import torch

    names = set(model._keep_in_fp32_modules or ()) | set(model._keep_in_fp32_modules_strict or ())
    for path, module in model.named_modules():
        if names & set(path.split(".")):
            for name, weight in list(module.named_parameters(recurse=False)):
                wide = torch.empty_like(weight, dtype=torch.float32).normal_(0, 0.02)
                setattr(module, name, torch.nn.Parameter(wide))


def load(row: Model, weights: str, precision: str, attention: str, device: str) -> Any:
    """A model with real weights: `hub`, or a folder that holds a checkpoint.

    Raises:
        UsageError: no such folder, or no network for the hub.
    """
    import torch
    import transformers

    cls = getattr(transformers, row.model_class)
    dtype = getattr(torch, PRECISIONS[precision].weights_torch)
    where = row.checkpoint if weights == "hub" else weights
    # Without a network its client would try again for a minute, file by file.
    is_cached_only = weights == "hub" and not _reachable()
    try:
        model = cls.from_pretrained(
            where,
            dtype=dtype,
            attn_implementation=IMPLEMENTATIONS[attention],
            local_files_only=is_cached_only,
        )
    except OSError as error:
        what = f"{where} cannot be had from the hub" if weights == "hub" else f"no model in {where}"
        hint = "without a network, time it with random weights: leave --weights out"
        raise UsageError(f"{what}; {hint}.") from error
    model.to(device)
    return model.eval() if row.task == "generate" else model.train()


def _reachable() -> bool:
    """Whether the hub answers at all; through a proxy its own client has to find out."""
    import os
    import socket
    from urllib.parse import urlsplit

    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    host = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    port = host.port or (80 if host.scheme == "http" else 443)
    try:
        with socket.create_connection((host.hostname, port), timeout=_PATIENCE_S):
            return True
    except OSError:
        return False
