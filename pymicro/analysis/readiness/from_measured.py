"""What was measured, as rows of the table of layers and as sentences under it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pymicro import stats
from pymicro.analysis.readiness.measured import measured
from pymicro.analysis.readiness.rows import Readiness, Row, RowKind
from pymicro.analysis.readiness.values import (
    Compiled,
    GenerationRow,
    Measured,
    ProductRow,
    Switch,
)
from pymicro.results import Result
from pymicro.software.codes import Capability
from pymicro.software.kernel_names import generation
from pymicro.software.versions import dotted
from pymicro.units import percent, si

# A library this far behind the best of the others is worth a word; less is noise of one shape.
_WORTH = 1.15
_BEHIND = {
    1: "one generation behind",
    2: "two behind",
    3: "three behind",
    4: "four behind",
    5: "five behind",
}
_OWN = "another backend here is faster on some shapes; see the table of products"


def with_measured(told: Readiness, results: Iterable[Result]) -> Readiness:
    """The readiness of a card with what the store has of it: rows, and the table's values."""
    m = measured(results, told.key, told.device, told.capability)
    known = [_with_gain(row, m) for row in told.rows]
    known += rows(m, told.capability)
    return replace(told, rows=(*known, *_not_looked_at(known)), measured=m)


# What only a measurement shows, and what to ask for it.
_UNSEEN = {
    "gemm": "library",
    "gemm fp8_e4m3": "library --dtype fp8",
    "attention": "attention",
    "torch.compile": "compile",
}


def _not_looked_at(rows: Sequence[Row]) -> Iterator[Row]:
    """A row for each feature of torch, where it can run at all, that nobody measured."""
    torch = next((r for r in rows if r.layer == "torch"), None)
    if torch is None or torch.kind not in ("native", "relative", "jit"):
        return
    layers = [row.layer for row in rows]
    for feature, part in _UNSEEN.items():
        if not any(layer.startswith(feature) for layer in layers):
            do = f"pymicro readiness --measure {part}"
            yield Row(feature, torch.version, "unknown", "none", "not measured on this card", do)


def _with_gain(row: Row, m: Measured) -> Row:
    """What the switch that is off would bring here."""
    gain = tf32_gain(m)
    if row.layer != "tf32" or row.kind != "off" or gain is None:
        return row
    low, middle, high, count = gain
    seen = (
        f"{row.seen}; on, the jobs' {count} products run {low:.2f} to {high:.2f} times as fast "
        f"(median {middle:.2f})"
    )
    return replace(row, seen=seen, evidence="profiler")


def rows(m: Measured, capability: Capability) -> Iterator[Row]:
    """A row a format of the products, a row a way to attention, and one for the compiler."""
    yield from (replace(row, version=m.torch) for row in _rows(m, capability))


def _rows(m: Measured, capability: Capability) -> Iterator[Row]:
    for dtype in dict.fromkeys(p.dtype for p in m.products):
        yield _format_row(dtype, [p for p in m.products if p.dtype == dtype], capability)
    yield from _attention_rows(m, capability)
    if m.compiled is not None:
        seen = _compiled(m.compiled)
        yield Row("torch.compile", "", "native", "profiler", seen)
    elif m.why_not_compiled:
        yield Row("torch.compile", "", "broken", "probe", m.why_not_compiled)


def _compiled(c: Compiled) -> str:
    """What compiling saves on the device and on the host, or costs, in a sentence."""
    parts = [f"{c.eager_s / c.compiled_s:.2f} times as fast on the device"]
    if c.eager_kernels and c.compiled_kernels:
        parts.insert(0, f"{c.eager_kernels} kernels a block become {c.compiled_kernels}")
    if c.eager_host_s and c.compiled_host_s:
        host = (si(c.eager_host_s, "s", 3), si(c.compiled_host_s, "s", 3))
        parts.append(f"the host needs {host[1]} a call instead of {host[0]}")
    return f"{', '.join(parts)}; {c.compile_s:.0f} s to compile"


def _format_row(dtype: str, products: Sequence[ProductRow], capability: Capability) -> Row:
    name, ran = f"gemm {dtype}", [p for p in products if p.flop_per_s]
    if not ran:
        return Row(name, "", "unknown", "probe", products[0].reason or "not measured")
    kernels = [p.kernel for p in ran if p.kernel is not None]
    if not kernels:
        return Row(name, "", "unknown", "probe", "ran, but no profiler saw its kernels")
    told = Counter(k.written.chip for k in kernels if k.written)
    older = sum(1 for k in kernels if k.behind)
    parts = [
        f"{count} of {len(kernels)} kernels written for {dotted(chip)} ({generation(chip)})"
        for chip, count in sorted(told.items())
    ]
    if rest := len(kernels) - sum(told.values()):
        parts.append(f"{rest} do not say")
    gaps = [p.gap for p in ran if p.gap is not None]
    behind = [g for g in gaps if g >= _WORTH]
    if behind:
        parts.append(f"on {len(behind)} of {len(gaps)} shapes up to {max(behind):.2f} times slower")
    kind: RowKind = "older" if older else "native" if told else "unknown"
    return Row(name, "", kind, "profiler", "; ".join(parts), _OWN if behind else "")


