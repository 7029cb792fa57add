"""Compiles an empty Numba kernel to PTX, and launches it on a GPU."""

import re


def probe(tell, capability=None):
    if not tell.is_installed("numba"):
        return
    tell.step("import")
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
