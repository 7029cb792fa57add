"""Tries torch.compile on one feed-forward block: does it work, and what does it save."""

import time

from kernel_records import timed

CALLS = 30


def probe(tell, rows, width, inner):
    if not tell.is_installed("torch"):
        return
    tell.step("import")
    import torch

    tell(version=str(torch.__version__))
    block = torch.nn.Sequential(
        torch.nn.Linear(width, inner),
        torch.nn.GELU(),
        torch.nn.Linear(inner, width),
        torch.nn.LayerNorm(width),
    )
    block = block.cuda().half().eval()
    given = torch.randn(
        rows, width, device="cuda", generator=torch.Generator("cuda").manual_seed(0)
    )
    given = given.half()
    with torch.no_grad():
        tell.step("run the block as it is")
        expected = block(given)
        tell.step("compile")
        compiled = torch.compile(block)
        began = time.perf_counter()
        got = compiled(given)
        torch.cuda.synchronize()
        compile_s = time.perf_counter() - began
        error = float(((got - expected).float().norm() / expected.float().norm()).cpu())
        tell.step("time both")
        calls = {"eager": lambda: block(given), "compiled": lambda: compiled(given)}
        for number, (variant, call) in enumerate(calls.items()):
            times, kernels, timer, host_s = _timed(torch, call)
            record = {
                "variant": variant,
                "dtype": "fp16",
                "params": {"rows": rows, "width": width, "inner": inner},
                "times_s": times,
                "timer": timer,
                # Fused operators round less often than single ones.
                "verified": {"reference": "eager", "error": error, "tolerance": 16 * 2.0**-11},
                "details": {"kernels": kernels, "host_s": host_s, "compile_s": compile_s},
            }
            if not error <= record["verified"]["tolerance"]:
                del record["times_s"]
                record |= {"outcome": "failed", "reason": f"wrong: error {error:.3g}"}
            tell(**{f"record_{number}": record})


def _timed(torch, call):
    """What `timed` tells of a call, and the host's seconds of one; no names where they could not be
    told apart by calls, since they are counted."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    host_s = (time.perf_counter() - began) / CALLS
    times, names, timer = timed(torch, call, CALLS)
    return times, names if len(times) == CALLS else [], timer, host_s
