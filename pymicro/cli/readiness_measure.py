"""`pymicro readiness --measure`: run the plans on this machine's GPU and keep what they give."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from pymicro.errors import Unavailable, UsageError, unknown


@dataclass(frozen=True)
class Asked:
    """What is to be measured, as typed.

    Attributes:
        parts: some of `plans.PARTS`.
        products: how many of the jobs' hottest products.
        rivals: backends that are measured beside the library.
        budget_s: wall time after which no further case begins; None for no limit.
    """

    device: str
    parts: tuple[str, ...]
    formats: tuple[str, ...]
    products: int
    rivals: tuple[str, ...]
    store: str | None
    no_store: bool
    budget_s: float | None
    quiet: bool


# Which parts an option is for; what it cannot change must not be asked for in vain.
_SERVES = {"dtype": ("library", "generations"), "products": ("library",), "backend": ("library",)}


def asked_for(
    measure: str | None,
    device: str,
    options: Mapping[str, Any],
    store: str | None,
    no_store: bool,
    quiet: bool,
) -> Asked | None:
    """What is to be measured; None where nothing is.

    Args:
        measure: the parts as typed, None without `--measure`.
        options: `dtype`, `products`, `backend` and `budget`, each None where it was not typed.

    Raises:
        UsageError: an unknown word, or an option that would have no effect.
    """
    if measure is None:
        return None
    parts = parse_parts(measure)
    for name, served in _SERVES.items():
        if options[name] is not None and not set(parts) & set(served):
            listed = " and ".join(served)
            raise UsageError(f"--{name} is about --measure {listed}, not {', '.join(parts)}.")
    return Asked(
        device,
        parts,
        parse_formats(options["dtype"], parts),
        options["products"] or 20,
        parse_rivals(options["backend"]),
        store,
        no_store,
        options["budget"],
        quiet,
    )


def parse_parts(word: str) -> tuple[str, ...]:
    """Parts of a comma-separated list, or `all`.

    Raises:
        UsageError: one is unknown.
    """
    from pymicro.plans import PARTS

    if word.strip().lower() == "all":
        return PARTS
    words = tuple(dict.fromkeys(w.strip().lower() for w in word.split(",")))
    for part in words:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
    return words


def parse_rivals(word: str | None) -> tuple[str, ...]:
    """Backends to try beside the vendor's library; all that have products of their own without a
    word.

    Raises:
        UsageError: an unknown one, or one that has none.
    """
    from pymicro.cli import words
    from pymicro.plans import RIVALS

    if word is None or word.strip().lower() == "all":
        return tuple(RIVALS)
    found = tuple(words.backends(word))
    if wrong := [name for name in found if name not in RIVALS]:
        raise UsageError(
            f"--backend {wrong[0]}: beside the library readiness tries {', '.join(RIVALS)}."
        )
    return found


def measure(asked: Asked) -> list[Any]:
    """Run all parts; each result is in the store as soon as it stands. Returns them.

    Raises:
        Unavailable: no GPU here.
    """
    # Before the driver starts: what it compiled for an earlier run would hide the cost of JIT.
    os.environ.setdefault("CUDA_CACHE_DISABLE", "1")
    from pymicro.cli.session import Session
    from pymicro.devices.here import resolve

    device = resolve(asked.device)
    if device.kind != "cuda":
        raise Unavailable("readiness measures GPUs; there is none here.")
    with Session(device, _common(asked)) as session:
        return list(_Run(asked, session, device).all())


def _common(asked: Asked) -> Any:
    from pymicro.cli.options import Common

    return Common(
        dtype=",".join(asked.formats),
        device=asked.device,
        store=asked.store,
        no_store=asked.no_store,
        budget=asked.budget_s,
        sustained="none",
        quiet=asked.quiet,
    )


class _Run:
    """One measuring of one GPU, part after part, within the budget."""

    def __init__(self, asked: Asked, session: Any, device: Any) -> None:
        self._asked, self._session = asked, session
        self._began_s = time.monotonic()
        self._env = dict(os.environ)
        if device.index and device.gpu and device.gpu.uuid:
            self._env["CUDA_VISIBLE_DEVICES"] = device.gpu.uuid
        self.context = session.context(self._is_over, lambda case, phase: None)

    def _left_s(self) -> float:
        budget_s = self._asked.budget_s or 3600.0
        return budget_s - (time.monotonic() - self._began_s)

    def _is_over(self) -> bool:
        return self._left_s() <= 0

    def all(self) -> Iterator[Any]:
        """The parts in order; each is kept before the next begins."""
        for part in self._asked.parts:
            if self._is_over():
                self._say(f"{part}: not begun, the budget is used up.")
                continue
            self._say(f"{part} ...")
            for result in _PARTS[part](self):
                self._session.keep(result)
                yield result

    def _say(self, text: str) -> None:
        if not self._asked.quiet:
            click.echo(f"measuring: {text}", err=True)

    def library(self) -> Iterator[Any]:
        """The vendor's kernels by name, then its rate and ours, product by product."""
        from pymicro import plans
        from pymicro.probes import measured

        formats = [f for f in self._asked.formats if f in plans.FORMATS]
        most = self._asked.products
        wanted = plans.profiled(formats, most)
        # Importing torch and its profiler once more must not eat up what the timing needs.
        kernels, why = measured.launched(wanted, self._env, min(self._left_s() / 2, 300.0))
        if why:
            self._say(why)
        for step in plans.library(formats, self._offered(formats), most):
            for result in self._cases(step):
                p = result.params
                key = (result.dtype, *(p[x] for x in ("m", "n", "k", "layout")))
                seen = {"launched": kernels[key]} if key in kernels else {}
                is_torch = result.backend == "torch"
                yield replace(result, details={**result.details, **(seen if is_torch else {})})

    def _offered(self, formats: Sequence[str]) -> dict[tuple[str, str], Sequence[str]]:
        from pymicro import backends
        from pymicro.backends.base import offered

        place = self._session.bench.place
        return {
            (name, dtype): offered(backends.backend(name), "gemm", dtype, place)[0]
            for name in self._asked.rivals
            for dtype in formats
        }

    def generations(self) -> Iterator[Any]:
        from pymicro import plans

        formats = [f for f in plans.GENERATION_FORMATS if f in self._asked.formats]
        for step in plans.generations(formats, self._session.bench.place.sm_count):
            yield from self._cases(step)

    def _cases(self, step: Any) -> Iterator[Any]:
        from pymicro import run
        from pymicro.suite import benchmarks

        options = run.Options(sustained="none", rest_s=step.rest_s, budget_s=step.budget_s)
        benchmark = benchmarks()[step.benchmark]
        for result in run.run(benchmark, step.cases, options, self.context):
            yield replace(
                result, details={**result.details, "study": step.study, "rest_s": step.rest_s}
            )

    def _probe(self, name: str, benchmark: str, **argument: Any) -> Iterator[Any]:
        """Ask a child, which needs the GPU's memory: operands of earlier cases go first."""
        from pymicro.probes import child, measured

        self._session.bench.release()
        report = child.ask(name, self._env, min(self._left_s(), 300.0), **argument)
        if why := measured.why_ended(report):
            self._say(why)
        shared = {
            "device": self.context.device,
            "environment": self.context.environment,
            "run_id": self.context.run_id,
        }
        yield from measured.results_of(report, benchmark, shared)

    def flags(self) -> Iterator[Any]:
        from pymicro import plans

        return self._probe("flags", "flags", shapes=plans.flag_shapes())

    def attention(self) -> Iterator[Any]:
        from pymicro import plans

        shapes, formats = plans.attention_shapes(), ("fp16", "bf16", "fp32")
        return self._probe("attention", "attention", attentions=shapes, dtypes=formats)

    def compiled(self) -> Iterator[Any]:
        return self._probe("torch_compile", "compile", rows=4096, width=768, inner=3072)


_PARTS: dict[str, Callable[[_Run], Iterator[Any]]] = {
    "library": _Run.library,
    "generations": _Run.generations,
    "flags": _Run.flags,
    "attention": _Run.attention,
    "compile": _Run.compiled,
}


def parse_formats(word: str | None, parts: Sequence[str]) -> tuple[str, ...]:
    """Formats of the products; all that the parts have without a word.

    Raises:
        UsageError: a format that none of the parts has.
    """
    from pymicro.dtypes import dtype
    from pymicro.plans import FORMATS, GENERATION_FORMATS

    known = {"library": FORMATS, "generations": GENERATION_FORMATS}
    offered = tuple(dict.fromkeys(f for part in parts for f in known.get(part, ())))
    if word is None:
        return offered
    found = tuple(dict.fromkeys(dtype(w).name for w in word.split(",")))
    if wrong := [f for f in found if f not in offered]:
        raise UsageError(f"--dtype {wrong[0]}: here it is one of {', '.join(offered)}.")
    return found
