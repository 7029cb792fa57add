"""What a run knows: how to measure, what all results share, and what it found out so far."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pymicro import sampling, stats
from pymicro.backends.base import Prepared
from pymicro.benchmark import Benchmark, Case
from pymicro.outcomes import Read, with_samples
from pymicro.results import Result
from pymicro.run.planning import case_key
from pymicro.sampling import Samples
from pymicro.workbench import Workbench


@dataclass(frozen=True)
class Options:
    """How to measure, apart from what.

    Attributes:
        sustained: `none`, `best` (our fastest and the vendor's) or `all`; only on GPUs and for what
            draws power there: other samples are sustained already.
        budget_s: wall time for sampling the whole plan; compiling and checking come on top.
        rest_s: idle time before a burst; less suits small problems, which warm nothing.
    """

    fill: str = "normal"
    seed: int = 0
    sustained: str = "best"
    budget_s: float = 8.0
    cache: Literal["hot", "cold"] | None = None
    rest_s: float = sampling.BURST_REST_S


@dataclass
class Context:
    """What every result of a run shares: the device row, the environment, telemetry."""

    bench: Workbench
    device: Mapping[str, Any]
    environment: Mapping[str, Any]
    run_id: str
    telemetry: Read
    interrupted: Callable[[], bool] = lambda: False
    on_case: Callable[[Case, str], None] = lambda case, phase: None
    notes: tuple[str, ...] = ()
    lost: str | None = None  # why nothing more can run on the device

    def is_lost(self, measured: Measured) -> bool:
        """Whether a case that failed took the device's context along."""
        if measured.result.outcome == "failed" and not self.bench.is_alive():
            case = measured.case
            self.lost = f"{case.backend} {case.variant} left the GPU's context unusable."
        return self.lost is not None


@dataclass
class Measured:
    """A case on its way from prepared to sampled."""

    case: Case
    prepared: Prepared
    result: Result
    burst: Samples | None = None
    is_ready: bool = False  # checked, and to be sampled
    instead: Case | None = None


@dataclass
class Seen:
    """A case over several looks: what was found at the first, and the samples of each."""

    result: Result
    looks: list[Samples] = field(default_factory=list)

    def joined(self, context: Context) -> Result:
        turns = [mean for samples in self.looks for mean in samples.block_means_s()]
        medians = [stats.median(samples.times_s) for samples in self.looks]
        details = {**self.result.details, "block_means_s": turns, "look_medians_s": medians}
        return with_samples(
            replace(self.result, details=details), self.looks, context.telemetry, "times_s"
        )


@dataclass
class Underway:
    """A run under way: what every part of it needs, and what it has found out so far.

    Attributes:
        share_s: of the budget, for one look at one case.
        instead: cases that could run in place of some that cannot.
        seen: what was sampled, by case, where several looks add up.
    """

    benchmark: Benchmark
    options: Options
    context: Context
    share_s: float
    sampled_s: float = 0.0
    instead: list[Case] = field(default_factory=list)
    seen: dict[Any, Seen] = field(default_factory=dict)

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """Counts what happens inside as time spent on sampling."""
        began_s = self.context.bench.timer.now()
        try:
            yield
        finally:
            self.sampled_s += self.context.bench.timer.now() - began_s

    def keeps(self, case: Case, now: Result | None = None) -> bool:
        """Whether a case that ran at an earlier look stays as it was, though it cannot run now."""
        return case_key(case) in self.seen and (now is None or now.outcome == "skipped")
