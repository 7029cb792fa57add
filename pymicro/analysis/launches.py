"""What launches cost a program: how many a second a layer can ask for, and how long a kernel must
run so that the device never waits for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymicro import calls, stats
from pymicro.results import Finding, Result
from pymicro.units import binary_bytes, si

# Half the middle half of the samples, relative: a quiet host stays below it.
_NOISY = 0.05
# Work nine times as long as its call leaves the call a tenth of the time.
_WORTH = 9


@dataclass(frozen=True)
class Feed:
    """One layer with one number of arguments.

    Attributes:
        host_s: what a launch costs the host.
        device_s: from one launch to the next on the device when all are queued, None if it was
            not measured, as on a CPU.
        spread: half the distance between the quartiles of the host's samples, relative.
    """

    backend: str
    variant: str
    call: str
    host_s: float
    device_s: float | None
    spread: float

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
            spread=spread(r.samples_s),
        )
        for r in measured
        if r.params.get("side") != "device"
    ]


def spread(samples_s: Sequence[float]) -> float:
    """Half the distance between the quartiles over the median."""
    ordered = sorted(samples_s)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    return (high - low) / 2 / stats.median(samples_s)


def findings(results: Sequence[Result]) -> list[Finding]:
    """A line for each layer and number of arguments, and whether the host was too noisy to tell."""
    found, on_gpu = feeds(results), any(r.device.get("kind") == "cuda" for r in results)
    bus = next((r.device.get("memory_bytes_per_s") for r in results if _is_launch(r)), None)
    for_each = _on_gpu if on_gpu else _on_cpu
    said = [for_each(feed, bus) for feed in found]
    noisy = [feed for feed in found if feed.is_noisy]
    return [*said, *([_noise(noisy)] if noisy else [])]


def _on_gpu(feed: Feed, bus: float | None) -> Finding:
    shortest = feed.smallest_kernel_s
    moved = (
        f", about {binary_bytes(int(shortest * bus))} at the data sheet's bandwidth" if bus else ""
    )
    pace = (
        f"; back to back it starts one every {si(feed.device_s, 's', 3)}" if feed.device_s else ""
    )
    return Finding(
        code="launch-feed",
        severity="info",
        seen=f"{_name(feed)}: this host feeds {_rate(feed)} launches a second{pace}; a "
        f"kernel shorter than {si(shortest, 's', 3)}{moved} leaves the GPU idle.",
        do="fuse small kernels, or replay them as a CUDA graph."
        if feed.waits_for == "host"
        else "",
    )


def _on_cpu(feed: Feed, bus: float | None) -> Finding:
    return Finding(
        code="launch-feed",
        severity="info",
        seen=f"{_name(feed)}: {_rate(feed)} calls a second; work shorter than "
        f"{si(_WORTH * feed.host_s, 's', 3)} loses more than a tenth of its time to the call.",
    )


def _noise(noisy: Sequence[Feed]) -> Finding:
    worst = max(noisy, key=lambda feed: feed.spread)
    return Finding(
        code="launch-noisy-host",
        severity="warning",
        seen=f"noisy host: the middle half of the samples of {_name(worst)} lies within "
        f"±{100 * worst.spread:.0f} % (of {len(noisy)} rows beyond {100 * _NOISY:.0f} %).",
        why="another program or a changing clock of the CPU took part in these figures.",
        do="repeat on an idle machine, pinned to one core (taskset -c 2 pymicro launch).",
    )


def _rate(feed: Feed) -> str:
    """Three digits of it: 1,250,000."""
    return f"{float(f'{feed.launches_per_s:.3g}'):,.0f}"


def _name(feed: Feed) -> str:
    return f"{feed.backend} {feed.variant} {feed.call}"


def _layer(result: Result) -> tuple[str, str, str]:
    return result.backend, result.variant, result.params["call"]


def _is_launch(result: Result) -> bool:
    ok = result.benchmark == "launch" and result.outcome == "ok" and result.steps > 0
    return ok and calls.is_launch(result.params.get("call", ""))
