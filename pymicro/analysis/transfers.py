"""What transfers say of a link: its fixed time and rate, and whether it is what it could be."""

from __future__ import annotations

from collections.abc import Sequence

from pymicro import stats
from pymicro.analysis import link_health
from pymicro.analysis.link_fit import LinkFit, fit
from pymicro.analysis.link_health import Link
from pymicro.results import Finding, Result
from pymicro.units import binary_bytes, si

_FEWEST_SIZES = 3
# Shorter copies are mostly latency and say nothing of the link's rate.
_LARGE_BYTES = 2**26

Kind = tuple[str, str, str, str]


def fits(results: Sequence[Result]) -> dict[Kind, LinkFit]:
    """The line for each backend, variant, path and kind of host memory with three sizes or more."""
    points: dict[Kind, list[tuple[int, float]]] = {}
    for r in results:
        if r.benchmark == "transfer" and r.outcome == "ok":
            points.setdefault(_kind(r), []).append((r.params["size"], stats.median(r.samples_s)))
    found = {}
    for kind, sizes in points.items():
        if len({n for n, _ in sizes}) >= _FEWEST_SIZES:
            try:
                found[kind] = fit(sizes)
            except ValueError:  # Times that do not grow tell no rate.
                continue
    return found


def link_of(result: Result) -> Link | None:
    """The link while a result's copies ran; None where it was not read."""
    telemetry = result.telemetry
    if telemetry is None or telemetry.pcie is None:
        return None
    generation, width = telemetry.pcie
    most = (result.environment.get("gpu") or {}).get("pcie_max") or (None, None)
    return Link(0, generation, width, most[0], most[1], loaded=True)


def findings(results: Sequence[Result]) -> list[Finding]:
    """A line of latency and rate for each kind of copy, then what is wrong with the link."""
    said = [_line(kind, line) for kind, line in fits(results).items()]
    return [*said, *_health(results)]


def _health(results: Sequence[Result]) -> list[Finding]:
    """Of the largest one-way copy of pinned memory alone: others have reasons to be slower."""
    large = [r for r in results if _is_telling(r) and link_of(r) is not None]
    if not large:
        return []
    best = max(large, key=lambda r: r.bytes / stats.median(r.samples_s))
    link = link_of(best)
    assert link is not None
    rate = best.bytes / stats.median(best.samples_s)
    return [*link_health.narrower(link), *link_health.achieved(link, rate)]


def _is_telling(r: Result) -> bool:
    ran = r.benchmark == "transfer" and r.outcome == "ok"
    return (
        ran
        and r.params["path"] in ("h2d", "d2h")
        and r.params["host"] != "pageable"
        and r.params["size"] >= _LARGE_BYTES
    )


def _kind(r: Result) -> Kind:
    return r.backend, r.variant, r.params["path"], r.params["host"]


def _line(kind: Kind, line: LinkFit) -> Finding:
    both = " in each direction" if kind[2] == "both" else ""
    return Finding(
        "transfer-line",
        "info",
        f"{' '.join(kind)}: {si(line.t0_s, 's', 3)} + n / {si(line.bytes_per_s, 'B/s')}{both}; "
        f"half of the rate from {binary_bytes(round(line.half_bytes))} on, within "
        f"{100 * line.worst:.0f} % at every size.",
    )
