"""What a split of a trace consists of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pymicro.analysis.profile.kernels import Kind

UNEXPLAINED = "unexplained"
_MOST_OWNERS = 4
# Starting and draining an empty kernel keeps a device busy for about 2 µs: shorter than this, that
# is most of a kernel's time.
SHORT_KERNEL_S = 5e-6


@dataclass(frozen=True)
class Part:
    """Time with one kind of owner, over all steps.

    Attributes:
        code: a class of kernels, or the reason of a gap.
        is_busy: the device worked.
        count: kernels, or pieces of gaps.
        owners: the largest owners with their seconds, most first.
    """

    code: str
    is_busy: bool
    s: float
    count: int
    owners: tuple[tuple[str, float], ...] = ()


class Tally:
    """Seconds and counts by a key, and by owner below it."""

    def __init__(self) -> None:
        self._s: defaultdict[str, float] = defaultdict(float)
        self._count: Counter[str] = Counter()
        self._owners: defaultdict[str, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def add(self, key: str, s: float, owner: str = "") -> None:
        self._s[key] += s
        self._count[key] += 1
        self._owners[key][owner] += s

    def parts(self, is_busy: bool) -> Iterator[Part]:
        """A part for each key with its largest owners, the largest part first."""
        for key, s in _largest(self._s):
            owners = tuple(_largest(self._owners[key])[:_MOST_OWNERS])
            yield Part(key, is_busy, s, self._count[key], owners)


def charge_recording(parts: Sequence[Part], excess_s: float) -> list[Part]:
    """Move what the recording costs the host from the host's part to the profiler's.

    Every operator and launch is slower while it is recorded, so the device waits longer for the
    host than without; by how much, the steps tell that were timed with the profiler off.

    Args:
        excess_s: by how much all steps together are longer than without the profiler.
    """
    slowed = next((p for p in parts if p.code == "host"), None)
    if slowed is None or excess_s <= 0:
        return list(parts)
    moved_s = min(excess_s, slowed.s)
    left = 1 - moved_s / slowed.s if slowed.s else 0.0
    owners = tuple((name, s * left) for name, s in slowed.owners)
    own = next((p for p in parts if p.code == "profiler"), Part("profiler", False, 0.0, 0))
    others = [p for p in parts if p.code not in ("host", "profiler")]
    told = (("recording slows the host", moved_s), *own.owners)
    charged = Part("profiler", False, own.s + moved_s, own.count, told)
    return [*others, replace(slowed, s=slowed.s - moved_s, owners=owners), charged]


def _largest(found: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(found.items(), key=lambda pair: -pair[1])


@dataclass(frozen=True)
class CopyRow:
    """Copies of one kind, like `Memcpy HtoD (Pageable -> Device)`; 0 bytes if not recorded.

    Attributes:
        exposed_s: of their time, what no kernel hides.
    """

    name: str
    s: float
    exposed_s: float
    count: int
    bytes: int


@dataclass(frozen=True)
class KernelRow:
    """Kernels of one class, path and generation.

    Attributes:
        s: time that is theirs alone; `total_s` counts what ran beside others too.
        name, operator: the one that takes most, and the operator that launched it.
        dtype: of products, the format if shapes were recorded and it is known.
        flop: of products, operations, as far as shapes tell; 0 where they do not.
        peak_fraction: their rate over the data sheet's in the format, where both are known.
    """

    kind: Kind
    s: float
    total_s: float
    count: int
    median_s: float
    name: str
    operator: str
    shapes: str
    dtype: str = ""
    flop: int = 0
    peak_fraction: float | None = None


@dataclass(frozen=True)
class Split:
    """One process on one device.

    Attributes:
        steps_s: time of each step, host and device together; they add up to `wall_s`.
        how: how the steps were found.
        parts: adding up to `wall_s`; the last, `unexplained`, may be negative.
        short_count, short_s: kernels of less than `SHORT_KERNEL_S`, and their time.
        launches: calls that launched device work.
        latency_s: from a launch to its start on an idle device.
        untraced_step_s: a step's time with the profiler off, if the recorder noted it.
    """

    device: str
    steps_s: tuple[float, ...]
    how: str
    is_whole: bool
    parts: tuple[Part, ...]
    kernels: tuple[KernelRow, ...]
    kernel_count: int
    kernel_median_s: float
    short_count: int
    short_s: float
    launches: int
    copies: tuple[CopyRow, ...]
    latency_s: float
    shift_s: float
    untraced_step_s: float | None
    other_devices: int
    damaged: int
    capability: tuple[int, int] | None
    collectives: dict[str, tuple[float, ...]] = field(repr=False, default_factory=dict)

    @property
    def wall_s(self) -> float:
        return sum(self.steps_s)

    @property
    def step_s(self) -> float:
        """Mean time of a step."""
        return self.wall_s / len(self.steps_s)

    @property
    def clean_step_s(self) -> float:
        """Mean time of a step without what the profiler took of it."""
        return self.step_s - self.part("profiler").s / len(self.steps_s)

    @property
    def busy_s(self) -> float:
        return sum(p.s for p in self.parts if p.is_busy)

    def part(self, code: str) -> Part:
        """The part of a code; an empty one if nothing belongs to it."""
        return next((p for p in self.parts if p.code == code), Part(code, False, 0.0, 0))
