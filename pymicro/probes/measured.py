"""Questions to torch that take a GPU and end in times: asked in children, told as results.

Here times come from the children, since each needs a library in a state of its own; everything
that our ordinary benchmarks can time is timed by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pymicro.probes import child
from pymicro.probes.child import Report
from pymicro.results import Result, Verified

_ROOT = Path(child.__file__).parents[2]
Product = tuple[str, int, int, int, str]
# What took the times where a record does not say.
_TIMER = "cuda events, graphs"


def launched(
    products: Sequence[Product], env: Mapping[str, str], timeout_s: float
) -> tuple[dict[Product, list[dict[str, Any]]], str | None]:
    """The kernels that torch launches for each product, by its profiler; and why some are missing.

    A product that torch refuses is not in the table.
    """
    report = child.ask("products", env, timeout_s, root=str(_ROOT), products=products)
    told = [report.facts.get(f"product_{i}") for i in range(len(products))]
    pairs = zip(products, told, strict=True)
    found = {p: t["kernels"] for p, t in pairs if t and "kernels" in t}
    return found, why_ended(report)


def why_ended(report: Report) -> str | None:
    """Why a child told less than it was asked for, None if it told all."""
    if not report.is_installed:
        return "torch is not installed."
    if report.is_ok:
        return None
    return f"torch's process ended at '{report.step}': {report.how}"


def results_of(report: Report, benchmark: str, shared: Mapping[str, Any]) -> Iterator[Result]:
    """The records of a child as results; `shared` has what all results of a run share."""
    numbers = sorted(int(n[7:]) for n in report.facts if n.startswith("record_"))
    for record in (report.facts[f"record_{n}"] for n in numbers):
        yield _result(dict(record), report, benchmark, shared)


def _result(
    record: dict[str, Any], report: Report, benchmark: str, shared: Mapping[str, Any]
) -> Result:
    reason = record.get("reason")
    outcome = record.get("outcome", "skipped" if reason else "ok")
    params = record["params"]
    verified = record.get("verified")
    details = {"torch": report.facts.get("version"), "study": benchmark, "is_vendor": True}
    details |= record.get("details", {})
    return Result(
        benchmark=benchmark,
        backend="torch",
        variant=record["variant"],
        dtype=record["dtype"],
        params=params,
        outcome=outcome,
        reason=reason,
        verified=Verified(**verified) if verified else None,
        flop=_flop(params),
        times_s=tuple(record.get("times_s", ())) if outcome == "ok" else (),
        fill="normal",
        timer=record.get("timer", _TIMER),
        details=details,
        **shared,
    )


def _flop(p: Mapping[str, Any]) -> int:
    """Operations of one call: a product, an attention without its softmax, or two products."""
    if "heads" in p:
        return 4 * p["batch"] * p["heads"] * p["queries"] * p["keys"] * p["width"]
    if "inner" in p:
        return 4 * p["rows"] * p["width"] * p["inner"]
    return 2 * p["m"] * p["n"] * p["k"]
