"""From what people call a GPU to its row: whole tokens only, so that no sibling is ever taken.

Every token of the word must belong to the row, and one of them must be the row's model. So
`RTX 4090 Laptop GPU`, `4090 D`, `4080 SUPER` or `H200 NVL` find nothing in a catalogue that
lacks them, and `RTX 4090`, `rtx4090` and `4090` find the same row.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pymicro.devices.catalogue import catalogue
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import UsageError, unknown

# Words that say nothing about which card is meant.
_FILLER = frozenset({"nvidia", "gpu", "graphics", "card", "generation", "edition", "the"})
_BRANDS = frozenset({"geforce", "quadro", "tesla", "rtx", "pcie", "sxm"})
_MEMORY = re.compile(r"\d+gb")
_FORM_FACTOR = re.compile(r"(sxm|pcie)\d*")
_MOST_NAMED = 8


@dataclass(frozen=True)
class Match:
    """The row taken, and in words why, if the word left a choice among `alternatives`."""

    spec: DeviceSpec
    note: str | None = None
    alternatives: tuple[DeviceSpec, ...] = ()


def find(word: str, specs: Mapping[str, DeviceSpec] | None = None) -> Match:
    """Find the GPU that `word` names, by key, by whole name or by its tokens.

    Where several rows fit, the one with the fewest tokens unsaid is taken, then the one with the
    highest tensor rate, bandwidth and memory: the flagship; the note says so. That holds for
    variants of one generation; what shares no more than a name is no variant.

    Raises:
        UsageError: no row fits, with the nearest names; or the word names a family, no model, or
            cards of several generations (`RTX 4000` is a Turing and an Ada card).
    """
    specs = catalogue() if specs is None else specs
    folded = _folded(word)
    for spec in specs.values():
        if folded in {_folded(n) for n in (spec.key, spec.name, *spec.nvml_names)}:
            return Match(spec)
    entries = [_entry(s) for s in specs.values()]
    said = _tokens(word, entries)
    fitting = [e for e in entries if said and said <= e.vocabulary]
    named = [e for e in fitting if said & e.models]
    if not named and fitting and said <= frozenset().union(*(e.vocabulary for e in fitting)):
        raise _only_a_family(word, fitting)
    if not named:
        raise unknown("GPU", word, {_label(s) for s in specs.values()})
    if len({e.spec.architecture for e in named}) > 1:
        names = ", ".join(_of_generation(e.spec) for e in named)
        raise UsageError(
            f"'{word}' is what cards of several generations are called; say which: {names}."
        )
    return _best(word, said, named)


@dataclass(frozen=True)
class _Entry:
    spec: DeviceSpec
    names: tuple[frozenset[str], ...]
    vocabulary: frozenset[str]
    models: frozenset[str]


@functools.lru_cache(maxsize=256)
def _entry_of(key: str, names: tuple[str, ...], qualifiers: tuple[str, ...]) -> tuple:
    sets = tuple(frozenset(_split(n)) - _FILLER for n in (key, *names))
    own = frozenset().union(*sets)
    models = frozenset(t for t in own if _is_model(t))
    loose = {m[1] for t in own if (m := _FORM_FACTOR.fullmatch(t))}
    return sets, own | loose | {t for q in qualifiers for t in _split(q)}, models


def _entry(spec: DeviceSpec) -> _Entry:
    size = "" if spec.memory_bytes is None else f"{spec.memory_bytes // 2**30}gb"
    qualifiers = (size, spec.architecture, spec.chip, spec.memory_type)
    parts = _entry_of(spec.key, (spec.name, *spec.nvml_names), qualifiers)
    return _Entry(spec, *parts)


def _is_model(token: str) -> bool:
    """Model tokens carry a digit and are neither a memory size nor a form factor nor a type."""
    kinds = (_MEMORY, _FORM_FACTOR, re.compile(r"\d+g|(hbm|gddr)\d.*"))
    return any(c.isdigit() for c in token) and not any(k.fullmatch(token) for k in kinds)


def _folded(name: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))


def _split(name: str) -> list[str]:
    """Tokens of a name; `80 GB`, `80GiB` and `80g` are all `80gb`."""
    joined = re.sub(r"\b(\d+)\s*(?:gib|gb|g)\b", r"\1gb", _folded(name))
    return joined.split()


def _tokens(word: str, entries: Iterable[_Entry]) -> frozenset[str]:
    """The tokens of what was typed; run-together ones (`rtx4090`) are cut where both parts are
    tokens of the catalogue."""
    known = frozenset().union(*(e.vocabulary for e in entries)) | _FILLER
    tokens: list[str] = []
    for token in _split(word):
        tokens += [token] if token in known else _cut(token, known) or [token]
    return frozenset(tokens) - _FILLER


def _cut(token: str, known: frozenset[str]) -> list[str] | None:
    for at in range(len(token) - 1, 0, -1):
        head, tail = token[:at], token[at:]
        if head in known and (rest := [tail] if tail in known else _cut(tail, known)):
            return [head, *rest]
    return None


def _rank(spec: DeviceSpec) -> tuple[float, float, int]:
    return (
        spec.peak_ops_per_s("fp16_tensor_fp32_acc") or spec.peak_ops_per_s("fp32") or 0.0,
        spec.memory_bytes_per_s or 0.0,
        spec.memory_bytes or 0,
    )


def _best(word: str, said: frozenset[str], named: list[_Entry]) -> Match:
    def unsaid(entry: _Entry) -> int:
        # A brand, a form factor or a memory size left unsaid makes no other product.
        essential = [{t for t in n if _is_model(t) or t.isalpha()} - _BRANDS for n in entry.names]
        return min(len(e - said) for e in essential)

    fewest = min(unsaid(e) for e in named)
    ranked = sorted(named, key=lambda e: (unsaid(e), *(-r for r in _rank(e.spec))))
    chosen, others = ranked[0].spec, tuple(e.spec for e in ranked[1:])
    if not others:
        return Match(chosen)
    tied = sum(unsaid(e) == fewest for e in named) > 1
    why = "the fastest of them" if tied else "the closest name"
    rest = ", ".join(_short(o) for o in others)
    return Match(chosen, f"'{word}' was taken as {_short(chosen)}, {why}; also: {rest}.", others)


def _of_generation(spec: DeviceSpec) -> str:
    name = _short(spec)
    told = spec.architecture.split()[0] in name
    return name if told else f"{name} ({spec.architecture})"


def _short(spec: DeviceSpec) -> str:
    """The name without the maker's and the brand's words, as people type it."""
    return re.sub(r"^(NVIDIA )?(GeForce |Tesla |Quadro (?!RTX))?", "", spec.name)


def _label(spec: DeviceSpec) -> str:
    """The name that variants share: `H100`, `RTX 4090`, `RTX 6000 Ada`."""
    words = re.sub(r"\(.*?\)", "", _short(spec)).split()
    kept = [
        w for w in words if w.casefold() not in _FILLER and (w.isalpha() or _is_model(w.lower()))
    ]
    return " ".join(w for w in kept if not _FORM_FACTOR.fullmatch(w.casefold()))


def _only_a_family(word: str, fitting: list[_Entry]) -> UsageError:
    names = [_short(e.spec) for e in fitting]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return UsageError(
        f"'{word}' names a family and no single card; say which: "
        f"{', '.join(names[:_MOST_NAMED])}{more}."
    )
