"""The stored pairs of `gemm_vs_vendor` as a markdown table and a picture."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pymicro import stats
from pymicro.results import Result, summary
from pymicro.units import si

Pair = tuple[Result, Result]
# The driver's watts are means over a good part of a second: of shorter turns they mix both sides.
LEAST_BLOCK_S = 0.4
HEAD = (
    "row", "ratio", "95 % interval", "bar", "", "ours", "vendor", "burst ours", "burst vendor",
    "MHz ours", "MHz vendor", "W ours", "W vendor", "TFLOP/J ours", "TFLOP/J vendor", "kernel",
    "beside",
)  # fmt: skip


def pair(held: Sequence[Result], row: Any) -> Pair | None:
    """The newest of a row that were taken in one run, ours and the vendor's; None: none were."""
    runs: dict[str, dict[bool, Result]] = {}
    for result in held:
        details = result.details
        if result.outcome == "ok" and details.get("row") == row.name:
            runs.setdefault(result.run_id, {})[bool(details.get("is_vendor"))] = result
    whole = [sides for sides in runs.values() if len(sides) == 2]
    if not whole or len(whole[-1][False].times_s) != len(whole[-1][True].times_s):
        return None
    return whole[-1][False], whole[-1][True]


def verdict(bar: float | None, low: float) -> str:
    """A bar is met if the whole interval lies at or above it."""
    return "" if bar is None else "met" if low >= bar else "missed"


def cells(row: Any, ours: Result, vendor: Result) -> list[str]:
    """A line of the table; what was not read is a dash."""
    ratio, low, high = stats.paired_ratio(ours.times_s, vendor.times_s)
    sides = (ours, vendor)
    sums = [summary(side) for side in sides]
    bursts = [s["burst"]["flop_per_s"] if s.get("burst") else None for s in sums]
    clocks = [[c for c in side.sample_sm_clock_hz or () if c] for side in sides]
    watts = [side.telemetry.power_w if side.telemetry else None for side in sides]
    watts = watts if has_watts(ours) else [None, None]
    thrift = [per_joule(side) for side in sides]
    return [
        row.name,
        f"{ratio:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{row.bar:.2f}" if row.bar is not None else "",
        verdict(row.bar, low),
        *(si(s["flop_per_s"], "FLOP/s") for s in sums),
        *(si(rate, "FLOP/s") if rate else "–" for rate in bursts),
        *(f"{stats.median(c) / 1e6:.0f}" if c else "–" for c in clocks),
        *(f"{w:.0f}" if w else "–" for w in watts),
        *(f"{each / 1e12:.3f}" if each else "–" for each in thrift),
        str(ours.details.get("kernel") or ours.details.get("path") or ours.variant),
        f"{vendor.backend} {vendor.variant}",
    ]


def has_watts(side: Result) -> bool:
    """Whether a side's turns were long enough for the power that was read to be its own."""
    return side.details.get("block_s", 0.5) >= LEAST_BLOCK_S


def per_joule(side: Result) -> float | None:
    return summary(side)["flop_per_joule"] if has_watts(side) else None


def line(row: Any, ours: Result, vendor: Result) -> str:
    """What a row gave, for the terminal."""
    name, ratio, interval, bar, said, our_rate, their_rate, *_ = cells(row, ours, vendor)
    judged = f", bar {bar} {said}" if bar else ""
    return f"{name}: {ratio} ({interval}){judged}; {our_rate} beside {their_rate}"


def markdown(
    held: Sequence[Result], rows: Sequence[Any], device: str, failed: Mapping[str, str]
) -> str:
    """The table of all rows that are stored, then those that are missing and why."""
    found = [(row, both) for row in rows if (both := pair(held, row)) is not None]
    table = [cells(row, *both) for row, both in found]
    verdicts = [cell[4] for cell in table]
    text = [
        f"# Matrix products beside the vendor's: {device}",
        "",
        "Written by `python benchmarks/gemm_vs_vendor.py`, whose head says how it measures. Ratio: "
        "median over pairs of the vendor's time over ours. Rates, clocks (read on the device) and "
        "watts are under lasting load.",
        "",
        f"Bars met: {verdicts.count('met')} of {verdicts.count('met') + verdicts.count('missed')}."
        + _thrift([both for _, both in found]),
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
        *("| " + " | ".join(cell) + " |" for cell in table),
    ]
    missing = [row.name for row in rows if row.name not in {row.name for row, _ in found}]
    if missing:
        told = [f"{name} ({failed[name]})" if name in failed else name for name in missing]
        text += ["", "Not measured yet: " + ", ".join(told) + "."]
    return "\n".join(text) + "\n"


def _thrift(pairs: Sequence[Pair]) -> str:
    """In how many rows a joule goes at least as far as with the vendor; nothing without watts."""
    both = [[per_joule(side) for side in sides] for sides in pairs]
    read = [ours >= vendor for ours, vendor in both if ours and vendor]
    told = f" TFLOP/J at least the vendor's: {sum(read)} of {len(read)}."
    return told if read else ""


def write(
    folder: Path,
    held: Sequence[Result],
    rows: Sequence[Any],
    device: str,
    failed: Mapping[str, str],
) -> None:
    """The table to a file and the terminal, and a picture where matplotlib is installed."""
    text = markdown(held, rows, device, failed)
    (folder / "gemm_vs_vendor.md").write_text(text, encoding="utf-8")
    print(text, end="")
    found = [(row, both) for row in rows if (both := pair(held, row)) is not None]
    if found and importlib.util.find_spec("matplotlib"):
        picture(folder / "gemm_vs_vendor.svg", found, device)


def picture(path: Path, found: Sequence[tuple[Any, Pair]], device: str) -> None:
    """Ratio and interval of each row, its bar as a tick."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "pymicro"  # The same file for the same data.
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 1.2 + 0.24 * len(found)), layout="constrained")
    for place, (row, (ours, vendor)) in enumerate(found):
        ratio, low, high = stats.paired_ratio(ours.times_s, vendor.times_s)
        reach = [[ratio - low], [high - ratio]]
        axes.errorbar(ratio, place, xerr=reach, fmt="o", color="tab:blue", markersize=4)
        if row.bar is not None:
            axes.plot(row.bar, place, "|", color="tab:red", markersize=12)
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.set_yticks(range(len(found)), [row.name for row, _ in found], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("speed over the vendor's, 95 % interval; red: the bar")
    axes.set_title(f"Matrix products under lasting load, {device}", fontsize=10)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
