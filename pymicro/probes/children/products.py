"""Which kernels torch launches for matrix products, seen by its profiler.

The calls are those of pymicro's own torch backend, so that what is named here is what was timed.
"""

import sys

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
    kernels_of(torch, lambda: torch.ones(4, device="cuda"))
    for number, product in enumerate(products):
        tell.step(f"launch {' '.join(map(str, product))}")
        try:
            told = {"kernels": kernels_of(torch, _call(torch, *product))}
        except Exception as error:
            told = {"reason": f"{type(error).__name__}: {error}"[:300]}
        tell(**{f"product_{number}": told})


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


def kernels_of(torch, call):
    """Name, launches a call and median seconds of each kernel, in the order of first launch.

    Raises:
        RuntimeError: the profiler saw nothing; that is no time of zero.
    """
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    times = {}
    for event in seen.events():
        if "CUDA" in str(event.device_type):
            times.setdefault(event.name, []).append(event.time_range.elapsed_us() * 1e-6)
    if not times:
        raise RuntimeError("no kernel records; another profiler may hold the driver's interface")
    return [
        {"name": name[:400], "calls": len(found) / CALLS, "seconds": sorted(found)[len(found) // 2]}
        for name, found in times.items()
    ]
