"""What the judges of claims share: devices, jobs, and how an interval becomes a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pymicro.analysis.against import against
from pymicro.analysis.cases import Case, case
from pymicro.analysis.predict import predict
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.values import Value
from pymicro.devices.catalogue import catalogue
from pymicro.devices.cpu import CpuSpec
from pymicro.results import Store

HERE = Path(__file__).parent
CPU = "16 cores of Zen 5"
CARDS = {
    "T4": "t4",
    "RTX 4090": "rtx_4090",
    "RTX 5090": "rtx_5090",
    "H100 SXM": "h100_sxm5_80gb",
    "H100 PCIe": "h100_pcie_80gb",
    "A100": "a100_sxm4_80gb",
    "A6000": "rtx_a6000",
    "A4000": "rtx_a4000",
    "V100": "v100_sxm2_16gb",
    "P6000": "quadro_p6000",
    "RTX 4000": "quadro_rtx_4000",
    "L40S": "l40s",
    "L4": "l4",
}
# What the author expected of each, times a CPU.
EXPECTED = {"T4": 10, "RTX 4090": 40, "RTX 5090": 50, "H100 SXM": 100, "H100 PCIe": 100}


# The training job that the nine cards are ranked by.
LARGE: dict[str, Any] = {"precision": "amp_fp16", "batch": 8, "length": 384}
# Causes of the study that libraries and drivers answer for.
SOFTWARE = (
    "batched FP32 products",
    "plain FP32 products",
    "memory or crossbar clock",
    "start-up and JIT",
)


@dataclass(frozen=True)
class Judged:
    """A claim's end: the verdict, the command that shows it, and the figures."""

    id: str
    verdict: str
    command: str
    numbers: str


@cache
def device(name: str) -> Primitives:
    if name != CPU:
        return primitives(catalogue()[CARDS[name]], measured=False)
    folder = HERE / "reference" / "cpu_zen5_2cores"
    results = [
        r for f in ("gemm", "bandwidth") for r in Store(folder / f"{f}.jsonl").read().results
    ]
    two = primitives(CpuSpec(name="AMD EPYC (Zen 5)", physical_cores=2), results)
    eight = {"flop_per_s": 8.0, "dram_bytes_per_s": 2.0}
    for group, factor in eight.items():
        two = two.scaled(group, factor)
    peaks = {k: 8 * v for k, v in two.peak_flop_per_s.items()}
    paper = {"peak_flop_per_s": peaks, "paper_bytes_per_s": 2 * two.paper_bytes_per_s}
    return replace(two, name=CPU, key=CPU, sm_count=16, **paper)


def job(name: str, on: str = "", **given: Any) -> Case:
    return case(name, "cpu" if on == CPU else "cuda", **given)


def seconds(name: str, on: str, **given: Any) -> Value:
    return predict(job(name, on, **given), device(on)).seconds


def times_faster(name: str, slow: str, fast: str, **given: Any) -> tuple[float, float, float]:
    """How many times as fast `fast` is, with its interval."""
    made = against(
        job(name, fast, **given), device(fast), device(slow), job(name, slow, **given), False
    )
    return made.ratio


def told_of(ratio: tuple[float, float, float]) -> str:
    return f"{ratio[0]:.3g} x ({ratio[1]:.3g} to {ratio[2]:.3g})"


def judged_above(ratio: tuple[float, float, float], least: float) -> str:
    if ratio[1] > least:
        return "holds"
    return "does not hold" if ratio[2] < least else "cannot tell"
