"""The models whose jobs are run and traced: configuration, task, and how long a sequence may be.

A configuration holds what differs from the defaults of its class in transformers, so that a
model is built without a network. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pymicro.errors import unknown

Task = Literal["generate", "train"]


@dataclass(frozen=True)
class Model:
    """One row.

    Attributes:
        config_class, model_class: names in transformers.
        config: arguments of the configuration class.
        checkpoint: whose configuration it is, on the hub; `--weights hub` loads it.
        longest: tokens that its position table holds; None where positions are relative.
        tiny: arguments that make every tensor a few KB and leave the sequence of calls as it is:
            the same layers, narrow.
        source: where the configuration was read.
    """

    key: str
    title: str
    task: Task
    config_class: str
    model_class: str
    checkpoint: str
    longest: int | None
    source: str
    config: Mapping[str, Any] = field(default_factory=dict)
    tiny: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_encoder_decoder(self) -> bool:
        return self.config_class == "T5Config" or bool(self.config.get("is_encoder_decoder"))


_TINY_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_heads": 2, "vocab_size": 128}
_TINY_BERT = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 128,
}
_T5X = "github.com/google-research/t5x, t5x/examples/t5/t5_1_0/{}.gin; defaults of T5Config"
_DEFAULT = "transformers, defaults of {}, made for {}"


def _t5(size: str, title: str, config: dict[str, Any]) -> Model:
    return Model(
        key=f"t5-{size}",
        title=title,
        task="generate",
        config_class="T5Config",
        model_class="T5ForConditionalGeneration",
        checkpoint=f"google-t5/t5-{size}",
        longest=None,
        source=_T5X.format(size),
        config={"decoder_start_token_id": 0, **config},
        tiny=_TINY_T5,
    )


def _bert(size: str, config: dict[str, Any], source: str) -> Model:
    return Model(
        key=f"bert-{size}",
        title=f"BERT-{size}, uncased, with a classifier",
        task="train",
        config_class="BertConfig",
        model_class="BertForSequenceClassification",
        checkpoint=f"google-bert/bert-{size}-uncased",
        longest=512,
        source=source,
        config=config,
        tiny=_TINY_BERT,
    )


MODELS: Mapping[str, Model] = {
    model.key: model
    for model in (
        _t5(
            "large",
            "T5-large",
            {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
        ),
        _t5("base", "T5-base", {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
        _t5("small", "T5-small", {}),
        Model(
            key="distilbert",
            title="DistilBERT, uncased, with a classifier",
            task="train",
            config_class="DistilBertConfig",
            model_class="DistilBertForSequenceClassification",
            checkpoint="distilbert/distilbert-base-uncased",
            longest=512,
            source=_DEFAULT.format("DistilBertConfig", "distilbert-base-uncased"),
            tiny={"dim": 32, "n_heads": 2, "hidden_dim": 64, "vocab_size": 128},
        ),
        _bert("base", {}, _DEFAULT.format("BertConfig", "bert-base-uncased")),
        _bert(
            "large",
            {
                "hidden_size": 1024,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "intermediate_size": 4096,
            },
            "github.com/google-research/bert, README.md: BERT-Large, 24 layers, 1024, 16 heads",
        ),
        Model(
            key="gpt2",
            title="GPT-2, the smallest",
            task="generate",
            config_class="GPT2Config",
            model_class="GPT2LMHeadModel",
            checkpoint="openai-community/gpt2",
            longest=1024,
            source=_DEFAULT.format("GPT2Config", "gpt2"),
            tiny={
                "n_embd": 32,
                "n_head": 2,
                "vocab_size": 128,
                "bos_token_id": 2,
                "eos_token_id": 1,
            },
        ),
        Model(
            key="llama-1b",
            title="a decoder of Llama 3.2's kind and of 1.2 billion parameters",
            task="generate",
            config_class="LlamaConfig",
            model_class="LlamaForCausalLM",
            checkpoint="meta-llama/Llama-3.2-1B",
            longest=131_072,
            source="github.com/kevinstephano/thunder_model_blocks, hf_llama/llama_config.py",
            config={
                "vocab_size": 128_256,
                "hidden_size": 2048,
                "intermediate_size": 8192,
                "num_hidden_layers": 16,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "head_dim": 64,
                "max_position_embeddings": 131_072,
                "rms_norm_eps": 1e-5,
                "tie_word_embeddings": True,
                "bos_token_id": 128_000,
                "eos_token_id": 128_001,
                "rope_parameters": {
                    "rope_type": "llama3",
                    "rope_theta": 500_000.0,
                    "factor": 32.0,
                    "high_freq_factor": 4.0,
                    "low_freq_factor": 1.0,
                    "original_max_position_embeddings": 8192,
                },
            },
            tiny={
                "vocab_size": 128,
                "hidden_size": 64,
                "intermediate_size": 64,
                "num_attention_heads": 4,
                "num_key_value_heads": 1,
                "head_dim": 16,
                "bos_token_id": 2,
                "eos_token_id": 1,
            },
        ),
    )
}
# What a task is called on the command line stands for the model that was published with it.
ALIASES = {"t5": "t5-large", "bert": "bert-base", "llama": "llama-1b"}


def model(name: str) -> Model:
    """The row of a model or of its alias.

    Raises:
        UsageError: there is none; says which are near.
    """
    key = ALIASES.get(name.lower(), name.lower())
    if key not in MODELS:
        raise unknown("model", name, [*MODELS, *ALIASES])
    return MODELS[key]
