"""What collectives say: a fixed time and a rate for each, and the bus bandwidth behind it."""

from __future__ import annotations

from collections.abc import Sequence

from pymicro import stats
from pymicro.analysis.link_fit import fit
from pymicro.results import Finding, Result
from pymicro.units import binary_bytes, si

_FEWEST_SIZES = 3


def bus_bytes_per_s(result: Result) -> float:
    """Bytes a second that each rank's link carries: algorithm bandwidth times the operation's
    factor, as nccl-tests define it."""
    return result.bytes / stats.median(result.samples_s) * result.details["bus_factor"]


def findings(results: Sequence[Result]) -> list[Finding]:
    """A line for each operation: what it takes before the first byte, and what the link gives."""
    kinds: dict[tuple[str, str, int, str], list[Result]] = {}
    for r in results:
        if r.benchmark == "collective" and r.outcome == "ok":
            key = (r.params["op"], r.variant, r.params["ranks"], r.params["link"])
            kinds.setdefault(key, []).append(r)
    return [_line(*key, found) for key, found in kinds.items()]


def _line(op: str, library: str, ranks: int, link: str, found: Sequence[Result]) -> Finding:
    best = max(found, key=bus_bytes_per_s)
    said = (
        f"{op} over {ranks} ranks by {library} ({link}): bus bandwidth "
        f"{si(bus_bytes_per_s(best), 'B/s', 3)} at {binary_bytes(best.params['size'])}"
    )
    points = [(r.params["size"], stats.median(r.samples_s)) for r in found]
    if len({size for size, _ in points}) >= _FEWEST_SIZES:
        try:
            line = fit(points)
        except ValueError:  # Times that do not grow tell no rate.
            return Finding("collective-line", "info", f"{said}.")
        said += (
            f"; {si(line.t0_s, 's', 3)} + n / {si(line.bytes_per_s, 'B/s', 3)}, half of the rate "
            f"from {binary_bytes(round(line.half_bytes))} on"
        )
    return Finding("collective-line", "info", f"{said}.")