def _attention_rows(m: Measured, capability: Capability) -> Iterator[Row]:
    for way in dict.fromkeys(a.way for a in m.attentions):
        own = [a for a in m.attentions if a.way == way]
        ran = [a for a in own if a.seconds is not None]
        name = f"attention {way}"
        if not ran:
            yield Row(name, "", "unavailable", "probe", _first_sentence(own[0].reason))
            continue
        kernels = [a.kernel for a in ran if a.kernel is not None and a.kernel.written]
        told = Counter(k.written.chip for k in kernels if k.written)
        parts = [f"right on {len(ran)} of {len(own)} cases"]
        parts += [f"{n} written for {dotted(c)} ({generation(c)})" for c, n in sorted(told.items())]
        refused = Counter(_first_sentence(a.reason) for a in own if a.seconds is None)
        parts += [f"refused {n}: {reason}" for reason, n in refused.most_common(2)]
        older = any(k.behind for k in kernels)
        kind: RowKind = "older" if older else "native" if told else "unknown"
        yield Row(name, "", kind, "profiler", "; ".join(parts))


def _first_sentence(text: str) -> str:
    """Of a refusal, the first that is not our own doing: the other ways were switched off."""
    clauses = [c for c in text.split("; ") if "runtime disabled" not in c] or [text]
    return clauses[0].split(". ")[0].rstrip(".")


def gap_sentences(m: Measured, capability: Capability) -> list[str]:
    """What software one and two generations behind reaches here, of products and of the copy."""
    flops = [g for g in m.generations if g.unit == "FLOP/s"]
    moves = [g for g in m.generations if g.unit != "FLOP/s"]
    said = []
    for row in m.generations:
        if row.rates and 0 not in row.rates:
            newest = _BEHIND[min(row.rates)]
            own = generation(capability)
            said.append(f"{row.what}: no kernel here is written for {own}; the newest is {newest}")
    for steps, text in list(_BEHIND.items())[:2]:  # Beyond, few formats are left to speak of.
        each = _shares(flops, steps)
        if not each:
            continue
        listed = ", ".join(f"{what} {percent(share)}" for what, share in each)
        middle = percent(stats.median([share for _, share in each]))
        copies = "".join(f"; {what} {percent(s)}" for what, s in _shares(moves, steps))
        said.append(f"software {text} reaches {middle} here (median of {listed}{copies})")
        lost = [g.what for g in flops if 0 in g.rates and g.rate(steps) is None]
        if lost:
            said[-1] += f"; it has no {', '.join(lost)}"
    return said


def _shares(rows: Sequence[GenerationRow], steps: int) -> list[tuple[str, float]]:
    return [(row.what, share) for row in rows if (share := row.share(steps)) is not None]


def tf32_gain(m: Measured) -> tuple[float, float, float, int] | None:
    """Speed of TF32 over FP32 on the jobs' products: lowest, median, highest, how many."""
    by_shape = {(p.dtype, p.shape): p.flop_per_s for p in m.products if p.flop_per_s}
    gains = [
        fast / slow
        for (dtype, shape), slow in by_shape.items()
        if dtype == "fp32" and (fast := by_shape.get(("tf32", shape)))
    ]
    return (min(gains), stats.median(gains), max(gains), len(gains)) if gains else None


def switch_sentences(switches: Sequence[Switch]) -> list[str]:
    """Each setting over all its shapes, with what it does to the error."""
    groups: dict[tuple[str, str, str], list[Switch]] = {}
    for s in switches:
        groups.setdefault((s.flag, s.dtype, s.value), []).append(s)
    said = []
    for (flag, dtype, value), own in groups.items():
        gains = [s.speedup for s in own]
        errors = [s.error / s.default_error for s in own if s.error and s.default_error]
        cost = f", error {stats.median(errors):.3g} times" if errors else ""
        said.append(
            f"{flag} = {value} ({dtype}): {min(gains):.2f} to {max(gains):.2f} times as fast as "
            f"{own[0].default}{cost}"
        )
    return said
