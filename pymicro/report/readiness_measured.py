"""What `readiness --measure` gave, as tables: products, generations, first use, switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pymicro.analysis.readiness import from_measured
from pymicro.analysis.readiness.values import GenerationRow, Kernel, Measured
from pymicro.report.terminal import Terminal
from pymicro.software.codes import Capability
from pymicro.software.kernel_names import generation
from pymicro.software.versions import dotted
from pymicro.units import percent, si

_STEPS = (0, 1, 2, 3)


def to_json(m: Measured, capability: Capability) -> dict[str, Any]:
    """Plain values, with the sentences that the table prints."""
    return {
        **asdict(m),
        "generation_gap": from_measured.gap_sentences(m, capability),
        "switch_gains": from_measured.switch_sentences(m.switches),
    }


def show(m: Measured, capability: Capability, terminal: Terminal) -> None:
    """Print a table for each part that was measured; nothing for the others."""
    for part in (_products, _generations, _first_uses, _switches, _attentions):
        part(m, capability, terminal)


def _products(m: Measured, capability: Capability, terminal: Terminal) -> None:
    if not m.products:
        return
    terminal.say("Products of the jobs: what the library launches, and the best of the others here")
    rows = [
        [
            p.dtype,
            "×".join(map(str, p.shape[:3])) + ("" if p.shape[3] == "nt" else f" {p.shape[3]}"),
            p.kernel.name if p.kernel else (p.reason or "not seen"),
            _written(p.kernel),
            si(p.flop_per_s, "FLOP/s") if p.flop_per_s else "",
            si(p.best_flop_per_s, "FLOP/s") if p.best_flop_per_s else "",
            f"{p.gap:.2f}" if p.gap else "",
            p.best_by,
        ]
        for p in m.products
    ]
    titles = ("format", "m×n×k", "its kernel", "for", "library", "best other", "ratio", "by")
    terminal.table(titles, rows, numbers={4, 5, 6})


def _written(kernel: Kernel | None) -> str:
    if kernel is None or kernel.written is None:
        return ""
    return dotted(kernel.written.chip) + ("+" if kernel.written.or_newer else "")


def _generations(m: Measured, capability: Capability, terminal: Terminal) -> None:
    if not m.generations:
        return
    own = generation(capability)
    terminal.say(f"Generation gap: the same work by kernels of each generation, here ({own})")
    rows = [[g.what, *(_reached(g, steps) for steps in _STEPS)] for g in m.generations]
    titles = ("", "its own", "one behind", "two behind", "three behind")
    terminal.table(titles, rows, numbers={1, 2, 3, 4})
    for sentence in from_measured.gap_sentences(m, capability):
        terminal.say(f"- {sentence}")


def _reached(row: GenerationRow, steps: int) -> str:
    # Its own is what was made for it, even where an older kernel is as fast or faster.
    rate, share = row.rate(steps) if steps else row.rates.get(0), row.share(steps)
    if rate is None:
        return "none"
    text = si(rate, row.unit)
    return text if steps == 0 or share is None else f"{text} ({percent(share)})"


def _first_uses(m: Measured, capability: Capability, terminal: Terminal) -> None:
    if not m.first_uses:
        return
    terminal.say("Machine code and PTX of the same kernel (the driver's cache off)")
    rows = [
        [f.kernel, f.ptx, _ms(f.code_s), _ms(f.ptx_s), _ms(f.ptx_again_s), f"{f.steady:.3f}"]
        for f in m.first_uses
    ]
    titles = ("kernel", "PTX", "first use", "from PTX", "again", "then, of its speed")
    terminal.table(titles, rows, numbers={2, 3, 4, 5})


def _ms(seconds: float) -> str:
    return si(seconds, "s", 3)


def _switches(m: Measured, capability: Capability, terminal: Terminal) -> None:
    gain = from_measured.tf32_gain(m)
    said = from_measured.switch_sentences(m.switches)
    if gain is not None:
        low, middle, high, count = gain
        said.append(
            f"TF32 on the jobs' {count} products: {low:.2f} to {high:.2f} times as fast as FP32 "
            f"(median {middle:.2f})"
        )
    if said:
        terminal.say("Switches of precision, measured")
    for sentence in said:
        terminal.say(f"- {sentence}")


def _attentions(m: Measured, capability: Capability, terminal: Terminal) -> None:
    ran = [a for a in m.attentions if a.seconds is not None]
    if not ran:
        return
    terminal.say("Attention (batch×heads×queries×keys×width): device time of each way")
    ways = list(dict.fromkeys(a.way for a in m.attentions))
    cases = list(dict.fromkeys((a.shape, a.dtype) for a in m.attentions))
    times = {(a.shape, a.dtype, a.way): a.seconds for a in ran if a.seconds}
    rows = [[shape, dtype, *_cells(times, shape, dtype, ways)] for shape, dtype in cases]
    terminal.table(("case", "format", *ways), rows, numbers=set(range(2, 2 + len(ways))))


def _cells(times: dict[Any, float], shape: str, dtype: str, ways: Sequence[str]) -> list[str]:
    found = (times.get((shape, dtype, way)) for way in ways)
    return [si(seconds, "s", 3) if seconds else "refused" for seconds in found]
