"""The readings that fit_primitives.py derives what ships from, as works of the simulation.

A reading is what operators took together on one card: a single one timed alone (operators.csv and
operators_decoding.csv), or all of one name in a phase of a job (kernels.csv, whose shapes are those
of the shipped trace). No time of a whole job enters.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from pymicro.analysis.cases import Case, case
from pymicro.analysis.work import Class, Product, Work, class_of, short_name
from pymicro.dtypes import DTYPES
from pymicro.results import Result
from pymicro.workloads.precisions import PRECISIONS

# Below this many rows embedding_dense_backward takes another path, see `durations.kernel_of`.
FEW_ROWS = 3072
# More rows than these are selected by another kernel, which needs indices side by side in memory; a
# beam search has none such, so its own readings alone tell.
FEW_INDICES = 16
# Rows of the table whose gradient was timed.
VOCABULARY = 30522
# Operators that were timed alone as rows × columns: what stands for them in the simulation, and
# bytes of an element of it, given the format's.
STREAMS: Mapping[str, tuple[str, Class, Callable[[int], int]]] = {
    "add": ("pointwise", "pointwise", lambda w: 3 * w),
    "mul_scalar": ("pointwise", "pointwise", lambda w: 2 * w),
    "relu": ("pointwise", "pointwise", lambda w: 2 * w),
    "pow": ("pointwise", "pointwise", lambda w: 2 * w),
    "clone": ("copy", "copy", lambda w: 2 * w),
    "gelu": ("gelu", "pointwise", lambda w: 2 * w),
    "gelu_backward": ("gelu_backward", "pointwise", lambda w: 3 * w),
    "dropout": ("random", "random", lambda w: 2 * w + 1),
    "dropout_backward": ("native_dropout_backward", "random", lambda w: 2 * w + 1),
    "softmax": ("softmax", "softmax", lambda w: 2 * w),
    "softmax_backward": ("_softmax_backward_data", "softmax", lambda w: 3 * w),
    "layer_norm": ("normalisation", "normalisation", lambda w: 2 * w),
    "layer_norm_backward": ("native_layer_norm_backward", "normalisation", lambda w: 3 * w),
    "sum_rows": ("sum", "reduction", lambda w: w),
    "mean_columns": ("mean", "reduction", lambda w: w),
    "cast": ("_to_copy", "copy", lambda w: 6),
    "embedding": ("gather", "gather", lambda w: 2 * w),
    "embedding_backward": ("embedding_dense_backward", "scatter", lambda w: 2 * w),
}


@dataclass(frozen=True)
class Reading:
    """Works that took `seconds` in kernels together, in `kernels` of them."""

    works: tuple[tuple[Work, float], ...]
    seconds: float
    kernels: float
    tf32: bool = False

    @property
    def calls(self) -> float:
        return sum(times for _, times in self.works)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def streams(
    rows: Sequence[Mapping[str, str]], held_bytes: float, gap_s: float
) -> dict[str, list[Reading]]:
    """Readings of single operators that memory bounds, by what stands for them.

    Args:
        held_bytes: arrays up to this were also timed from the cache, by calls with `gap_s` between
            kernels.
    """
    found: dict[str, list[Reading]] = defaultdict(list)
    for row in rows:
        if row["op"] not in STREAMS:
            continue
        name, kind, bytes_of = STREAMS[row["op"]]
        count, columns = int(row["rows"]), int(row["columns"])
        narrow = (row["dtype"] == "fp32") if row["op"] == "cast" else row["dtype"] != "fp32"
        width = 2 if row["dtype"] != "fp32" else 4
        size = count * columns * bytes_of(width)
        work = Work(
            name, kind, "float16" if narrow else "float32", count, size, columns=columns,
            gathered=count,
        )  # fmt: skip
        if name == "embedding_dense_backward":
            met = round(VOCABULARY * -math.expm1(-count / VOCABULARY))
            table = VOCABULARY * columns * width
            work = replace(work, bytes=count * columns * width + table, distinct=met)
        kernels = float(row["kernels"])
        found[name].append(Reading(((work, 1.0),), float(row["kernel_s"]), kernels))
        hot_s = float(row["hot_s"] or 0) - kernels * gap_s
        if row["hot_s"] and size < held_bytes and hot_s > gap_s:
            found[name].append(Reading(((work, 1.0),), hot_s, kernels))
    return found


# Operators of a decode step: what stands for them, its class, bytes of an element as above, and by
# format what is special of them.
DECODING: Mapping[str, tuple[str, Class, Callable[[int], int], Mapping[str, dict[str, bool]]]] = {
    "mul_row": ("mul", "pointwise", lambda w: 2 * w, {
        "fp32": {"is_broadcast": True}, "bf16": {"is_broadcast": True, "is_mixed": True}}),
    "mul_weight": ("mul", "pointwise", lambda w: 2 * w, {
        "fp32": {"is_broadcast": True}, "bf16": {"is_broadcast": True}}),
    "where": ("where", "pointwise", lambda w: 2 * w, {"fp32": {"is_broadcast": True}}),
    "log_softmax": ("_log_softmax", "softmax", lambda w: 2 * w, {}),
    "topk": ("topk", "reduction", lambda w: w, {}),
    "argmax": ("argmax", "reduction", lambda w: w, {}),
}  # fmt: skip


def decoding(rows: Sequence[Mapping[str, str]]) -> dict[str, list[Reading]]:
    """Readings of a decode step's operators, by the row of the table that they tell."""
    found: dict[str, list[Reading]] = defaultdict(list)
    for row in rows:
        width, op, count = (4 if row["dtype"] == "fp32" else 2), row["op"], int(row["rows"] or 0)
        if op in DECODING:
            name, kind, bytes_of, forms = DECODING[op]
            form = forms.get(row["dtype"], {})
            wide = width == 4 or form.get("is_mixed")
            size = count * int(row["columns"]) * bytes_of(width)
            work = Work(
                name, kind, "float32" if wide else "float16", count, size,
                columns=int(row["columns"]), **form,
            )  # fmt: skip
            key = kind if form else name
            key += "_long" * (not form) + "_mixed" * form.get("is_mixed", False)
            key += "_broadcast" * bool(form) + "_narrow" * (not wide)
        elif op == "cat" or (op == "index_select" and count <= FEW_INDICES):
            kind = "copy" if op == "cat" else "gather"
            dtype = "float32" if width == 4 else "float16"
            work = Work(op, kind, dtype, 0, int(row["bytes"]), gathered=count)
            key = op
        else:
            continue
        one = Reading(((work, 1.0),), float(row["kernel_s"]), float(row["kernels"]))
        found[key].append(one)
    return found


