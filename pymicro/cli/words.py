"""The user's words to values: sizes, formats, backends. Wrong ones end here, in one sentence."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pymicro.benchmark import Axis, Benchmark
from pymicro.dtypes import dtype
from pymicro.errors import Unavailable, UsageError, unknown
from pymicro.units import parse_bytes, parse_count, parse_list

_MOST_POINTS = 10_000
_PAIR = re.compile(r"\d+-\d+")


def _pair(word: str) -> str:
    if not _PAIR.fullmatch(word):
        raise UsageError(f"'{word}' is no pair of GPUs; one is 0-1, from the first to the second.")
    return word


def _node(word: str) -> str | int:
    if word == "near" or word.isdigit():
        return word if word == "near" else int(word)
    raise UsageError(f"'{word}' is no node of memory; near, or numbers as in numactl --hardware.")


_PARSERS = {"count": parse_count, "bytes": parse_bytes}
_WORDS = {"pair": _pair, "node": _node}


def values(axis: Axis, word: str) -> tuple[Any, ...]:
    """All values that a word means on an axis.

    Raises:
        UsageError: it means none.
    """
    if axis.kind == "choice":
        return _choices(axis, word)
    if (axis.kind, word) == ("node", "all"):
        from pymicro.backends.cuda.near import nodes

        return nodes() or ("near",)
    if axis.kind in _WORDS:
        return tuple(dict.fromkeys(map(_WORDS[axis.kind], word.split(","))))
    return parse_list(word, _PARSERS[axis.kind], name=f"--{axis.name}")


def _choices(axis: Axis, text: str) -> tuple[str, ...]:
    if text == "all":
        return axis.choices
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in axis.choices:
            raise unknown(axis.name, word, axis.choices)
    return words


def given(benchmark: Benchmark, words: Mapping[str, str | None]) -> dict[str, tuple[Any, ...]]:
    """Values of the axes that the user named; checks every word. All pairs are what one gets."""
    named = {a: w for a in benchmark.axes if (w := words.get(a.name)) is not None}
    return {a.name: values(a, w) for a, w in named.items() if (a.kind, w) != ("pair", "all")}


def points(
    benchmark: Benchmark,
    given: Mapping[str, tuple[Any, ...]],
    kind: str,
    defaults: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Every combination of the axes that exist on this kind of device.

    An axis whose default names another axis takes that one's value, so `size` 4096 with `k` 64
    is 4096×4096×64. Such a source axis is no parameter of its own.

    Raises:
        UsageError: an axis was given that this kind of device does not have.
    """
    names = {a.name for a in benchmark.axes}
    usual = {(a.name, a.usual) for a in benchmark.axes if a.usual is not None}
    sources = {a.default for a in benchmark.axes if a.default in names}
    axes = [a for a in benchmark.axes if a.only in (None, kind)]
    for axis in benchmark.axes:
        if axis not in axes and axis.name in given:
            raise UsageError(f"--{axis.name} works on a {axis.only} device only.")
    chosen = []
    for axis in axes:
        if axis.name in given:
            chosen.append([(axis.name, v) for v in given[axis.name]])
            _refuse_more_threads(axis.name, given[axis.name], defaults)
        elif axis.default not in names:
            chosen.append([(axis.name, v) for v in _default(axis, defaults)])
    most = math.prod(len(pairs) for pairs in chosen)
    if most > _MOST_POINTS:
        raise UsageError(f"these lists make {most} problems; at most {_MOST_POINTS} make sense.")
    found = []
    for combination in itertools.product(*chosen):
        point = dict(combination)
        full = {a.name: point.get(a.name, point.get(a.default or "")) for a in axes}
        used = {k: v for k, v in full.items() if k not in sources and (k, v) not in usual}
        found.append(dict(benchmark.reduced(used)))
    return _unique(found)


def refuse_impossible(benchmark: Benchmark, dtype: str, found: Iterable[Mapping[str, Any]]) -> None:
    """Sizes at which there is nothing to measure end here, not as a case that failed.

    What a unit or a device lacks is another matter: of a list, the others are still measured.

    Raises:
        UsageError: arrays of such a size hold nothing, or not what the benchmark needs.
    """
    for point in found:
        with contextlib.suppress(Unavailable):
            benchmark.operands(dtype, point)


def _refuse_more_threads(name: str, wanted: tuple[Any, ...], defaults: Mapping[str, Any]) -> None:
    """Threads beyond the cores measure the scheduler."""
    cores = defaults.get("threads")
    if name == "threads" and cores is not None and max(wanted) > cores:
        raise UsageError(f"--threads {max(wanted)}: this process may use {cores} core(s).")


def _default(axis: Axis, defaults: Mapping[str, Any]) -> tuple[Any, ...]:
    if axis.default is not None:
        return values(axis, axis.default)
    known = defaults[axis.name]
    return known if isinstance(known, tuple) else (known,)


def _unique(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(point.items()): point for point in found}.values())


def dtypes(benchmark: Benchmark, text: str) -> tuple[str, ...]:
    """Formats of a comma-separated list, or `all` of the benchmark's.

    Raises:
        UsageError: a format is unknown or not one of the benchmark's.
    """
    if text.strip().lower() == "all":
        return benchmark.dtypes
    found = tuple(dict.fromkeys(dtype(word).name for word in text.split(",")))
    for name in found:
        if name not in benchmark.dtypes:
            raise UsageError(
                f"{benchmark.name} has no {name}; it has {', '.join(benchmark.dtypes)}."
            )
    return found


def backends(text: str) -> tuple[str, ...]:
    """Backends of a comma-separated list, or `all`.

    Raises:
        UsageError: one is unknown.
    """
    from pymicro.backends import names

    if text.strip().lower() == "all":
        return names()
    words = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))
    for word in words:
        if word not in names():
            raise unknown("backend", word, names())
    return words
