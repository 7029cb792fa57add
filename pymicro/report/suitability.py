"""Cards for training or inference: rates and verdicts, rules, and errors of common tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pymicro.analysis.claims import FIGURES, TableError, claims
from pymicro.analysis.suitability import Suitability, Use, rules, suits
from pymicro.devices.spec import DeviceSpec
from pymicro.report.terminal import Terminal
from pymicro.units import si

_TITLES = (
    "card", "format", "TFLOP/s", "GiB", "TB/s", "NVLink GB/s", "W", "GFLOP/J", "suits",
    "bound by", "source says",
)  # fmt: skip
_NUMBERS = frozenset({2, 3, 4, 5, 6, 7})
# What a narrow screen leaves out first, and what it says once where all rows agree.
_LEAVING, _ONCE = (7, 6, 10), (1,)


def show(
    specs: Sequence[DeviceSpec],
    use: Use,
    dtype: str | None = None,
    explain: bool = False,
    terminal: Terminal | None = None,
) -> None:
    """A row a card, then the rules; with `explain` the reasons and the errors of such tables."""
    terminal = terminal or Terminal()
    judged = [(spec, suits(spec, use, dtype)) for spec in specs]
    terminal.table(_TITLES, [_row(*pair) for pair in judged], _NUMBERS, _LEAVING, _ONCE)
    terminal.say(
        "Dense rates in the format used, summed in FP32; NVLink both ways together. The largest "
        "job that fits and is fast enough by stated rules; beside it what a published comparison "
        "by data sheet says (+ the rules agree, - they do not)."
    )
    if not explain:
        terminal.say("The rules, each card's reasons and common errors of such tables: --explain")
        return
    for line in explanation(judged, use):
        terminal.say(line)


def explanation(judged: Sequence[tuple[DeviceSpec, Suitability]], use: Use) -> Iterator[str]:
    """The rules, the reasons of each verdict, and the errors of tables with their figures."""
    yield f"\nRules for {use}:"
    yield from (f"  {rule}" for rule in rules(use))
    yield "\nReasons:"
    for spec, found in judged:
        said = (found.because, found.fails, found.link, _needs(found))
        yield f"  {_name(spec)}: {found.size}. {'; '.join(filter(None, said))}."
    yield "\nSaid by:"
    told = claims()
    for name in dict.fromkeys(c.source for c in told.claims if c.cards):
        source = told.sources[name]
        yield f"  {name}: {source['what']}; {source['kind']}."
    yield ""
    yield from errors()


def errors() -> Iterator[str]:
    """What tables of cards commonly get wrong, with the catalogue's figures."""
    from pymicro.devices.catalogue import catalogue

    specs = catalogue()
    yield "Common errors of such tables:"
    for error in claims().errors:
        yield f"  {error.id}: {error.what}"
        for key in error.cards:
            yield f"    {_name(specs[key])}: {_figures(specs[key], error)}"


def _figures(spec: DeviceSpec, error: TableError) -> str:
    words = []
    for name in error.show:
        word, unit, read = FIGURES[name]
        value = read(spec)
        text = "none" if not value else f"{value:g} {unit}" if unit == "GiB" else si(value, unit)
        words.append(f"{word} {text}")
    return ", ".join(words)


def _needs(found: Suitability) -> str:
    if found.needs_nvlink is None:
        return ""
    return "several cards need NVLink" if found.needs_nvlink else "several cards need no NVLink"


def _row(spec: DeviceSpec, found: Suitability) -> list[str]:
    nvlink = f"{spec.nvlink_bytes_per_s / 1e9:.0f}" if spec.nvlink_bytes_per_s else "-"
    if found.needs_nvlink:
        nvlink += " (needed)"
    return [
        _name(spec),
        found.format.dtype,
        f"{found.format.flop_per_s / 1e12:.4g}",
        f"{(spec.memory_bytes or 0) / 2**30:.0f}",
        f"{(spec.memory_bytes_per_s or 0) / 1e12:.3g}",
        nvlink,
        f"{spec.tdp_w:.0f}" if spec.tdp_w else "?",
        f"{found.format.flop_per_s / spec.tdp_w / 1e9:.0f}" if spec.tdp_w else "?",
        found.size,
        found.bound_by,
        _source(spec, found),
    ]


def _source(spec: DeviceSpec, found: Suitability) -> str:
    claim = claims().about(spec.key)
    if claim is None:
        return ""
    opinion = claim.training if found.use == "training" else claim.inference
    if opinion is None:
        return ""
    return f"{'+' if found.size in opinion.reads_as else '-'} {opinion.says} ({claim.id})"


def _name(spec: DeviceSpec) -> str:
    return spec.name.removeprefix("NVIDIA ").removeprefix("GeForce ")


# What `devices --sort` knows: descending, but names.
SORTS: dict[str, Callable[[DeviceSpec], float | None]] = {
    "memory": lambda s: s.memory_bytes,
    "bandwidth": lambda s: s.memory_bytes_per_s,
    "nvlink": lambda s: s.nvlink_bytes_per_s,
    "power": lambda s: s.tdp_w,
    "year": lambda s: s.launch_year,
    "l2": lambda s: s.l2_bytes,
    "pcie": lambda s: s.pcie_bytes_per_s,
}


def sort(
    specs: Sequence[DeviceSpec], by: str, use: Use | None, dtype: str | None
) -> list[DeviceSpec]:
    """Cards in the order of a column, the highest first; `name` from A to Z.

    `by` is a key of SORTS, `name`, `rate` or `efficiency` (per watt), or a format's name.
    """
    from pymicro.devices.peaks import peak_ops_per_s
    from pymicro.dtypes import DTYPES

    if by == "name":
        return sorted(specs, key=_name)
    if by in SORTS:
        return sorted(specs, key=lambda s: -(SORTS[by](s) or 0))
    if by in DTYPES:
        return sorted(specs, key=lambda s: -(peak_ops_per_s(s, DTYPES[by]) or 0))
    from pymicro.analysis.suitability import format_of

    def rate(spec: DeviceSpec) -> float:
        value = format_of(spec, use or "training", dtype).flop_per_s
        return value / (spec.tdp_w or 1.0) if by == "efficiency" else value

    return sorted(specs, key=lambda s: -rate(s))
