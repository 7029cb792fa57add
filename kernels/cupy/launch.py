"""Nearly empty kernels through CuPy's RawKernel: out = the sum of the inputs and the numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SOURCE = """
extern "C" __global__ void args0() {}

extern "C" __global__ void args3(unsigned* out, const unsigned* a, unsigned n) { *out = *a + n; }

extern "C" __global__ void args16(unsigned* out, const unsigned* a, const unsigned* b,
                                  const unsigned* c, const unsigned* d, const unsigned* e,
                                  unsigned n0, unsigned n1, unsigned n2, unsigned n3, unsigned n4,
                                  unsigned n5, unsigned n6, unsigned n7, unsigned n8,
                                  unsigned n9) {
  *out = *a + *b + *c + *d + *e + n0 + n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9;
}
"""


def _prepare_raw(call: str, given: tuple) -> tuple[Callable, tuple]:
    import cupy

    kernel = cupy.RawKernel(SOURCE, call)
    # CuPy would pass a Python number as 8 bytes.
    own = tuple(np.uint32(x) if isinstance(x, int) else x for x in given)
    kernel((1,), (1,), own)  # Compiles and loads.
    return kernel, ((1,), (1,), own)


VARIANTS = {"raw": _prepare_raw}
