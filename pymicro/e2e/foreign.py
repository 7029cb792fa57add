"""A row for a configuration file of transformers that is not in our table."""

from __future__ import annotations

import json
from pathlib import Path

from pymicro.errors import UsageError
from pymicro.workloads.models import Model, Task

_GENERATES = ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel")
_TRAINS = ("ForSequenceClassification",)
# Keys of the file that are no arguments of a configuration.
_NOT_ARGUMENTS = ("architectures", "model_type", "transformers_version", "torch_dtype", "dtype")


def from_file(path: Path) -> Model:
    """The row; its task follows from the architecture that the file names.

    Raises:
        UsageError: no configuration, or a model that neither generates nor classifies.
    """
    from pymicro.e2e.build import need_packages

    need_packages()
    import transformers

    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        architecture = values["architectures"][0]
        kind = values["model_type"]
        config_class = type(transformers.AutoConfig.for_model(kind)).__name__
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{path} is no configuration of transformers: {error}.") from error
    return Model(
        key=path.stem if path.stem != "config" else kind,
        title=architecture,
        task=_task(architecture),
        config_class=config_class,
        model_class=architecture,
        checkpoint=str(path.parent),
        longest=values.get("max_position_embeddings", values.get("n_positions")),
        source=path.name,
        config={
            k: v for k, v in values.items() if k not in _NOT_ARGUMENTS and not k.startswith("_")
        },
    )


def _task(architecture: str) -> Task:
    if architecture.endswith(_GENERATES):
        return "generate"
    if architecture.endswith(_TRAINS):
        return "train"
    known = ", ".join(f"…{name}" for name in (*_GENERATES, *_TRAINS))
    raise UsageError(f"{architecture} is neither of {known}.")
