"""What transfers say of a link: its fixed time and rate, and whether it is what it could be."""

from __future__ import annotations

from collections.abc import Sequence

from pymicro import paths, stats
from pymicro.analysis import link_health
from pymicro.analysis.link_fit import LinkFit, fit
from pymicro.analysis.link_health import Link, Peer
from pymicro.results import Finding, Result
from pymicro.units import binary_bytes, si

_FEWEST_SIZES = 3
# Shorter copies are mostly latency and say nothing of the link's rate.
_LARGE_BYTES = 2**26

# Backend, variant, path, and between which GPUs or with which memory of the host.
Kind = tuple[str, str, str, str]


def fits(results: Sequence[Result]) -> dict[Kind, LinkFit]:
    """The line for each kind of copy with three sizes or more."""
    points: dict[Kind, list[tuple[int, float]]] = {}
    for r in _copies(results):
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
    gpu = result.environment.get("gpu") or {}
    most = gpu.get("pcie_max") or (None, None)
    card, nvlinks = gpu.get("pcie_card_generation"), gpu.get("nvlinks")
    return Link(
        index=result.details.get("device_index", 0),
        generation=generation,
        width=width,
        max_generation=card or most[0],
        max_width=most[1],
        loaded=True,
        slot_generation=most[0] if card else None,
        replays=telemetry.pcie_replays,
        numa_node=result.details.get("gpu_numa_node"),
        cpu_node=result.details.get("host_numa_node"),
        nvlinks=(nvlinks["up"], nvlinks["of"]) if nvlinks else None,
    )


def findings(results: Sequence[Result]) -> list[Finding]:
    """A line of latency and rate for each kind of copy, how GPUs reach each other, then what
    the link is and what is wrong with it."""
    said = [_line(kind, line) for kind, line in fits(results).items()]
    return [*said, *_matrices(results), *_peers(results), *_health(results)]


def _copies(results: Sequence[Result]) -> list[Result]:
    return [r for r in results if r.benchmark == "transfer" and r.outcome == "ok"]


def _rate(r: Result) -> float:
    return r.bytes / stats.median(r.samples_s)


def _health(results: Sequence[Result]) -> list[Finding]:
    """Of large one-way copies of pinned memory alone: others have reasons to be slower."""
    found: list[Finding] = []
    fastest: dict[int, float] = {}
    names: dict[int, str] = {}
    large = [(r, link) for r in results if _is_telling(r) and (link := link_of(r)) is not None]
    for index in dict.fromkeys(link.index for _, link in large):
        here = [(r, link) for r, link in large if link.index == index]
        best, link = max(here, key=lambda pair: _rate(pair[0]))
        rates: dict[str, float] = {}
        for r, _ in here:
            rates[r.params["path"]] = max(rates.get(r.params["path"], 0.0), _rate(r))
        fastest[index], names[index] = _rate(best), best.device.get("name", "")
        counted = [one for _, one in here if one.replays is not None]
        found += [
            *link_health.state(link, rates),
            *link_health.narrower(link),
            *link_health.achieved(link, _rate(best)),
            *link_health.dark(link),
            *_far(here),
        ]
        if counted:
            least, most = (f(counted, key=lambda one: one.replays or 0) for f in (min, max))
            found += link_health.replayed(least, most)
    return [*found, *link_health.outliers(fastest, names)]


def _far(here: Sequence[tuple[Result, Link]]) -> list[Finding]:
    """Memory far from the card that nobody asked for."""
    return next((link_health.far_node(one) for r, one in here if "node" not in r.params), [])


def _is_telling(r: Result) -> bool:
    return (
        r.benchmark == "transfer"
        and r.outcome == "ok"
        and r.params["path"] in ("h2d", "d2h")
        and r.params["host"] != "pageable"
        and r.params["size"] >= _LARGE_BYTES
    )


def _matrices(results: Sequence[Result]) -> list[Finding]:
    """The largest copies between GPUs, a table for each variant and path of three GPUs or more."""
    tables: dict[tuple[str, str, int], dict[tuple[int, int], float]] = {}
    for r in _copies(results):
        if "pair" in r.params:
            key = (r.variant, r.params["path"], r.params["size"])
            tables.setdefault(key, {})[paths.ends(r.params["pair"])] = _rate(r)
    largest = {
        key: rates
        for key, rates in tables.items()
        if key[2] == max(k[2] for k in tables if k[:2] == key[:2])
    }
    return [_matrix(*key, rates) for key, rates in largest.items()]


def _matrix(variant: str, path: str, size: int, rates: dict[tuple[int, int], float]) -> Finding:
    numbers = sorted({number for pair in rates for number in pair})
    rows = ["      " + "".join(f"{b:>8}" for b in numbers)]
    for a in numbers:
        cells = (f"{rates[a, b] / 1e9:8.1f}" if (a, b) in rates else f"{'-':>8}" for b in numbers)
        rows.append(f"{a:>6}" + "".join(cells))
    head = f"{variant} {path} {binary_bytes(size)}, GB/s from row to column:"
    return Finding("transfer-matrix", "info", "\n".join([head, *rows]))


def _peers(results: Sequence[Result]) -> list[Finding]:
    """Which directions have no peer access, and pairs much slower than the others."""
    told = [r for r in _copies(results) if "peer_access" in r.details]
    if not told:
        return []
    said = link_health.untold([_peer(r) for r in told])
    return [Finding("link-no-peer-access", "info", said)] if said else []


def _peer(r: Result) -> Peer:
    told = r.details
    return Peer(*paths.ends(r.params["pair"]), told["peer_access"], told["why_no_peer"] or "")


def _kind(r: Result) -> Kind:
    where = r.params.get("pair") or r.params.get("host") or ""
    node = f" node {r.params['node']}" if "node" in r.params else ""
    return r.backend, r.variant, r.params["path"], f"{where}{node}"


def _line(kind: Kind, line: LinkFit) -> Finding:
    both = " in each direction" if kind[2] in ("both", "p2p-both") else ""
    return Finding(
        "transfer-line",
        "info",
        f"{' '.join(filter(None, kind))}: {si(line.t0_s, 's', 3)} + n / "
        f"{si(line.bytes_per_s, 'B/s')}{both}; half of the rate from "
        f"{binary_bytes(round(line.half_bytes))} on, within {100 * line.worst:.0f} % at every "
        "size.",
    )
