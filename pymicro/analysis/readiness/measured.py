"""What `readiness --measure` left in the store, judged: stored results in, rows of tables out.

Of each study the newest run of the card counts, so that one table never mixes software.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pymicro import stats
from pymicro.analysis.readiness.values import (
    AttentionRow,
    Compiled,
    FirstUse,
    GenerationRow,
    Kernel,
    Measured,
    ProductRow,
    Shape,
    Switch,
)
from pymicro.results import Result, latest
from pymicro.software.codes import Capability
from pymicro.software.kernel_names import short, steps_behind, written_for


def measured(results: Iterable[Result], key: str, name: str, capability: Capability) -> Measured:
    """What the newest runs of a card give; by its key in the catalogue, else by its name."""
    own = [
        r
        for r in results
        if r.details.get("study")
        and r.device.get("kind") == "cuda"
        and (r.device.get("key") == key if key else r.device.get("name") == name)
    ]
    by_study = {study: _newest(own, study) for study in {r.details["study"] for r in own}}
    compiled = by_study.get("compile", [])
    return Measured(
        tuple(products(by_study.get("library", ()), capability)),
        tuple(generations(by_study.get("generations", ()), capability)),
        tuple(first_uses(by_study.get("first use", ()))),
        tuple(switches(by_study.get("flags", ()))),
        tuple(attentions(by_study.get("attention", ()), capability)),
        _compiled(compiled),
        next((r.reason or "" for r in compiled if r.outcome != "ok"), ""),
        next((str(r.details["torch"]) for r in reversed(own) if r.details.get("torch")), ""),
    )


def _newest(results: Sequence[Result], study: str) -> list[Result]:
    """Each case of a study from the newest run that has any of its kind and format: one that ended
    before the copies leaves those of an earlier run."""
    of_study = [r for r in results if r.details.get("study") == study]
    last = {(r.benchmark, r.dtype): r.run_id for r in of_study}
    return latest(r for r in of_study if r.run_id == last[r.benchmark, r.dtype])


def products(results: Sequence[Result], capability: Capability) -> list[ProductRow]:
    """A row for each product that the library was asked for, in the order of the plan."""
    groups: dict[tuple[str, Shape], list[Result]] = {}
    for result in results:
        p = result.params
        groups.setdefault((result.dtype, (p["m"], p["n"], p["k"], p["layout"])), []).append(result)
    return [_product(d, s, own, capability) for (d, s), own in groups.items()]


def _product(
    dtype: str, shape: Shape, results: Sequence[Result], capability: Capability
) -> ProductRow:
    vendor = next((r for r in results if r.details.get("is_vendor")), None)
    rivals = {
        str(r.details.get("kernel") or f"{r.backend} {r.variant}"): rate
        for r in results
        if not r.details.get("is_vendor") and (rate := _rate(r))
    }
    best = max(rivals, key=lambda who: rivals[who], default="")
    rate = _rate(vendor) if vendor else None
    why = (vendor.reason or "") if vendor and rate is None else ""
    kernel = main_kernel(vendor.details.get("launched", ()), capability) if vendor else None
    return ProductRow(dtype, shape, kernel, rate, rivals.get(best), best, why)


def main_kernel(launched: Sequence[Mapping[str, Any]], capability: Capability) -> Kernel | None:
    """The kernel with most of the time, those whose name tells a generation first."""
    if not launched:
        return None
    costs = {k["name"]: k["calls"] * k["seconds"] for k in launched}
    name = max(costs, key=lambda n: costs[n])
    return _kernel(name, costs[name] / sum(costs.values()), capability)


def _kernel(name: str, share: float, capability: Capability) -> Kernel:
    written = written_for(name)
    behind = None if written is None else steps_behind(written.chip, capability)
    return Kernel(short(name), written, behind, share)


def _rate(result: Result) -> float | None:
    if result.outcome != "ok":
        return None
    return (result.flop or result.bytes) / stats.median(result.samples_s)


def generations(results: Sequence[Result], capability: Capability) -> list[GenerationRow]:
    """The best of each generation, by how far it lies behind this chip's."""
    rows: dict[str, list[tuple[int, float, str]]] = {}
    units = {}
    for result in results:
        rate, path = _rate(result), path_of(result)
        what = result.dtype if result.flop else f"{result.params['op']} {result.dtype}"
        found = rows.setdefault(what, [])
        units[what] = "FLOP/s" if result.flop else "B/s"
        if rate is not None and path is not None:
            kernel = str(result.details.get("kernel", ""))
            found.append((steps_behind(path, capability), rate, kernel))
    return [
        GenerationRow(
            what,
            {steps: max(r for s, r, _ in found if s == steps) for steps in _steps(found)},
            {steps: max((r, k) for s, r, k in found if s == steps)[1] for steps in _steps(found)},
            units[what],
        )
        for what, found in rows.items()
    ]


