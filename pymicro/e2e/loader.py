"""Records and the batches made of them, as a data loader of transformers' Trainer makes them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pymicro.errors import UsageError

# The sentence of the published summarising job, and how often one record repeats it.
_SENTENCE = "The quick brown fox jumps over the lazy dog. "
_REPEATS = 30
_RESERVED = 5  # Ids below are padding and marks.


def texts(path: str | None, count: int) -> list[str]:
    """Records of a file, one a line, as many as asked for by going round; else synthetic ones.

    Raises:
        UsageError: the file cannot be read, or holds nothing.
    """
    if path is None:
        return [_SENTENCE * _REPEATS] * count
    try:
        lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--text {path}: {error}.") from error
    if not lines:
        raise UsageError(f"--text {path} holds no line of text.")
    return [lines[n % len(lines)] for n in range(count or len(lines))]


def tokenised(
    records: Sequence[str], length: int, vocabulary: int
) -> tuple[list[dict[str, Any]], float]:
    """Every record as ids of exactly `length`, with its mask and a label; and the seconds it took.

    The tokeniser is made of the records themselves, by the library that transformers uses, so
    that it needs no network: its speed is that of a real one, its ids are not.
    """
    from tokenizers import BertWordPieceTokenizer  # type: ignore[attr-defined]

    tokenizer = BertWordPieceTokenizer()
    sample = list(dict.fromkeys(records))[:1000]
    tokenizer.train_from_iterator(sample, vocab_size=min(vocabulary, 8192), show_progress=False)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    began_s = time.perf_counter()
    encoded = tokenizer.encode_batch(list(records))
    took_s = time.perf_counter() - began_s
    top = vocabulary - _RESERVED
    rows = [
        {
            "input_ids": [_RESERVED + n % top for n in one.ids],
            # Time is that of full length: a mask with gaps would take another attention path.
            "attention_mask": [1] * length,
            "labels": number % 2,
        }
        for number, one in enumerate(encoded)
    ]
    return rows, took_s


def batches(rows: Sequence[dict[str, Any]], size: int, pinned: bool) -> Iterator[dict[str, Any]]:
    """Shuffled batches without end, each made when it is asked for."""
    from torch.utils.data import DataLoader
    from transformers import default_data_collator

    loader: Any = DataLoader(
        rows,  # type: ignore[arg-type]
        batch_size=size,
        shuffle=True,
        drop_last=True,
        collate_fn=default_data_collator,
        pin_memory=pinned,
    )
    while True:
        yield from loader
