"""A GEMM row loaded as machine code or as PTX, and what the first use of each costs.

Software that is older than a chip may carry PTX for it and nothing else: the driver then compiles
at first use. These variants are planned by name only, never offered to a plain run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.base import Place, Prepared
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.benchmark import Case
from pymicro.errors import Unavailable

VARIANTS = ("cubin", "ptx")
# The driver keeps what it compiled unless this was set before it started.
CACHE_OFF = "CUDA_CACHE_DISABLE"
_LOADS = 3


def prepare(row: GemmKernel, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Load the row anew some times, each with its first launch; the last one is the call.

    `details` then hold `first_use_s`, loading and first launch together, one for each time.

    Raises:
        Unavailable: the driver's cache is on, so that only the first time would be true.
    """
    from pymicro.backends.cuda import gemm

    if case.variant == "ptx" and os.environ.get(CACHE_OFF) != "1":
        raise Unavailable(f"the first use of PTX is true only with {CACHE_OFF}=1 from the start.")
    arch, code = _code(row, case.variant, place)
    pointers = tuple(arrays[name].ptr for name in "abc")
    sizes = tuple(case.params[side] for side in "mnk")
    first_use_s = []
    for _ in range(_LOADS):
        driver.check(driver.cuda().cuCtxSynchronize())
        began = time.perf_counter()
        kernel = driver.Kernel.load(code, row.entry, row.shared_bytes)
        call = gemm.bind(row, kernel, pointers, sizes, case.params["layout"], place)
        call()
        driver.check(driver.cuda().cuCtxSynchronize())
        first_use_s.append(time.perf_counter() - began)
    notes = {"kernel": row.name, "code": arch, "first_use_s": first_use_s}
    return Prepared(call, {**notes, "code_bytes": len(code)})


def _code(row: GemmKernel, variant: str, place: Place) -> tuple[str, bytes]:
    assert place.capability is not None
    if variant == "cubin":
        arch = "sm_{}{}".format(*place.capability) + row.arch_suffix
        return arch, compiler.compile_cubin(row.source, arch, row.defines)
    arch = virtual_arch(row, compiler.supported_archs())
    return arch, compiler.compile_ptx(row.source, arch, row.defines)


def virtual_arch(row: GemmKernel, known: tuple[str, ...]) -> str:
    """The oldest PTX architecture that has the row's instructions and that NVRTC still writes."""
    numbers = sorted(int(arch.removeprefix("sm_")) for arch in known)
    first = 10 * row.first[0] + row.first[1]
    wanted = next((n for n in numbers if n >= first), first)
    return f"compute_{wanted}{row.arch_suffix}"
