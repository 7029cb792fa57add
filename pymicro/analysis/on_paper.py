"""Lines of a comparison from data sheets: peaks, memory, links, power. No measurement here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pymicro.analysis.figures import Better, Figure, Line, Subject, exact, ratios
from pymicro.devices.cpu import CpuSpec
from pymicro.devices.peaks import Spec, peak_path
from pymicro.devices.spec import PATHS
from pymicro.dtypes import DTYPES, DType, rate_unit
from pymicro.units import si

# Formats that matter for a rate per watt or per price: one off, one on the matrix units.
_PER = ("fp32", "fp16")


@dataclass(frozen=True)
class Quantity:
    """One figure of a data sheet; `read` gives None where a device has none or it is not known."""

    topic: str
    what: str
    unit: str
    better: Better
    read: Callable[[Spec], Figure | None]


def _attribute(name: str, scale: float = 1.0) -> Callable[[Spec], Figure | None]:
    def read(spec: Spec) -> Figure | None:
        value = getattr(spec, name, None)
        return exact(value * scale, origin=_origin(spec, name)) if value else None

    return read


def _host_link(spec: Spec) -> Figure | None:
    both_ways = getattr(spec, "nvlink_c2c_bytes_per_s", None)
    if both_ways:
        note = ("a chip-to-chip link to its own CPU, not PCI Express.",)
        return exact(both_ways / 2, origin=_origin(spec, "nvlink_c2c_bytes_per_s"), notes=note)
    return _attribute("pcie_bytes_per_s")(spec)


def _peak(row: DType) -> Callable[[Spec], Figure | None]:
    def read(spec: Spec) -> Figure | None:
        path = peak_path(spec, row)
        value = spec.peak_ops_per_s(path) if path else None
        if not path or not value:
            return None
        return exact(value, origin=_origin(spec, path), notes=tuple(_about(spec, row, path)))

    return read


def _about(spec: Spec, row: DType, path: str) -> Iterator[str]:
    """What a reader must know of this peak to compare it."""
    if isinstance(spec, CpuSpec):
        return
    wide = path.replace("fp32_acc", "fp16_acc")
    other = spec.peak_ops_per_s(wide) if wide != path and wide in PATHS else None
    own = spec.peak_ops_per_s(path) or 0.0
    if other and other > 1.5 * own:
        yield f"sums into FP32; into FP16 the card does {si(other, rate_unit(row.name))}."
    if path == row.vector_path and row.peak_path != path:
        yield f"no matrix unit takes {row.name}: the rate is the vector unit's."
    if spec.computed:
        yield "at the highest clock the driver allows: an upper bound."
    if path in spec.published_not_confirmed:
        yield "no opened source prints this figure; SMs, rate and clock give it."


def _origin(spec: Spec, name: str) -> tuple[str, ...]:
    if isinstance(spec, CpuSpec):
        return (f"{spec.name}: {name}; {spec.core or 'core not known'}", *spec.sources)
    told = " (inferred, no source states it)" if _is_inferred(spec.inferred, name) else ""
    how = f"{spec.key or spec.name}: {name}{told}"
    if name in spec.ops_per_clk_per_sm:
        rate, clock = spec.ops_per_clk_per_sm[name], spec.clock_hz(name)
        how += f" = {spec.sm_count} SMs x {rate} operations a clock x {si(clock or 0, 'Hz')}, dense"
    return (how, *spec.vendor_documents, *spec.sources)


def _is_inferred(inferred: Sequence[str], name: str) -> bool:
    # The catalogue names keys in its own units: `memory_bandwidth_gbps`, `nvlink_links`.
    keys = {"memory_bytes_per_s": "memory_bandwidth_gbps", "l2_bytes": "l2_size_mb"}
    keys |= {"nvlink_bytes_per_s": "nvlink_total_bidirectional_gbps"}
    return bool({name, keys.get(name), f"ops_per_clk_per_sm.{name}"} & set(inferred))


def _per(top: Callable[[Spec], Figure | None], bottom: str) -> Callable[[Spec], Figure | None]:
    def read(spec: Spec) -> Figure | None:
        below = getattr(spec, bottom, None)
        return _divided(top(spec), below) if below else None

    return read


def _divided(figure: Figure | None, by: float) -> Figure | None:
    return None if figure is None else exact(figure.value / by, figure.origin, figure.notes)


def topic_of(dtype: str) -> str:
    return f"gemm {dtype}"


def peaks(dtypes: Sequence[str]) -> list[Quantity]:
    return [
        Quantity(topic_of(name), "dense peak", rate_unit(name), "more", _peak(DTYPES[name]))
        for name in dtypes
    ]


BANDWIDTH = (
    Quantity("bandwidth", "DRAM", "B/s", "more", _attribute("memory_bytes_per_s")),
    Quantity("bandwidth", "memory size", "B", "", _attribute("memory_bytes")),
    Quantity("bandwidth", "L2 size", "B", "", _attribute("last_level_cache_bytes")),
)
TRANSFER = (
    Quantity("transfer", "link to the host, one way", "B/s", "more", _host_link),
    Quantity("transfer", "NVLink, one way", "B/s", "more", _attribute("nvlink_bytes_per_s", 0.5)),
)
POWER = (
    Quantity("power", "power limit", "W", "", _attribute("tdp_w")),
    *(
        Quantity(
            "power", f"dense {name} peak per watt", "FLOP/J", "more",
            _per(_peak(DTYPES[name]), "tdp_w"),
        )
        for name in _PER
    ),
)  # fmt: skip


def lines(subjects: Sequence[Subject], quantities: Sequence[Quantity]) -> Iterator[Line]:
    """A line a quantity, and one more for each variant that a card's name could mean."""
    for quantity in quantities:
        specs = [s.spec for s in subjects]
        if any(spec and quantity.read(spec) for spec in specs):
            yield _line(quantity, specs, quantity.what)
        for place, subject in enumerate(subjects):
            for variant in subject.alternatives:
                if _shows_another_rate(quantity, subject.spec, variant):
                    other = [*specs[:place], variant, *specs[place + 1 :]]
                    what = f"{quantity.what}, {short(variant)} instead"
                    yield _line(quantity, other, what, alternative=True)


