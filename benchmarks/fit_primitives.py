"""Where do the measured figures that ship come from?

    python benchmarks/fit_primitives.py            # says where the shipped files differ
    python benchmarks/fit_primitives.py --write    # writes them anew

Derives `pymicro/data/measured/<card>.csv` and `pymicro/data/operators.toml` from the readings in
`benchmarks/reference/<card>/`: products and operators timed alone (operators.csv), kernels of whole
jobs (kernels.csv), and the results of `pymicro gemm`, `bandwidth`, `launch` and `transfer`, which
are taken by the same rules as a user's store. Nothing else enters but the data sheet, and what
nobody timed is in `operators_assumed.toml` with its reason. Expected: no difference.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fit_operators as fits
import fit_readings as readings
from fit_table import operators_toml

from pymicro.analysis import primitives_stored as stored
from pymicro.analysis.primitives import FusedAttention, Kernel, Library, Primitives
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.products import Unit
from pymicro.analysis.values import Value, spread
from pymicro.devices.catalogue import DATA, catalogue
from pymicro.results import Store

CARD = "h200_sxm_141gb"
REFERENCE = Path(__file__).parent / "reference"
ALONE = ("operators.csv", "operators_decoding.csv")
RESULTS = ("gemm", "gemm_fp16", "bandwidth", "launch", "transfer")
# Primitives that results give by the rules of a store.
SINGLE = ("dram_bytes_per_s", "gap_s", "graph_gap_s", "link_bytes_per_s", "link_start_s")
# Operators of one kernel that does next to nothing at one row: what is left is the kernel itself.
EMPTY = ("add", "mul_scalar", "relu", "clone", "pow")
# A product below this is too short to tell a layout's rate.
LONG_FLOP = 1e9
# A copy below this is too short to tell its rate.
LONG_S = 4e-6
# How many readings of streams a cache holds: up to this share of L2, from this size on.
HELD, LEAST_BYTES = 0.6, 8e6
COLUMNS = ("what", "path", "batch", "m", "n", "k", "layout", "value", "low", "high", "source")


# The card ---------------------------------------------------------------------------------------


def card(folder: Path) -> dict[str, Value]:
    """Figures of the card by name of the primitive; of tables, `name path`."""
    rows = readings.rows_of(folder / "operators.csv")
    results = [r for name in RESULTS for r in Store(folder / f"{name}.jsonl").read().results]
    known = stored.of(results)
    tiny = [r for r in rows if r["op"] in EMPTY and r["rows"] == "1"]
    kernel_s = sorted(float(r["kernel_s"]) for r in tiny)
    text = f"operators.csv: {', '.join(EMPTY)} of one row"
    found = {"floor_s": _of(kernel_s, f"{text}, time in the kernel")}
    for name in SINGLE:
        found[name] = getattr(known, name)
    found["l2_bytes_per_s"] = _of(
        list(_from_cache(rows, found)), "operators.csv: clone from the cache"
    )
    for table in ("flop_per_s", "clock_share"):
        found |= {f"{table} {path}": value for path, value in getattr(known, table).items()}
    return found


def _of(values: Sequence[float], source: str) -> Value:
    """The median with the middle half of the readings."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return Value(median(ordered), ordered[quarter], ordered[-1 - quarter], source, "measured")


def _from_cache(rows: Sequence[Mapping[str, str]], known: Mapping[str, Value]) -> Iterator[float]:
    """Bytes a second of copies whose arrays the cache holds, the launch taken off."""
    held = HELD * (catalogue()[CARD].last_level_cache_bytes or 0)
    for r in rows:
        if r["op"] == "clone" and r["hot_s"] and LEAST_BYTES < float(r["bytes"]) < held:
            around_s = known["floor_s"].value + known["gap_s"].value
            yield float(r["bytes"]) / (float(r["hot_s"]) - around_s)


def products(folder: Path) -> dict[tuple[str, ...], float]:
    """Seconds in the kernels of each product by shape; the mean of those timed more than once."""
    kept: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for r in _alone(folder):
        if r["layout"]:
            batch = str(max(int(r["batch"]), 1))
            key = (r["dtype"], batch, r["m"], r["n"], r["k"], r["layout"])
            kept[key].append(float(r["kernel_s"]))
    return {key: mean(times) for key, times in kept.items()}


