"""Requirements for a node: `native,tf32,link>=gen4x16,gemm_fp16>=0.6`. What is not known fails.

A gate that lets pass what it could not see would be none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pymicro.analysis.readiness import Readiness
from pymicro.analysis.roofline import judge
from pymicro.errors import UsageError, unknown
from pymicro.results import Result
from pymicro.software.versions import Version, at_least, dotted, parse

_RANKS = {"native": ("native",), "relative": ("native", "relative")}
_RANKS["jit"] = (*_RANKS["relative"], "jit")
_LINK = re.compile(r"gen(\d)x(\d{1,2})")
_GEMM = re.compile(r"gemm_(\w+)")
_NAMES = ("native", "relative", "jit", "tf32", "link", "driver", "cuda", "gemm_fp16")


@dataclass(frozen=True)
class Node:
    """What requirements are held against.

    Attributes:
        link: generation and lanes, the most that card and slot allow; None if not known.
        fractions: best stored share of the data-sheet peak by benchmark and format, `gemm_fp16`.
    """

    readiness: Readiness
    driver: Version | None = None
    driver_cuda: Version | None = None
    link: tuple[int, int] | None = None
    fractions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Requirement:
    """One requirement; `unmet` says in words why a node fails it, None if it does not."""

    word: str
    unmet: Callable[[Node], str | None]


def parse_requirements(words: str) -> tuple[Requirement, ...]:
    """Read a list of requirements.

    Raises:
        UsageError: an unknown name, or a value that it cannot have.
    """
    return tuple(_parse(word.strip().lower()) for word in words.split(","))


def failures(requirements: Iterable[Requirement], node: Node) -> list[str]:
    """A line for each requirement that the node does not meet."""
    found = ((r.word, r.unmet(node)) for r in requirements)
    return [f"{word}: {why}" for word, why in found if why is not None]


def best_fractions(results: Sequence[Result], device_key: str) -> dict[str, float]:
    """The best share of the data-sheet peak that stored results of this card reached."""
    best: dict[str, float] = {}
    for result in results:
        if result.outcome != "ok" or not device_key or result.device.get("key") != device_key:
            continue
        fraction = judge(result).peak_fraction
        name = f"{result.benchmark}_{result.dtype}"
        if fraction is not None:
            best[name] = max(fraction, best.get(name, 0.0))
    return best


def _parse(word: str) -> Requirement:
    name, sign, value = (part.strip() for part in word.partition(">="))
    if name in _RANKS and not sign:
        return Requirement(word, lambda node: _code(node, name))
    if name == "tf32" and not sign:
        return Requirement(word, _tf32)
    if name == "link" and (match := _LINK.fullmatch(value)):
        least = (int(match[1]), int(match[2]))
        return Requirement(word, lambda node: _link(node, least))
    if name in ("driver", "cuda") and (version := parse(value)):
        return Requirement(word, lambda node: _version(node, name, version))
    if _GEMM.fullmatch(name) and (share := _share(value)) is not None:
        return Requirement(word, lambda node: _fraction(node, name, share))
    if name in _NAMES or _GEMM.fullmatch(name):
        raise UsageError(
            f"--require '{word}': write native, relative, jit, tf32, link>=gen4x16, driver>=580, "
            "cuda>=13.0 or gemm_fp16>=0.6."
        )
    raise unknown("requirement", name, _NAMES)


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def _code(node: Node, name: str) -> str | None:
    ranks = ("native", "relative", "jit", "dropped", "impossible", "broken")
    rows = [row for row in node.readiness.rows if row.kind in ranks]
    if not rows:
        return "nothing is known of the software's code for this chip"
    worse = [f"{r.layer} {r.version} is {r.kind}" for r in rows if r.kind not in _RANKS[name]]
    return "; ".join(worse) or None


def _tf32(node: Node) -> str | None:
    states = {row.kind for row in node.readiness.rows if row.layer == "tf32"}
    if states == {"on"}:
        return None
    return "torch does not use TF32 by default" if states else "torch was not found"


def _link(node: Node, least: tuple[int, int]) -> str | None:
    if node.link is None:
        return "the link is not known"
    generation, lanes = node.link
    enough = generation >= least[0] and lanes >= least[1]
    return None if enough else f"it is generation {generation} x{lanes}"


def _version(node: Node, name: str, least: Version) -> str | None:
    version = node.driver if name == "driver" else node.driver_cuda
    if version is None:
        return "the driver is not known"
    return None if at_least(version, least) else f"it is {dotted(version)}"


def _fraction(node: Node, name: str, least: float) -> str | None:
    reached = node.fractions.get(name)
    if reached is None:
        return f"no stored result of this card; run pymicro gemm --dtype {name[5:]}"
    return None if reached >= least else f"the best stored result reaches {reached:.2f}"
