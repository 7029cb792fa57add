"""Which kernels torch launches for matrix products, seen by its profiler.

The calls are those of pymicro's own torch backend, so that what is named here is what was timed.
"""

import sys
from itertools import groupby

from kernel_records import by_kernel, mark, pieces, recorded

CALLS = 5


def probe(tell, root, products):
    """products: [format, m, n, k, layout] each."""
    if not tell.is_installed("torch"):
        return
    sys.path.insert(0, root)
    tell.step("import")
    import torch

    tell(version=str(torch.__version__), cublas=_cublas(torch))
    tell.step("start the profiler")
    recorded(torch, lambda: torch.ones(4, device="cuda"))
    # A format at a time: beginning and ending a recording takes longer than a product, and what a
    # crash takes along are the products of one format.
    for dtype, group in groupby(enumerate(products), key=lambda numbered: numbered[1][0]):
        told = _launched(tell, torch, list(group))
        tell.step(f"read the records of {dtype}")
        tell(**{f"product_{number}": said for number, said in told.items()})


def _launched(tell, torch, products):
    """By number of the product: its kernels, or why there are none."""
    refused, begun = {}, []

    def work():
        for number, product in products:
            tell.step(f"launch {' '.join(map(str, product))}")
            try:
                call = _call(torch, *product)
                call()  # What is loaded or chosen at first use stays before the mark.
                torch.cuda.synchronize()
            except Exception as error:
                refused[number] = {"reason": f"{type(error).__name__}: {error}"[:300]}
                continue
            begun.append(number)
            mark(torch)
            for _ in range(CALLS):
                call()
            mark(torch)

    try:
        found = pieces(recorded(torch, work))[1::2]
        if len(found) != len(begun):
            raise RuntimeError(f"{len(found)} of {len(begun)} products stand in the records")
    except RuntimeError as error:
        return {n: {"reason": f"RuntimeError: {error}"} for n in begun} | refused
    unseen = {"reason": "RuntimeError: no kernel records of it"}
    kernels = {n: by_kernel(those, CALLS) for n, those in zip(begun, found, strict=True)}
    return {n: {"kernels": those} if those else unseen for n, those in kernels.items()} | refused


def _cublas(torch):
    try:
        from importlib.metadata import version

        return version("nvidia-cublas")
    except Exception:
        return None


def _call(torch, dtype, m, n, k, layout):
    from pymicro.backends.base import Place
    from pymicro.backends.torch import BACKEND
    from pymicro.benchmark import Case
    from pymicro.dtypes import DTYPES

    capability = torch.cuda.get_device_capability()
    place = Place("cuda", torch.cuda.current_device(), capability)
    a_shape, b_shape = (k, m) if layout == "tn" else (m, k), (n, k) if layout == "nt" else (k, n)
    sides = {"a": a_shape, "b": b_shape, "c": (m, n)}
    arrays = {}
    for name, shape in sides.items():
        row = DTYPES[DTYPES[dtype].output if name == "c" else dtype]
        true = getattr(torch, row.torch_name)
        values = torch.randint(-8, 8, shape, device="cuda", dtype=torch.int8).float().to(true)
        # No array protocol names bf16 and fp8; their bits travel as integers.
        arrays[name] = values.view(_BITS[row.storage](torch)) if row.storage in _BITS else values
    params = {"m": m, "n": n, "k": k, "layout": layout, "path": "auto"}
    return BACKEND.prepare(Case("gemm", "torch", "matmul", dtype, params), place, arrays).call


_BITS = {"uint16": lambda torch: torch.int16, "uint8": lambda torch: torch.uint8}