def _shows_another_rate(quantity: Quantity, chosen: Spec | None, variant: Spec) -> bool:
    before, after = quantity.read(chosen) if chosen else None, quantity.read(variant)
    is_rate = quantity.better == "more" and quantity.topic != "power"
    return is_rate and after is not None and (before is None or after.value != before.value)


def short(spec: Spec) -> str:
    """The name without the maker's and the brand's words."""
    return spec.name.removeprefix("NVIDIA ").removeprefix("GeForce ")


def _line(q: Quantity, specs: Sequence[Spec | None], what: str, alternative: bool = False) -> Line:
    figures = [q.read(spec) if spec else None for spec in specs]
    missing = [short(s) for s, f in zip(specs, figures, strict=True) if s and not f]
    why_not = (f"{', '.join(missing)}: none, or not known.",) if missing else ()
    return Line(
        q.topic, "data sheet", what, q.unit, q.better,
        tuple(figures), ratios(figures), why_not, alternative=alternative,
    )  # fmt: skip


def prices(subjects: Sequence[Subject], given: Sequence[float]) -> Iterator[Line]:
    """Lines from the user's own prices, in whatever currency: price, and rates per price."""
    figures = tuple(exact(p, origin=("given on the command line",)) for p in given)
    yield Line("price", "data sheet", "price, as given", "", "less", figures, ratios(figures))
    tops = [(f"dense {n} peak per price", "FLOP/s", _peak(DTYPES[n])) for n in _PER]
    tops.append(("DRAM bandwidth per price", "B/s", _attribute("memory_bytes_per_s")))
    for what, unit, read in tops:
        per = [
            _divided(read(s.spec), p) if s.spec else None
            for s, p in zip(subjects, given, strict=True)
        ]
        yield Line("price", "data sheet", what, unit, "more", tuple(per), ratios(per))
