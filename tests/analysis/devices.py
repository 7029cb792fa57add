"""An invented device with round figures, for tests of simulation."""

from __future__ import annotations

from pymicro.analysis.primitives import FusedAttention, HostCosts, Kernel, Library, Primitives
from pymicro.analysis.products import Unit
from pymicro.analysis.values import Value

CLASSES = ("pointwise", "copy", "normalisation", "softmax", "reduction", "gather", "scatter",
           "random", "optimiser", "product", "attention", "none")  # fmt: skip

UNITS = {
    "tensor": Unit("tensor", 5.0, 23, 2.1e-9, 2.4, 2.0),
    "vector": Unit("vector", 37.0, 35, 5.1e-9, 2.7, 5.0),
}


def value(number: float, share: float = 0.1) -> Value:
    return Value(number, number * (1 - share), number * (1 + share), "invented", "assumed")


def host(operator_s: float = 20e-6, wait_s: float = 10e-6) -> HostCosts:
    zero = value(0.0)
    return HostCosts("invented", {"": value(operator_s)}, zero, zero, zero, value(wait_s))


def device(name: str = "invented", fp32: float = 50e12, dram: float = 1e12, **more) -> Primitives:
    """Rates are 0.8 of the peak; a kernel takes 2 us, one more in the queue 1 us."""
    kernels = {c: Kernel(1.0, 1.0, (1e6, 1e6)) for c in CLASSES}
    attention = {u: FusedAttention(0.5, 0.0, 1.0, 1.0, 0.0) for u in ("vector", "tensor")}
    fields = {
        "name": name,
        "key": name,
        "sm_count": 100,
        "sm_clock_hz": 2e9,
        "l2_bytes": 0,
        "memory_bytes": 24 * 2**30,
        "power_w": 400.0,
        "peak_flop_per_s": {"fp32": fp32, "tf32": 2 * fp32, "fp16": 4 * fp32, "bf16": 4 * fp32},
        "paper_bytes_per_s": dram,
        "flop_per_s": {
            "fp32": value(0.8 * fp32),
            "tf32": value(1.6 * fp32),
            "fp16": value(3.2 * fp32),
            "bf16": value(3.2 * fp32),
        },
        "dram_bytes_per_s": value(0.9 * dram),
        "l2_bytes_per_s": value(4 * dram),
        "floor_s": value(2e-6),
        "gap_s": value(1e-6),
        "graph_gap_s": value(0.5e-6),
        "reach_s": value(3e-6),
        "link_bytes_per_s": value(20e9),
        "link_start_s": value(10e-6),
        "host": host(),
        "library": Library(kernels, attention, UNITS, 30.0, value(1.0)),
    }
    return Primitives(**{**fields, **more})
