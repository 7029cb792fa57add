"""Which generation of chips were the kernels written for that a library launches for two real jobs?

    python benchmarks/kernel_generations.py --device h200_sxm_141gb

Needs no GPU: it reads the names and times that `benchmarks/operator_times.py` saw by the profiler
on that device (`reference/<device>/operators.csv`), takes the 20 products that weigh most in the
traces of the published experiments, and writes `reference/<device>/kernel_generations.md`.

Expected on a Hopper card: FP32 products run kernels of the generation before (the SIMT instruction
has not changed since), FP16 and BF16 Hopper's own, TF32 Hopper's where the product is large; and
many small ones run kernels whose names tell nothing. Of a product that is cut along k the recording
names one kernel, which may be the one that adds up the pieces.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pymicro.analysis.work import Product
from pymicro.devices.catalogue import catalogue
from pymicro.plans import hot_products
from pymicro.software.kernel_names import generation, short, steps_behind, written_for
from pymicro.software.versions import dotted
from pymicro.units import si

REFERENCE = Path(__file__).parent / "reference"
FORMATS = ("fp32", "tf32", "fp16", "bf16")
Row = Mapping[str, str]


def products(rows: Sequence[Row]) -> Iterator[tuple[str, Product, Row]]:
    """The recorded operator of each hot product in each format; one without is left out."""
    plain = [r for r in rows if r["op"] in ("aten::mm", "aten::addmm") and int(r["batch"]) == 0]
    for dtype in FORMATS:
        for p in hot_products(20):
            shape = [str(p.m), str(p.n), str(p.k), p.layout, dtype]
            for row in plain:
                if [row[x] for x in ("m", "n", "k", "layout", "dtype")] == shape:
                    yield dtype, p, row
                    break


def report(rows: Sequence[Row], capability: tuple[int, int]) -> str:
    """The answer as markdown: a sentence a format, then a line a product."""
    found = list(products(rows))
    lines = [f"Kernels of the jobs' products on compute capability {dotted(capability)}", ""]
    for dtype in FORMATS:
        own = [row for d, _, row in found if d == dtype]
        lines.append(f"- {dtype}: {_sentence([r['kernel'] for r in own], capability)}")
    lines += [
        "",
        "| format | m×n×k | kernel | for | rate | device time |",
        "|---|---|---|---|--:|--:|",
    ]
    for dtype, p, row in found:
        written, seconds = written_for(row["kernel"]), float(row["kernel_s"])
        chip = dotted(written.chip) if written else ""
        size = f"{p.m}×{p.n}×{p.k} {row['layout']}"
        rate = si(2 * p.m * p.n * p.k / seconds, "FLOP/s")
        name = short(row["kernel"]).replace("|", "\\|")
        lines.append(f"| {dtype} | {size} | `{name}` | {chip} | {rate} | {si(seconds, 's')} |")
    return "\n".join(lines) + "\n"


def _sentence(names: Sequence[str], capability: tuple[int, int]) -> str:
    if not names:
        return "not recorded"
    told = Counter(w.chip for name in names if (w := written_for(name)))
    parts = [
        f"{n} of {len(names)} for {dotted(chip)} ({generation(chip)}, "
        f"{steps_behind(chip, capability)} behind)"
        for chip, n in sorted(told.items())
    ]
    untold = len(names) - sum(told.values())
    return "; ".join([*parts, *([f"{untold} do not say"] if untold else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="h200_sxm_141gb", help="key of the catalogue")
    asked = parser.parse_args()
    folder = REFERENCE / asked.device
    with (folder / "operators.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    text = report(rows, catalogue()[asked.device].capability)
    (folder / "kernel_generations.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
