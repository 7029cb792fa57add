"""Flags that mean the same on every command that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import click

from pymicro.benchmark import Axis, Benchmark
from pymicro.report import FORMATS

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


@dataclass(frozen=True)
class Common:
    """The values of the common flags, as typed; `dtype` is the one that benchmarks differ in."""

    dtype: str
    device: str = "auto"
    backend: str = "all"
    format: str = "table"
    store: str | None = None
    no_store: bool = False
    label: str | None = None
    budget: float | None = None
    seed: int = 0
    fill: str = "normal"
    cache: Literal["hot", "cold"] | None = None
    sustained: str = "best"
    quiet: bool = False
    tune: bool = False
    plot: str | None = None


def completes(names: Callable[[], Sequence[str]]) -> Completer:
    """Completion of a comma list: the word after the last comma, none twice."""

    def complete(context: click.Context, option: click.Parameter, typed: str) -> list[str]:
        before, _, word = typed.rpartition(",")
        taken = before.split(",")
        head = f"{before}," if before else ""
        return [head + n for n in names() if n.startswith(word) and n not in taken]

    return complete


def _backends() -> tuple[str, ...]:
    from pymicro.backends import names

    return ("all", *names())


def common(benchmark: Benchmark) -> list[click.Option]:
    """The common flags for a benchmark."""
    return [
        _flag("--device", default="auto", help="auto, cpu, cuda, cuda:N or a GPU's UUID"),
        _flag(
            "--backend",
            default="all",
            metavar="NAME[,NAME]",
            help="backends, or all",
            shell_complete=completes(_backends),
        ),
        _flag(
            "--dtype",
            default=benchmark.default_dtype,
            metavar="NAME[,NAME]",
            help=f"formats: {', '.join(benchmark.dtypes)}, or all",
            shell_complete=completes(lambda: ("all", *benchmark.dtypes)),
        ),
        _flag("--format", default="table", type=click.Choice(FORMATS), help="form of the output"),
        _flag("--store", metavar="FILE", help="append results to this file (JSON lines)"),
        click.Option(["--no-store"], is_flag=True, help="keep no results"),
        _flag("--label", help="name of this machine in results, in place of a salted hash"),
        _flag(
            "--budget",
            type=click.FloatRange(0.1, 86_400),
            metavar="SECONDS",
            help=f"for sampling, all cases together ({benchmark.budget_s:g} a problem)",
        ),
        _flag("--seed", default=0, type=click.IntRange(0), help="seed of the operands"),
        _flag(
            "--fill",
            default="normal",
            type=click.Choice(("normal", "uniform", "integers", "zeros")),
            help="operands; zeros and small integers draw less power and flatter",
        ),
        _flag(
            "--cache",
            type=click.Choice(("hot", "cold")),
            help=f"operands left in the cache, or flushed before each call ({benchmark.cache})",
        ),
        click.Option(
            ["--sustained"],
            type=click.Choice(("best", "all", "none")),
            is_flag=False,
            flag_value="all",
            default="best",
            show_default=True,
            hidden=not benchmark.draws_power,
            help="GPUs: rates under lasting load for our best and the vendor's, for all, for none",
        ),
        click.Option(["--quiet", "-q"], is_flag=True, help="no progress on stderr"),
        *_tuning(benchmark),
        *_plotting(benchmark),
    ]


def _tuning(benchmark: Benchmark) -> list[click.Option]:
    text = "first try every CUDA kernel of ours that fits and remember the fastest for later runs"
    return [click.Option(["--tune"], is_flag=True, help=text)] if benchmark.tunable else []


def is_swept(benchmark: Benchmark) -> bool:
    """Whether a run may be a curve over sizes."""
    return any(axis.name == "size" and axis.kind == "bytes" for axis in benchmark.axes)


def _plotting(benchmark: Benchmark) -> list[click.Option]:
    text = "draw the curve over sizes: a file .html (interactive), .png or .svg, or - for here"
    return [_flag("--plot", metavar="FILE", help=text)] if is_swept(benchmark) else []


def of_axis(axis: Axis) -> click.Option:
    """The flag of one axis of a benchmark."""
    if axis.kind == "choice":
        choices = ", ".join(axis.choices)
        return _flag(
            f"--{axis.name}",
            metavar="WORD[,WORD]",
            help=f"{axis.help} ({choices}, or all)",
            shell_complete=completes(lambda: ("all", *axis.choices)),
        )
    return _flag(f"--{axis.name}", metavar="N[,N]", help=axis.help)


def split(values: dict[str, Any]) -> tuple[Common, dict[str, Any]]:
    """The common flags, and the words of the benchmark's own axes."""
    names = {f.name for f in fields(Common)}
    own = {k: v for k, v in values.items() if k not in names}
    return Common(**{k: v for k, v in values.items() if k in names}), own


def _flag(name: str, **settings: Any) -> click.Option:
    settings.setdefault("show_default", settings.get("default") is not None)
    return click.Option([name], **settings)