def single_queries(rows: Sequence[Mapping[str, str]]) -> dict[str, list[Reading]]:
    """Readings of attention of one query a row, by kind of unit."""
    found: dict[str, list[Reading]] = defaultdict(list)
    for row in rows:
        if row["op"] == "single_query":
            count, keys = int(row["rows"]), int(row["keys"])
            work = replace(
                _attention(row["dtype"], count, int(row["heads"]), 1, keys), has_mask=True
            )
            one = Reading(((work, 1.0),), float(row["kernel_s"]), float(row["kernels"]))
            found[_unit(row["dtype"])].append(one)
    return found


def products(rows: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, Reading]]:
    """Readings of matrix products by format."""
    for row in rows:
        if row["layout"]:
            batch, m, n, k = (int(row[x]) for x in ("batch", "m", "n", "k"))
            shape = Product(max(batch, 1), m, n, k, row["layout"])
            name = short_name(row["op"])
            dtype, flop = DTYPES[row["dtype"]].torch_name, int(row["flop"])
            work = Work(name, "product", dtype, flop, int(row["bytes"]), product=shape)
            seconds, kernels = float(row["kernel_s"]), float(row["kernels"])
            yield row["dtype"], Reading(((work, 1.0),), seconds, kernels, row["dtype"] == "tf32")