def _alone(folder: Path) -> list[dict[str, str]]:
    """Rows of operators timed alone."""
    return [r for name in ALONE for r in readings.rows_of(folder / name)]


def measured_csv(folder: Path) -> str:
    """The file of the card: a line a figure."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for name, value in card(folder).items():
        what, _, path = name.partition(" ")
        ends = (f"{x:.4g}" for x in (value.value, value.low, value.high))
        lines.writerow((what, path, *[""] * 5, *ends, value.source))
    for key, seconds in products(folder).items():
        lines.writerow(("product_s", *key, f"{seconds:.4g}", "", "", "operators timed alone"))
    return out.getvalue()


# The library ------------------------------------------------------------------------------------


def blank(folder: Path) -> Primitives:
    """The card with neutral kernels: nothing that ships enters its own derivation."""
    known, plain = card(folder), Kernel(1.0, 1.0, (18.0, 18.0))
    names = {name for name, _, _ in readings.STREAMS.values()} | {
        "attention",
        "optimiser",
        "product",
    }
    library = Library(
        kernels=dict.fromkeys((*names, "reduction", "scatter"), plain),
        attention=dict.fromkeys(("vector", "tensor"), FusedAttention(0.5, 100.0, 0.8, 0.8, 5e-8)),
        units={n: Unit(n, 10.0, 32.0, 3e-9, 2.0, 2.0) for n in ("vector", "tensor")},
        tensors_a_launch=20.0,
        speed=spread(1.0, 0.0, "", "measured"),
    )
    p = primitives(catalogue()[CARD], measured=False, library=library)
    rates = {path: known[f"flop_per_s {path}"] for path in p.flop_per_s}
    single = {
        name: known[name] for name in ("floor_s", "gap_s", "dram_bytes_per_s", "l2_bytes_per_s")
    }
    return replace(p, flop_per_s=rates, library=library, **single)


def library(folder: Path) -> dict[str, dict[str, Any]]:
    """All tables of operators.toml."""
    p, rows = blank(folder), _alone(folder)
    streams = readings.streams(rows, HELD * p.l2_bytes, p.gap_s.value)
    jobs = readings.of_jobs(readings.rows_of(folder / "kernels.csv"))
    streams["mean"] += jobs["mean"]
    streams["reduction"] = [*streams["mean"], *streams["sum"]]
    streams["embedding_dense_backward"] = [
        r
        for r in streams["embedding_dense_backward"]
        if r.works[0][0].gathered >= readings.FEW_ROWS
    ]
    # Widening and narrowing are two kernels.
    casts = streams.pop("_to_copy")
    streams["_to_copy"] = [r for r in casts if r.works[0][0].dtype == "float32"]
    streams["_to_copy_narrow"] = [r for r in casts if r not in streams["_to_copy"]]
    kernels = {name: fits.kernel(p, name, own) for name, own in streams.items()}
    for name, kernel in kernels.items():
        p = fits.with_kernel(p, name, kernel)
    decoding = readings.decoding(rows)
    decoding["index_select"] += jobs["index_select"]
    special = {name: fits.kernel(p, name, own) for name, own in decoding.items()}
    for name, kernel in special.items():
        p = fits.with_kernel(p, name, kernel)
    kernels |= special | _of_jobs(p, jobs)
    by_format = list(readings.products(rows))
    units = {
        "vector": fits.unit(p, "vector", [r for dtype, r in by_format if dtype == "fp32"]),
        "tensor": fits.unit(p, "tensor", [r for d, r in by_format if d in ("fp16", "bf16")]),
    }
    p = replace(p, library=replace(p.library, units=units))
    attention, fused = attentions(p, folder, jobs)
    kernels |= fused
    return {
        "kernels": {name: asdict(kernel) for name, kernel in kernels.items()},
        "attention": {unit: asdict(row) for unit, row in attention.items()},
        "unit": {n: {k: v for k, v in asdict(u).items() if k != "name"} for n, u in units.items()},
        "turned_flop_per_clk": turned(p, by_format),
        "lists": {"tensors_a_launch": tensors_a_launch(jobs)},
    }


def attentions(
    p: Primitives, folder: Path, jobs: Mapping[str, Sequence[readings.Reading]]
) -> tuple[dict[str, FusedAttention], dict[str, Kernel]]:
    """Fused attention by kind of unit, and its operators."""
    rows, kernels = {}, {}
    asked = Store(folder / "readiness.jsonl").read().results
    timed = readings.attentions(_alone(folder), asked)
    single = readings.single_queries(_alone(folder))
    for unit, alone in timed.items():
        way = "efficient" if unit == "vector" else "cudnn"
        names = [f"_scaled_dot_product_{way}_attention{end}" for end in ("", "_backward")]
        counts = {
            name: sum(r.kernels for r in jobs[name]) / sum(r.calls for r in jobs[name])
            for name in names
        }
        seen = [r for name in names for r in jobs[name]]
        rows[unit], own = fits.attention(p, unit, counts, [*alone, *seen], single[unit])
        kernels |= own
    return rows, kernels


# Operators without a reading of their own among streams; whose `bytes_per_clk` they share.
SMALL = {
    "isin": "pointwise", "isinf": "pointwise", "nll_loss_backward": "pointwise",
    "select_backward": "pointwise", "topk": "reduction",
}  # fmt: skip
LISTS = ("_foreach_norm", "_foreach_mul_", "_fused_adamw_")


def _of_jobs(p: Primitives, jobs: Mapping[str, Sequence[readings.Reading]]) -> dict[str, Kernel]:
    found = {name: fits.kernel(p, name, jobs[name], like) for name, like in SMALL.items()}
    for name in ("_safe_softmax", "_softmax"):
        found[name] = fits.kernel(p, name, jobs[name])
    mixed = [r for r in jobs["add"] if any(w.is_mixed for w, _ in r.works)]
    found["pointwise_mixed"] = fits.kernel(p, "pointwise_mixed", mixed)
    long = [r for r in jobs["clone"] if r.seconds / r.calls > LONG_S]
    found["copy_strided"] = fits.kernel(p, "copy_strided", long)
    every = [r for name in ("mm", "addmm", "bmm") for r in jobs[name]]
    count = sum(r.kernels for r in every) / sum(r.calls for r in every)
    found["product"] = Kernel(float(f"{count:.3g}"), 1.0, (18.0, 18.0))
    q = replace(p, library=replace(p.library, tensors_a_launch=tensors_a_launch(jobs)))
    lists = [r for name in LISTS for r in jobs[name]]
    found["optimiser"] = replace(fits.kernel(q, "optimiser", lists), kernels=1.0)
    return found


def tensors_a_launch(jobs: Mapping[str, Sequence[readings.Reading]]) -> float:
    """Tensors of a list that one kernel goes through."""
    lists = [r for name in LISTS for r in jobs[name]]
    tensors = sum(times * work.tensors for r in lists for work, times in r.works)
    return float(f"{tensors / sum(r.kernels for r in lists):.3g}")


def turned(
    p: Primitives, by_format: Sequence[tuple[str, readings.Reading]]
) -> dict[str, dict[str, float]]:
    """Operations a clock and SM for which operands of TF32 products can be turned, by layout."""
    found = {}
    for layout in ("nn", "tn"):
        own = [r for dtype, r in by_format if dtype == "tf32" and _is_long(r, layout)]
        found[layout] = fits.layout(p, "tf32", layout, own)
    # No job's product has both operands the other way: as where A alone does not lie along k.
    return {"tf32": {**found, "tt": found["tn"]}}


def _is_long(r: readings.Reading, layout: str) -> bool:
    work = r.works[0][0]
    product = work.product
    return product is not None and product.layout == layout and work.flop >= LONG_FLOP


def derived(reference: Path = REFERENCE) -> dict[Path, str]:
    """Every file with what it should hold."""
    folder = reference / CARD
    return {
        DATA / "measured" / f"{CARD}.csv": measured_csv(folder),
        DATA / "operators.toml": operators_toml(library(folder)),
    }


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--write", action="store_true", help="write the files that ship")
    asked = words.parse_args()
    differ = 0
    for path, text in derived().items():
        same = path.exists() and path.read_text(encoding="utf-8") == text
        differ += not same
        print(f"{path.relative_to(DATA.parent.parent)}: {'as derived' if same else 'differs'}")
        if asked.write:
            path.write_text(text, encoding="utf-8")
    return 0 if asked.write or not differ else 1


if __name__ == "__main__":
    sys.exit(main())
