"""Generating text with transformers' own `generate`, its length pinned, cut into steps.

The recorder, the runner and the host probe all call this code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PHASES = ("encode", "first", "decode")


class Enough(Exception):
    """Raised from inside `generate` by a listener that has seen the steps it wanted."""


class Generating:
    """A model that continues prompts; every run makes exactly `output` tokens a sequence."""

    def __init__(self, model: Any, output: int, beams: int) -> None:
        from transformers import GenerationConfig

        config = model.config
        end = config.eos_token_id
        padding = getattr(config, "pad_token_id", None)
        self.model = model
        self.settings = GenerationConfig(
            max_new_tokens=output,
            min_new_tokens=output,
            num_beams=beams,
            do_sample=False,
            use_cache=True,
            eos_token_id=end,
            pad_token_id=end if padding is None else padding,
            bos_token_id=getattr(config, "bos_token_id", None),
            decoder_start_token_id=getattr(config, "decoder_start_token_id", None),
        )

    def run(
        self,
        prompt: dict[str, Any],
        at: Callable[[str, int], None] = lambda phase, step: None,
        decoded: Any = None,
    ) -> Any:
        """Generate; returns the tokens, None where the listener had enough.

        Args:
            at: told a phase as it begins, and how many tokens were made before it.
            decoded: tokens that the decoder is to have behind it, of an encoder-decoder.
        """
        import torch

        made = 0
        prepare = self.model.prepare_inputs_for_generation

        def told(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            at("decode" if made else "first", made)
            made += 1
            return prepare(*args, **kwargs)

        more = {} if decoded is None else {"decoder_input_ids": decoded}
        self.model.prepare_inputs_for_generation = told
        try:
            at("encode", 0)
            with torch.no_grad():
                return self.model.generate(**prompt, **more, generation_config=self.settings)
        except Enough:
            return None
        finally:
            del self.model.prepare_inputs_for_generation


def prompt(batch: int, length: int, vocabulary: int, device: str) -> dict[str, Any]:
    """Prompts of full length, nothing padded, on the device."""
    import torch

    return {
        "input_ids": torch.randint(3, vocabulary, (batch, length), device=device),
        "attention_mask": torch.ones(batch, length, dtype=torch.int64, device=device),
    }
