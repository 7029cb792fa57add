"""How a Triton kernel becomes a call that only launches it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


def bound(kernel, grid: tuple[int, int, int], arguments: tuple, options: dict) -> Callable:
    """Compile, load and run once; then a launch that skips Triton's look at the arguments.

    `arguments` are all of the kernel's, constants too, in its order.
    """
    # Triton 3.10 stops fusing multiply and add unless asked.
    compiled = kernel[grid](*arguments, **options, enable_fp_fusion=True)
    if compiled is None:  # The interpreter has nothing to launch.
        return partial(kernel[grid], *arguments)
    return partial(compiled[grid], *arguments)
