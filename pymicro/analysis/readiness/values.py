"""Values of what was measured for readiness: what `measured` makes and reports print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pymicro.software.kernel_names import Written

Shape = tuple[int, int, int, str]


@dataclass(frozen=True)
class Kernel:
    """A kernel that a library launched.

    Attributes:
        name: shortened.
        written: for which chip, None where the name does not say.
        behind: generations between that and this chip; None where unknown.
        share: of the device time of one call.
    """

    name: str
    written: Written | None
    behind: int | None
    share: float


@dataclass(frozen=True)
class ProductRow:
    """One product of a job in one format.

    Attributes:
        kernel: the one that takes most of the call's device time; None where no profiler saw it.
        flop_per_s: the vendor's rate; None where it could not run, `reason` says why.
        best_flop_per_s, best_by: the best of all others, None where none ran.
    """

    dtype: str
    shape: Shape
    kernel: Kernel | None
    flop_per_s: float | None
    best_flop_per_s: float | None
    best_by: str
    reason: str = ""

    @property
    def gap(self) -> float | None:
        """The best of the others over the library; above 1 the library leaves speed unused."""
        if not (self.flop_per_s and self.best_flop_per_s):
            return None
        return self.best_flop_per_s / self.flop_per_s


@dataclass(frozen=True)
class GenerationRow:
    """One product or copy by the kernels of each generation.

    Attributes:
        rates: the best by steps behind this chip's generation; 0 is its own.
        kernels: who reached it, by the same.
        unit: of the rates.
    """

    what: str
    rates: Mapping[int, float]
    kernels: Mapping[int, str]
    unit: str = "FLOP/s"

    def share(self, steps: int) -> float | None:
        """What software that many generations behind reaches, of this chip's own.

        Its newest kernel may be older still: one that no later generation had to improve.
        """
        rate = self.rate(steps)
        return rate / self.rates[0] if rate is not None and 0 in self.rates else None

    def rate(self, steps: int) -> float | None:
        """The best of the kernels that software of that age has."""
        return max((rate for age, rate in self.rates.items() if age >= steps), default=None)


@dataclass(frozen=True)
class FirstUse:
    """A kernel as machine code and as PTX: seconds of loading and the first launch, and after.

    Attributes:
        code_s, ptx_s: the first time in the process, which may load the compiler too.
        ptx_again_s: the median of further times, the driver's cache off.
        steady: speed of what the driver compiled over that of the machine code.
    """

    kernel: str
    dtype: str
    ptx: str
    code_s: float
    ptx_s: float
    ptx_again_s: float
    steady: float


@dataclass(frozen=True)
class Switch:
    """A setting of the framework on one product: its speed over the default setting's."""

    flag: str
    dtype: str
    value: str
    shape: tuple[int, int, int]
    speedup: float
    error: float | None
    default: str
    default_error: float | None


@dataclass(frozen=True)
class AttentionRow:
    """One way to compute an attention: seconds, or why not."""

    shape: str
    dtype: str
    way: str
    seconds: float | None
    kernel: Kernel | None
    reason: str = ""


@dataclass(frozen=True)
class Compiled:
    """The compiler of the framework on one block: both times, kernels a call, seconds it took.

    Attributes:
        eager_s, compiled_s: of the device; the host's own follow, None where they were not taken.
        eager_kernels, compiled_kernels: 0 where no profiler counted them; fills and copies by the
            driver are none.
    """

    eager_s: float
    compiled_s: float
    eager_kernels: int
    compiled_kernels: int
    compile_s: float
    eager_host_s: float | None = None
    compiled_host_s: float | None = None


@dataclass(frozen=True)
class Measured:
    """All that the store has of a card; `torch` is the version that was measured last."""

    products: tuple[ProductRow, ...] = ()
    generations: tuple[GenerationRow, ...] = ()
    first_uses: tuple[FirstUse, ...] = ()
    switches: tuple[Switch, ...] = ()
    attentions: tuple[AttentionRow, ...] = ()
    compiled: Compiled | None = None
    why_not_compiled: str = ""
    torch: str = ""
