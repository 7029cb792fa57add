"""Compiles an empty Numba kernel to PTX, and launches it on a GPU."""

import re
import runpy
from pathlib import Path

# What our own Numba kernels do before anything else; the probe is about the same Numba.
_ALIASES = Path(__file__).parents[2] / "kernels" / "numba" / "numpy_aliases.py"


def probe(tell, capability=None):
    if not tell.is_installed("numba"):
        return
    tell.step("import")
    import numpy

    if _ALIASES.exists():
        before = set(vars(numpy))
        runpy.run_path(str(_ALIASES))
        put_back = sorted(set(vars(numpy)) - before)
        tell(numpy=str(numpy.__version__), put_back=put_back)
    import numba

    tell(version=str(numba.__version__))
    tell.step("import its CUDA part")
    from numba import cuda

    tell.fact("cuda_version", lambda: __import__("numba_cuda").__version__)
    tell.fact("is_simulated", lambda: bool(numba.config.ENABLE_CUDASIM))
    tell.step("compile an empty kernel")

    def empty():
        pass

    ptx, _ = cuda.compile_ptx(empty, (), cc=tuple(capability or (8, 0)))
    version = re.search(r"^\.version (\d+\.\d+)", ptx, re.MULTILINE)
    tell(ptx=version[1] if version else None)
    if capability is not None:
        tell.step("run an empty kernel")
        numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        cuda.jit(empty)[1, 1]()
        cuda.synchronize()
        tell(ran_on="gpu")
    tell.loaded()
