"""The file operators.toml from the tables that fit_primitives.py derives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADER = """\
# What PyTorch's kernels make of any device, by operator and else by class (analysis/work.py).
#   kernels         launched by one call
#   start_floors    what one call takes with nothing to do, in times of the shortest kernel
#   bytes_per_clk   a clock and SM, that the kernels handle at most, in formats of 4 and of 2 bytes;
#                   DRAM is the bound where it is slower
# Written by `python benchmarks/fit_primitives.py --write` from the readings of one card (torch
# 2.11.0+cu130); on other cards they are assumed to hold. Rows that nobody timed:
# operators_assumed.toml.

source = "torch 2.11's kernels, fitted to readings of one card: benchmarks/fit_primitives.py"
kind = "measured"
"""
# What the tables below `class` and `operator` hold, as comments of the file.
TITLES = {
    "attention": """\
Fused attention: share of the rate of a large product on very long sequences, the length at which
half of that is left, the factors with dropout and with a mask. The rest is of decode steps, where
each block goes through all keys for one query, see analysis/durations.py.""",
    "unit": "Products, by kind of unit; see analysis/products.py.",
    "turned_flop_per_clk": """\
TF32 products whose operands do not lie along k (a gradient's) turn them on the way: operations a
clock and SM for which shared memory can do that. The time comes on top of the unit's own.""",
    "lists": "A list kernel takes as many tensors as fit its arguments.",
}
CLASSES = ("pointwise", "copy", "normalisation", "softmax", "reduction", "gather", "random",
           "optimiser", "product")  # fmt: skip


def operators_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The file of the library."""
    rows = tables["kernels"]
    lines = [HEADER, "[class]"]
    lines += [f"{name} = {_inline(rows[name])}" for name in CLASSES]
    lines += ["", "[operator]"]
    lines += [f"{n} = {_inline(row)}" for n, row in sorted(rows.items()) if n not in CLASSES]
    for title, why in TITLES.items():
        lines += ["", *(f"# {line}" for line in why.splitlines()), f"[{title}]"]
        lines += [f"{name} = {_inline(row)}" for name, row in tables[title].items()]
    return "\n".join(lines) + "\n"


def _inline(held: Any) -> str:
    if isinstance(held, Mapping):
        return "{ " + ", ".join(f"{k} = {_inline(v)}" for k, v in held.items()) + " }"
    if isinstance(held, tuple | list):
        return f"[{', '.join(map(_inline, held))}]"
    return f"{held:.4g}"
