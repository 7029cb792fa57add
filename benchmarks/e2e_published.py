"""Do training rates of BERT that others published follow from published primitives alone?

    python benchmarks/e2e_published.py            a line a row of data/end-to-end.csv, and a summary

Nothing measured by us enters but PyTorch's own kernels (data/operators.toml): rates, bandwidths and
launch costs are those in print, the host is the assumed one. Expected: within 20 % for the A100
SXM, H100 SXM, RTX 4090, V100 and RTX 3090 in FP32/TF32 and AMP. What the sources leave open is
assumed once for all rows: eager attention in 2022's software, TF32 where the source's container
turns it on, one length for all sequences.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from pymicro.analysis.cases import case
from pymicro.analysis.predict import predict
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.values import Value
from pymicro.devices.catalogue import DATA, catalogue
from pymicro.errors import PymicroError

# The source's name of a card, and the row of the catalogue that it is.
CARDS = {
    "V100 16GB": "v100_sxm2_16gb",
    "RTX 3090": "rtx_3090",
    "A10": "a10",
    "A100 40GB PCIe": "a100_pcie_40gb",
    "A100 80GB PCIe": "a100_pcie_80gb",
    "A100 80GB SXM4": "a100_sxm4_80gb",
    "A100 80GB": "a100_sxm4_80gb",
    "RTX 4090": "rtx_4090",
    "H100 80GB SXM5": "h100_sxm5_80gb",
    "GH200 96GB": "gh200_96gb",
}
NAMED = ("a100_sxm4_80gb", "h100_sxm5_80gb", "rtx_4090", "v100_sxm2_16gb", "rtx_3090")
MODELS = {"BERT-base": "bert-base", "BERT-large": "bert-large"}


@dataclass(frozen=True)
class Row:
    """One published figure beside ours; rates in sequences a second."""

    source: str
    model: str
    card: str
    key: str
    precision: str
    batch: int
    length: int
    attention: str
    published: float
    predicted: Value
    bound: str

    @property
    def error(self) -> float:
        return self.predicted.value / self.published - 1


def rows(with_measured: bool = False) -> Iterator[Row]:
    """Every training row of BERT whose card and batch are known."""
    known: dict[str, Primitives] = {}
    with (DATA / "end-to-end.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["source_id"] not in ("LAMBDA", "HF-SDPA") or "training" not in row["task"]:
                continue
            key = CARDS.get(row["device"])
            if key is None or row["model"] not in MODELS:
                continue
            if key not in known:
                known[key] = primitives(catalogue()[key], measured=with_measured)
            try:
                yield _row(row, key, known[key])
            except PymicroError as error:
                print(
                    f"{row['device']} {row['model']} {row['precision']}: {error}", file=sys.stderr
                )


def _row(row: dict[str, str], key: str, p: Primitives) -> Row:
    precision = "amp_fp16" if "AMP" in row["precision"] else "fp32"
    if row["precision"] == "fp16":
        # All of it in half precision: the operators and rates of BF16, of which there is a trace.
        precision = "bf16"
    elif precision != "amp_fp16" and p.peak_flop_per_s.get("tf32"):
        precision = "tf32"
    attention = "sdpa" if row["note"].startswith("SDPA") else "eager"
    batch, length = int(row["batch"]), int(row["seq_len"].split()[0])
    job = {"batch": batch, "length": length, "precision": precision, "attention": attention}
    made = predict(case(MODELS[row["model"]], records=100 * batch, epochs=1, **job), p)
    value = float(row["value"])
    rate = value if row["metric"] == "throughput" else batch / value
    step = made.unit_s
    predicted = Value(batch / step.value, batch / step.high, batch / step.low, "", step.kind)
    return Row(
        row["source_id"], row["model"], row["device"], key, precision, batch, length, attention,
        rate, predicted, made.bound,
    )  # fmt: skip


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--measured", action="store_true", help="use what was measured as well")
    chosen = words.parse_args()
    found = list(rows(chosen.measured))
    head = ("source", "model", "card", "format", "batch", "published/s", "predicted/s", "error")
    print("| " + " | ".join(head) + " | bound by |")
    print("|" + "---|" * (len(head) + 1))
    for r in found:
        p = r.predicted
        print(
            f"| {r.source} | {r.model} | {r.card} | {r.precision} {r.attention} | "
            f"{r.batch}x{r.length} | {r.published:.1f} | "
            f"{p.value:.1f} ({p.low:.1f} to {p.high:.1f}) | {r.error:+.0%} | "
            f"{r.bound.split(' (')[0]} |"
        )
    for title, some in (
        ("all", found),
        ("the five named cards", [r for r in found if r.key in NAMED and r.source == "LAMBDA"]),
    ):
        errors = [abs(r.error) for r in some]
        within = sum(e <= 0.20 for e in errors)
        inside = sum(r.predicted.low <= r.published <= r.predicted.high for r in some)
        print(
            f"{title}: {within} of {len(some)} within 20 %, median error {median(errors):.0%}, "
            f"worst {max(errors):.0%}; {inside} inside the interval"
        )


if __name__ == "__main__":
    main()