def _steps(found: Sequence[tuple[int, float, str]]) -> list[int]:
    return sorted({steps for steps, _, _ in found})


def path_of(result: Result) -> Capability | None:
    """The generation that a kernel of ours was written for: its path, `sm75`."""
    word = str(result.params.get("path") or result.variant)
    digits = word.removeprefix("sm")
    return (int(digits[:-1]), int(digits[-1])) if digits.isdecimal() else None


def first_uses(results: Sequence[Result]) -> list[FirstUse]:
    """Machine code and PTX of the same kernel, in pairs."""
    pairs: dict[tuple[str, str], dict[str, Result]] = {}
    for r in results:
        if r.outcome == "ok":
            pairs.setdefault((r.dtype, r.params["path"]), {})[r.variant] = r
    found = []
    for (dtype, _), pair in pairs.items():
        if {"cubin", "ptx"} <= pair.keys():
            code, ptx = pair["cubin"], pair["ptx"]
            first, *again = ptx.details["first_use_s"]
            found.append(
                FirstUse(
                    str(code.details["kernel"]), dtype, str(ptx.details["code"]),
                    code.details["first_use_s"][0], first,
                    stats.median(again) if again else first,
                    stats.median(code.samples_s) / stats.median(ptx.samples_s),
                )
            )  # fmt: skip
    return found


def switches(results: Sequence[Result]) -> list[Switch]:
    """Each setting beside the one that the framework starts with."""
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for r in results:
        p = r.params
        groups.setdefault((p["flag"], r.dtype, p["m"], p["n"], p["k"]), []).append(r)
    found = []
    for (flag, dtype, m, n, k), own in groups.items():
        base = next((r for r in own if r.details.get("is_default") and r.outcome == "ok"), None)
        for r in own if base else ():
            assert base is not None
            if r is not base and r.outcome == "ok":
                faster = stats.median(base.samples_s) / stats.median(r.samples_s)
                found.append(
                    Switch(
                        flag, dtype, r.variant, (m, n, k), faster, _error(r), base.variant,
                        _error(base),
                    )
                )  # fmt: skip
    return found


def _error(result: Result) -> float | None:
    return result.verified.error if result.verified else None


def attentions(results: Sequence[Result], capability: Capability) -> list[AttentionRow]:
    """Every way that was tried, in the order of the plan."""
    return [_attention(r, capability) for r in results]


def _attention(r: Result, capability: Capability) -> AttentionRow:
    p = r.params
    shape = f"{p['batch']}×{p['heads']}×{p['queries']}×{p['keys']}×{p['width']}"
    shape += " + bias" if p.get("has_bias") else ""
    if r.outcome != "ok":
        return AttentionRow(shape, r.dtype, r.variant, None, None, r.reason or "")
    names = r.details.get("kernels", ())
    told = [name for name in names if written_for(name)] or list(names)
    kernel = _kernel(told[0], 1.0, capability) if told else None
    return AttentionRow(shape, r.dtype, r.variant, stats.median(r.samples_s), kernel)


def _compiled(results: Sequence[Result]) -> Compiled | None:
    pair = {r.variant: r for r in results if r.outcome == "ok"}
    if not {"eager", "compiled"} <= pair.keys():
        return None
    eager, compiled = pair["eager"], pair["compiled"]
    return Compiled(
        stats.median(eager.samples_s),
        stats.median(compiled.samples_s),
        _kernels(eager),
        _kernels(compiled),
        compiled.details["compile_s"],
        eager.details.get("host_s"),
        compiled.details.get("host_s"),
    )


def _kernels(result: Result) -> int:
    """Kernels of a call; what the driver fills and copies stands in the same records."""
    names = result.details["kernels"]
    return sum(not name.startswith(("Memset", "Memcpy")) for name in names)
