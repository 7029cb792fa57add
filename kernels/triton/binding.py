"""How a Triton kernel becomes a call that only launches it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

# Triton 3.10 stops fusing multiply and add unless asked.
_ALWAYS = {"enable_fp_fusion": True}


def compiled_only(kernel, grid: tuple[int, int, int], arguments: tuple, options: dict) -> None:
    """Compile what `bound` then finds compiled. Several threads may do so at once."""
    kernel.warmup(*arguments, grid=grid, **options, **_ALWAYS)


def bound(kernel, grid: tuple[int, int, int], arguments: tuple, options: dict) -> Callable:
    """Compile, load and run once; then a launch that skips Triton's look at the arguments.

    `arguments` are all of the kernel's, constants too, in its order.
    """
    compiled = kernel[grid](*arguments, **options, **_ALWAYS)
    if compiled is None:  # The interpreter has nothing to launch.
        return partial(kernel[grid], *arguments)
    return partial(compiled[grid], *arguments)