def attentions(
    rows: Sequence[Mapping[str, str]], results: Sequence[Result]
) -> dict[str, list[Reading]]:
    """Readings of fused attention by kind of unit; those with a gradient are two operators.

    Args:
        results: of `pymicro readiness --measure attention`; the way that torch takes counts.
    """
    found: dict[str, list[Reading]] = defaultdict(list)
    for row in rows:
        if row["op"] == "sdpa":
            batch, heads, length = (int(row[x]) for x in ("batch", "heads", "length"))
            forward = _attention(row["dtype"], batch, heads, length, length)
            forward = replace(
                forward, has_dropout=float(row["p"]) > 0, has_mask=row["masked"] == "True"
            )
            both = [(forward, 1.0)]
            if row["backward"] == "True":
                back = replace(forward, name=f"{forward.name}_backward",
                               flop=forward.flop // 2 * 5, bytes=2 * forward.bytes)  # fmt: skip
                both.append((back, 1.0))
            one = Reading(tuple(both), float(row["kernel_s"]), float(row["kernels"]))
            found[_unit(row["dtype"])].append(one)
    for r in results:
        if (r.benchmark, r.variant, r.outcome) == ("attention", "default", "ok"):
            p = r.params
            forward = _attention(r.dtype, p["batch"], p["heads"], p["queries"], p["keys"])
            forward = replace(forward, has_mask=p["has_bias"])
            one = Reading(((forward, 1.0),), median(r.samples_s), len(r.details["kernels"]))
            found[_unit(r.dtype)].append(one)
    return found


def _unit(dtype: str) -> str:
    return "vector" if dtype == "fp32" else "tensor"


def _attention(dtype: str, batch: int, heads: int, queries: int, keys: int) -> Work:
    """A forward one of heads of 64 numbers, by the way that torch takes."""
    way, width = ("efficient", 4) if dtype == "fp32" else ("cudnn", 2)
    return Work(
        f"_scaled_dot_product_{way}_attention",
        "attention",
        DTYPES[dtype].torch_name,
        4 * batch * heads * queries * keys * 64,
        2 * batch * heads * (queries + keys) * 64 * width,
        columns=keys,
        blocks=batch * heads * -(-queries // 64),
    )


def of_jobs(rows: Sequence[Mapping[str, str]]) -> dict[str, list[Reading]]:
    """Readings of whole jobs by operator: all of one name in a phase, at the trace's shapes."""
    seen: dict[tuple[str, ...], list[Mapping[str, str]]] = defaultdict(list)
    job = ("model", "precision", "attention", "batch", "length", "beams")
    for row in rows:
        seen[tuple(row[x] for x in (*job, "phase", "name"))].append(row)
    found: dict[str, list[Reading]] = defaultdict(list)
    for (model, precision, attention, *sizes, phase, name), those in seen.items():
        batch, length, beams = map(int, sizes)
        more = {"output": 3, "beams": beams} if int(those[0]["output"]) else {}
        made = case(
            model, precision=precision, attention=attention, batch=batch, length=length, **more
        )
        calls = sum(int(row["calls"]) for row in those)
        works = _works(made, phase, name)
        there = sum(works.values())
        if there and class_of(name) != "none":
            of_all = tuple((work, times * calls / there) for work, times in works.items())
            seconds = sum(float(row["busy_s"]) for row in those)
            kernels = sum(int(row["kernels"]) for row in those)
            reading = Reading(of_all, seconds, kernels, PRECISIONS[precision].allows_tf32)
            found[short_name(name)].append(reading)
    return found


def _works(made: Case, phase: str, name: str) -> dict[Work, float]:
    """Works of an operator in one run of a phase; what crosses the link is no kernel."""
    found: dict[Work, float] = defaultdict(float)
    for stretch in made.program.stretches:
        for step in stretch.steps:
            work = made.program.works[step.work]
            if (stretch.phase, step.name) == (phase, name) and not work.host_bytes:
                found[work] += stretch.times
    return found
