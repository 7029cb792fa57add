"""What launches cost a program: how many a second a layer can ask for, and how long a kernel must
run so that the device never waits for the next."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from pymicro import calls, stats
from pymicro.results import Finding, Result
from pymicro.units import binary_bytes, si

# Half the middle half of the samples, relative: a quiet host stays below it.
_NOISY = 0.05
# Where more of a run's rows are noisy, its host is: a row that was spared was lucky, and may be
# a third slower in the next process.
_NOISY_ROWS = 1 / 3
# Work nine times as long as its call leaves the call a tenth of the time.
_WORTH = 9


@dataclass(frozen=True)
class Feed:
    """One layer with one number of arguments.

    Attributes:
        host_s: what a launch costs the host.
        device_s: from one launch to the next on the device when all are queued, None if it was
            not measured, as on a CPU.
        spread: how far the host's samples lie apart, relative; see `spread_of`.
        count: launches that were asked for in a row, or nodes of a graph.
    """

    backend: str
    variant: str
    call: str
    host_s: float
    device_s: float | None
    spread: float
    count: int = 1

    @property
    def launches_per_s(self) -> float:
        """Launches a second that this host asks for through the layer."""
        return 1 / self.host_s

    @property
    def smallest_kernel_s(self) -> float:
        """From start to start: a kernel that ends sooner leaves the device idle, since the next
        launch comes `host_s` later at the earliest; nor can the device start them any faster
        than `device_s`."""
        return max(self.host_s, self.device_s or 0.0)

    @property
    def waits_for(self) -> str:
        """Who sets the pace of empty kernels."""
        return "device" if self.device_s is not None and self.device_s > self.host_s else "host"

    @property
    def is_noisy(self) -> bool:
        return self.spread > _NOISY


def feeds(results: Sequence[Result]) -> list[Feed]:
    """Every layer whose host side was measured with launches, in the order of the results."""
    measured = [r for r in results if _is_launch(r)]
    gaps = {
        _layer(r): stats.median(r.samples_s) / r.steps
        for r in measured
        if r.params.get("side") == "device"
    }
    return [
        Feed(
            *_layer(r),
            host_s=stats.median(r.samples_s) / r.steps,
            device_s=gaps.get(_layer(r)),
            spread=spread_of(r),
            count=r.steps,
        )
        for r in measured
        if r.params.get("side") != "device"
    ]


def spread(samples_s: Sequence[float]) -> float:
    """Half the distance between the quartiles over the median."""
    ordered = sorted(samples_s)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    return (high - low) / 2 / stats.median(samples_s)


def spread_of(result: Result) -> float:
    """How far the samples of one result lie apart, or its looks, some seconds apart, from each
    other, whichever is more."""
    looks = result.details.get("look_medians_s") or ()
    apart = (max(looks) - min(looks)) / 2 / stats.median(looks) if looks else 0.0
    return max(spread(result.samples_s), apart)


def is_noisy(result: Result, runs: Set[str] = frozenset()) -> bool:
    """Whether a launch was timed on a host that was not quiet, by its own samples or, where it is
    one of `runs`, by those of others."""
    return _is_of_host(result) and (result.run_id in runs or spread_of(result) > _NOISY)


def noisy_runs(results: Sequence[Result]) -> set[str]:
    """Runs during which the host was noisy."""
    rows: dict[str, list[bool]] = {}
    for r in filter(_is_of_host, results):
        rows.setdefault(r.run_id, []).append(spread_of(r) > _NOISY)
    return {run for run, noisy in rows.items() if sum(noisy) > _NOISY_ROWS * len(noisy)}


def _is_of_host(r: Result) -> bool:
    """Whether it is what a call costs the host."""
    is_host = r.params.get("side") != "device"
    return r.benchmark == "launch" and is_host and r.outcome == "ok"


def findings(results: Sequence[Result]) -> list[Finding]:
    """A line for each layer, what its first launch costs, and whether the host was too noisy."""
    found, on_gpu = feeds(results), any(r.device.get("kind") == "cuda" for r in results)
    bus = next((r.device.get("memory_bytes_per_s") for r in results if _is_launch(r)), None)
    layers: dict[tuple[str, str], list[Feed]] = {}
    for feed in found:
        layers.setdefault((feed.backend, feed.variant), []).append(feed)
    said = [_said(feeds, on_gpu, bus) for feeds in layers.values()]
    noisy = [feed for feed in found if feed.is_noisy]
    return [*said, *_cold(results), *([_noise(noisy)] if noisy else [])]


def _said(feeds: Sequence[Feed], on_gpu: bool, bus: float | None) -> Finding:
    if not on_gpu:
        return _on_cpu(feeds)
    return _of_graph(feeds) if feeds[0].variant == "graph" else _on_gpu(feeds, bus)


def _of_graph(feeds: Sequence[Feed]) -> Finding:
    """A graph is asked for as a whole: what that costs the host, and what a node costs whom."""
    whole = _times([feed.host_s * feed.count for feed in feeds])
    seen = (
        f"{_layer_name(feeds)}: a graph of {feeds[0].count} nodes with {_counts(feeds)} arguments "
        f"costs the host {whole} a launch, {_times([feed.host_s for feed in feeds])} a node"
    )
    gaps = [feed.device_s for feed in feeds if feed.device_s is not None]
    if gaps:
        seen += (
            f"; the device starts one node every {_times(gaps)}, and a kernel shorter than that "
            "leaves it idle"
        )
    return Finding(code="launch-graph", severity="info", seen=f"{seen}.")


def _on_gpu(feeds: Sequence[Feed], bus: float | None) -> Finding:
    shortest = [feed.smallest_kernel_s for feed in feeds]
    moved = (
        f" (of {binary_bytes(int(min(shortest) * bus))} at the data sheet's bandwidth)"
        if bus
        else ""
    )
    gaps = [feed.device_s for feed in feeds if feed.device_s is not None]
    pace = f"; back to back it starts one every {_times(gaps)}" if gaps else ""
    return Finding(
        code="launch-feed",
        severity="info",
        seen=f"{_layer_name(feeds)}: this host feeds {_rates(feeds)} launches a second with "
        f"{_counts(feeds)} arguments{pace}; a kernel shorter than {_times(shortest)}{moved} leaves "
        "the GPU idle.",
        do="fuse small kernels, or replay them as a CUDA graph."
        if any(feed.waits_for == "host" for feed in feeds)
        else "",
    )


def _on_cpu(feeds: Sequence[Feed]) -> Finding:
    worth = _times([_WORTH * feed.host_s for feed in feeds])
    return Finding(
        code="launch-feed",
        severity="info",
        seen=f"{_layer_name(feeds)}: {_rates(feeds)} calls a second with {_counts(feeds)} "
        f"arguments; work shorter than {worth} loses more than a tenth of its time to the call.",
    )


def _cold(results: Sequence[Result]) -> list[Finding]:
    """What the first launch of each layer took, libraries, compiling and loading included."""
    first: dict[str, float] = {}
    for r in results:
        if _is_launch(r) and "first_call_s" in r.details:
            name = f"{r.backend} {r.variant}"
            seconds = r.details["prepare_s"] + r.details["first_call_s"]
            first[name] = max(first.get(name, 0.0), seconds)
    slowest = sorted(first.items(), key=lambda pair: -pair[1])
    said = ", ".join(f"{name} {si(seconds, 's', 3)}" for name, seconds in slowest)
    return (
        [
            Finding(
                code="launch-cold",
                severity="info",
                seen=f"first launch, with what was not yet imported, compiled or loaded: {said}.",
            )
        ]
        if said
        else []
    )


def _noise(noisy: Sequence[Feed]) -> Finding:
    worst = max(noisy, key=lambda feed: feed.spread)
    return Finding(
        code="launch-noisy-host",
        severity="warning",
        seen=f"noisy host: samples of {_name(worst)} lie within ±{100 * worst.spread:.0f} % "
        f"(the middle half, or looks seconds apart); {len(noisy)} rows lie beyond "
        f"{100 * _NOISY:.0f} %.",
        why="another program or a changing clock of the CPU took part in these figures.",
        do="repeat on an idle machine, pinned to one core (taskset -c 2 pymicro launch).",
    )


def _rates(feeds: Sequence[Feed]) -> str:
    """Three digits of each: 1,250,000."""
    return " / ".join(f"{float(f'{feed.launches_per_s:.3g}'):,.0f}" for feed in feeds)


def _counts(feeds: Sequence[Feed]) -> str:
    return " / ".join(feed.call.removeprefix("args") for feed in feeds)


def _times(seconds: Sequence[float]) -> str:
    return " / ".join(si(value, "s", 3) for value in seconds)


def _layer_name(feeds: Sequence[Feed]) -> str:
    return f"{feeds[0].backend} {feeds[0].variant}"


def _name(feed: Feed) -> str:
    return f"{feed.backend} {feed.variant} {feed.call}"


def _layer(result: Result) -> tuple[str, str, str]:
    return result.backend, result.variant, result.params["call"]


def _is_launch(result: Result) -> bool:
    ok = result.benchmark == "launch" and result.outcome == "ok" and result.steps > 0
    return ok and calls.is_launch(result.params.get("call", ""))
