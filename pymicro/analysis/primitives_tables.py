"""Primitives that are tables of ours: hosts, the framework's kernels, and figures we measured."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from pymicro.analysis.primitives import FusedAttention, HostCosts, Kernel, Library
from pymicro.analysis.primitives_stored import Stored
from pymicro.analysis.products import Unit
from pymicro.analysis.values import Value, spread
from pymicro.analysis.work import Product
from pymicro.devices.catalogue import DATA
from pymicro.devices.peaks import Spec

# Between runs of one device.
_LEAST = 0.03


def batched(spec: Spec) -> dict[str, Value]:
    """Shares of the rate that batched products reach where a source says that they fall behind."""
    import tomllib

    tables = tomllib.loads((DATA / "batched.toml").read_text(encoding="utf-8"))
    found = {}
    for row in tables.get("share", []):
        if spec.key in row["cards"]:
            value, low, high = row["of_rate"]
            found[row["path"]] = Value(value, low, high, row["source"], "published")
    return found


# Host and library -----------------------------------------------------------------------------


@functools.cache
def hosts() -> dict[str, Any]:
    """All rows of hosts.toml."""
    import tomllib

    return tomllib.loads((DATA / "hosts.toml").read_text(encoding="utf-8"))


@functools.cache
def default_host(name: str = "default") -> HostCosts:
    """A host of hosts.toml."""
    row = hosts()[name]

    def of(figures: Sequence[float]) -> Value:
        value, low, high = (f * 1e-6 for f in figures)
        return Value(value, low, high, row["source"], row["kind"])

    def table(key: str) -> dict[str, Value]:
        return {phase: of(figures) for phase, figures in row[key].items()}

    plain = {f"{k}_s": of(row[k]) for k in ("view", "launch", "tensor", "wait", "token", "cast")}
    return HostCosts(row["name"], table("operator"), run_s=table("run"), **plain)


@functools.cache
def _operators() -> dict[str, Any]:
    """What was fitted to readings, and what nobody timed, as one table."""
    import tomllib

    fitted, assumed = (
        tomllib.loads((DATA / name).read_text(encoding="utf-8"))
        for name in ("operators.toml", "operators_assumed.toml")
    )
    rows = {name: fitted.pop(name) | assumed.pop(name) for name in ("class", "operator")}
    return {**fitted, **assumed, "rows": rows["class"] | rows["operator"]}


@functools.cache
def default_library() -> Library:
    """PyTorch's kernels, of operators.toml and operators_assumed.toml."""
    tables = _operators()
    rows = {
        name: Kernel(r["kernels"], r["start_floors"], tuple(r["bytes_per_clk"]))
        for name, r in tables["rows"].items()
    }
    return Library(
        kernels=rows,
        attention={unit: FusedAttention(**row) for unit, row in tables["attention"].items()},
        units={name: Unit(name, **row) for name, row in tables["unit"].items()},
        tensors_a_launch=tables["lists"]["tensors_a_launch"],
        speed=spread(1.0, tables["spread"], tables["source"], tables["kind"]),
        turned_flop_per_clk=tables["turned_flop_per_clk"],
    )


@functools.cache
def cpu() -> tuple[Library, HostCosts, Value]:
    """What an operator costs on a CPU: kernels, a host that adds nothing, and their floor."""
    row, gpu = _operators()["cpu"], default_library()
    limits = row["bytes_per_ns"]
    plain = {
        name: Kernel(min(held.kernels, 1.0), 1.0, (limits.get(name, 1e3),) * 2)
        for name, held in gpu.kernels.items()
    }
    added = {n: Kernel(1.0, 1.0, (limit,) * 2) for n, limit in limits.items() if n not in plain}
    shares = FusedAttention(**row["attention"])
    attention = {"vector": shares, "tensor": shares}
    library = Library({**plain, **added}, attention, gpu.units, 1.0, gpu.speed)
    nothing = Value(0.0, 0.0, 0.0, row["source"], "measured")
    host = HostCosts("the CPU itself", {"": nothing}, nothing, nothing, nothing, nothing)
    value, low, high = (f * 1e-6 for f in row["floor_us"])
    return library, host, Value(value, low, high, row["source"], "measured")


@functools.cache
def measured(key: str) -> Stored:
    """What ships with pymicro of a card that we measured; empty for all others."""
    import csv

    file = DATA / "measured" / f"{key}.csv"
    if not key or not file.exists():
        return Stored()
    products: dict[tuple[str, Product], Value] = {}
    single: dict[str, Any] = {}
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            value = _read(row, f"data/measured/{file.name}")
            if row["what"] == "product_s":
                batch, m, n, k = (int(row[x]) for x in ("batch", "m", "n", "k"))
                products[row["path"], Product(batch, m, n, k, row["layout"])] = value
            elif row["path"]:
                single.setdefault(row["what"], {})[row["path"]] = value
            else:
                single[row["what"]] = value
    return Stored(product_s=products, **single)


def _read(row: Mapping[str, str], file: str) -> Value:
    value, source = float(row["value"]), f"measured: {file}, {row['source']}"
    if not row["low"]:
        return spread(value, _LEAST, source, "measured")
    # However alike the samples of one run: the next run differs.
    low, high = float(row["low"]), float(row["high"])
    ends = min(low, value * (1 - _LEAST)), max(high, value * (1 + _LEAST))
    return Value(value, *ends, source, "measured")
