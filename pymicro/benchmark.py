"""What a benchmark and a case are. Values only: nothing here runs, allocates or imports numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Axis:
    """One parameter of a benchmark; its command-line flag is made from this.

    `kind` says how a word is parsed: `count` of elements, size in `bytes`, one of `choices`, a
    `pair` of GPUs (`0-1`), a `node` of the host's memory. All accept lists, `count` and `bytes`
    ranges too. `default` is a word as the user would
    type it, the name of another axis whose value it takes, or None: then `Benchmark.defaults`,
    which knows the device, decides. `only` limits an axis to devices of one kind. `usual` is a
    value that says nothing: a case at it has no such parameter.
    """

    name: str
    kind: Literal["count", "bytes", "choice", "pair", "node"]
    help: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    only: Literal["cpu", "cuda"] | None = None
    usual: int | None = None


@dataclass(frozen=True)
class Operand:
    """One array of a case. `fill` is `input` (drawn), `repeated` (drawn for a period, see
    `operands.period`, or with several dimensions for one index of the first, and repeated from
    there), `cycle` (the numbers below its length in random order) or `output` (poisoned before
    each check)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: Literal["input", "repeated", "cycle", "output"] = "input"


@dataclass(frozen=True)
class Work:
    """What one call does: operations, bytes (once per direction), or dependent steps."""

    flop: int = 0
    bytes: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Case:
    """One thing to measure: a benchmark, who runs it, in which format, at which parameters."""

    benchmark: str
    backend: str
    variant: str
    dtype: str
    params: Params = field(default_factory=dict)


@dataclass(frozen=True)
class Clock:
    """Which clock times a case. `device`: what the work takes there, without the host's speed.
    `host`: what asking for it costs the host; on a CPU the two are one.

    `requests` is how much one call puts into a device's queue, which is bounded. `device` is the
    number of the device whose queue is timed, None for the one that the run is on. `lead` calls
    run untimed right before the timed ones: the time is then that of a call among others, without
    what it takes until an engine starts.
    """

    side: Literal["device", "host"] = "device"
    requests: int = 1
    device: int | None = None
    lead: int = 0


class Reference(Protocol):
    """The expected answer of a case, made once for all backends.

    One that has `check_in_place` too is given an `outputs.Output` there, and no copy on the host.
    """

    def check(self, output: Any, /) -> Any: ...


@dataclass(frozen=True)
class Benchmark:
    """A family of cases. The sub-command, its flags and its checks follow from this value.

    Attributes:
        rate: the derived quantity in the headline: `flop_per_s`, `bytes_per_s` or `s_per_step`.
        cache: `hot` (operands stay where the last call left them) or `cold` (L2 flushed).
        operands: arrays of a case, in the order in which kernels take them.
        work: what one call does.
        reference: the expected answer for given inputs (one period of those that repeat), in
            higher precision; its `check(output)` returns the error and the tolerance or raises
            WrongResult; see `verify`.
        kernels: column titles and rows of a list of our own kernels, for `--list`.
        defaults: parameter values that suit a device, given its kind and its peak for the dtype.
        within: the same values, made smaller if the device has so many bytes free only.
        tunable: whether `--tune` may search among our CUDA kernels; see `tuning`.
        beside: bytes that a case takes beside its operands, by memory (`cuda`, `cpu`), given the
            point and the kind of device.
        clock: which clock times a point.
        applies: whether a variant has anything to do with a point; else it is not planned.
        reduced: a point without the parameters that mean nothing for it.
        written: the share (0 to 1) of the lines that a call leaves in a cache that it wrote; a
            flushed cache is left in that state, so that a call pays for its own write-backs.
        of_format: further such values, given the kind of device and the dtype.
        draws_power: whether lasting load slows a GPU down: then it is sampled in a burst and under
            sustained load; else once, all who solve a problem taking turns.
        budget_s: seconds of sampling a problem, all who solve it together.
        looks: how often the whole plan is gone through; a host changes its pace over seconds.
        on_request: variants that run where their backend is named only, and why.
        batch_s: of what draws no power, calls are timed in batches at least this long: a batch
            starts and ends with some microseconds that are none of the call's.
    """

    name: str
    summary: str
    axes: tuple[Axis, ...]
    dtypes: tuple[str, ...]
    default_dtype: str
    rate: Literal["flop_per_s", "bytes_per_s", "s_per_step"]
    cache: Literal["hot", "cold"]
    operands: Callable[[str, Params], tuple[Operand, ...]]
    work: Callable[[str, Params], Work]
    reference: Callable[[str, Params, dict[str, Any]], Reference]
    defaults: Callable[[str, float | None], Params]
    examples: tuple[str, ...] = ()
    within: Callable[[Params, int], Params] = lambda params, free_bytes: params
    beside: Callable[[Params, str], Mapping[str, int]] = lambda params, kind: {}
    written: Callable[[Params], float] = lambda params: 1.0
    clock: Callable[[Params], Clock] = lambda params: Clock()
    applies: Callable[[str, Params], bool] = lambda variant, params: True
    reduced: Callable[[Params], Params] = lambda params: params
    of_format: Callable[[str, str], Params] = lambda kind, dtype: {}
    kernels: Callable[[], tuple[tuple[str, ...], list[tuple[str, ...]]]] | None = None
    on_request: Mapping[str, str] = field(default_factory=dict)
    tunable: bool = False
    draws_power: bool = True
    budget_s: float = 8.0
    looks: int = 1
    batch_s: float = 200e-6
