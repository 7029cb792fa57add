"""Sizes of a job's tensors as products of its parameters: `batch*length*768`.

A trace is recorded once, at sizes that are distinct primes, and serves every batch and length:
each dimension is kept as the product that it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

# What a dimension may depend on. `keys` is how many tokens a decode step attends to, its own one
# included; `past` is one fewer: what lies in the cache before it; `next` is one more: the sequence
# with the new token; `padded` is `keys` rounded up to what a kernel's mask is aligned to. A beam
# search has room for `output` new tokens, `limit` in all; `others` are all beams but one.
SYMBOLS = (
    "batch", "beams", "length", "past", "keys", "next", "padded", "limit", "output", "others",
)  # fmt: skip
_ALIGNED = 8


def grown(past: int) -> dict[str, int]:
    """What depends on the tokens behind a decode step."""
    keys = past + 1
    return {
        "past": past,
        "keys": keys,
        "next": keys + 1,
        "padded": -(-keys // _ALIGNED) * _ALIGNED,
    }


def evaluate(size: str, values: Mapping[str, int]) -> int:
    """The number that a product stands for.

    Raises:
        KeyError: it names what `values` lacks.
        ValueError: it is no product of names and integers.
    """
    total = 1
    for factor in _factors(size):
        total *= factor if isinstance(factor, int) else values[factor]
    return total


@cache
def _factors(size: str) -> tuple[int | str, ...]:
    found: list[int | str] = []
    for word in size.split("*"):
        if word.isdecimal():
            found.append(int(word))
        elif word in SYMBOLS:
            found.append(word)
        else:
            raise ValueError(f"{size!r} is no product of integers and {', '.join(SYMBOLS)}.")
    return tuple(found)


def express(number: int, values: Mapping[str, int]) -> str:
    """The product that a recorded number stands for; the inverse of `evaluate`.

    Args:
        number: a dimension, 0 or more.
        values: the parameters at recording; each must be a prime (or contain one) that the
            model's own sizes lack, else a constant would be taken for a parameter.

    A parameter divides at most once: no operator of these jobs has a dimension of batch squared.
    """
    names = []
    rest = number
    for name, value in sorted(values.items(), key=lambda item: -item[1]):
        if value > 1 and rest and rest % value == 0:
            rest //= value
            names.append(name)
    order = {name: place for place, name in enumerate(SYMBOLS)}
    words = sorted(names, key=order.__getitem__)
    if rest != 1 or not words:
        words.append(str(rest))
    return "*".join(words)


def elements(shape: Sequence[str], values: Mapping[str, int]) -> int:
    """The number of elements of a tensor; a scalar has one."""
    total = 1
    for size in shape:
        total *= evaluate(size, values)
    return total
