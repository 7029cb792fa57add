"""Primitives that are tables of ours: hosts, the framework's kernels, and figures we measured."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from pymicro.analysis.primitives import FusedAttention, HostCosts, Kernel, Library
from pymicro.analysis.primitives_stored import Stored
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
def default_library() -> Library:
    """PyTorch's kernels, of operators.toml."""
    import tomllib

    tables: dict[str, Any] = tomllib.loads((DATA / "operators.toml").read_text(encoding="utf-8"))
    rows = tables["class"] | tables["operator"]
    kernels = {k: Kernel(r["kernels"], r["start"], tuple(r["per_clk"])) for k, r in rows.items()}
    attention = {unit: FusedAttention(**row) for unit, row in tables["attention"].items()}
    speed = spread(1.0, tables["spread"], tables["source"], tables["kind"])
    lists = tables["lists"]["tensors_a_launch"]
    return Library(kernels, attention, lists, speed, tables["layout"])


@functools.cache
def cpu() -> tuple[Library, HostCosts, Value]:
    """What an operator costs on a CPU: kernels, a host that adds nothing, and their floor."""
    import tomllib

    tables: dict[str, Any] = tomllib.loads((DATA / "operators.toml").read_text(encoding="utf-8"))
    row = tables["cpu"]
    limits = row["bytes_per_ns"]
    plain = {
        name: Kernel(min(held.kernels, 1.0), 1.0, (limits.get(name, 1e3),) * 2)
        for name, held in default_library().kernels.items()
    }
    added = {n: Kernel(1.0, 1.0, (limit,) * 2) for n, limit in limits.items() if n not in plain}
    shares = FusedAttention(0.5, 24.0, 1.0, 1.0, 0.0)
    library = Library(
        {**plain, **added}, {"vector": shares, "tensor": shares}, 1.0, default_library().speed
    )
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
    single: dict[str, Value] = {}
    source = f"measured: data/measured/{file.name}"
    with file.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            value = spread(float(row["seconds"]), _LEAST, source, "measured")
            if row["what"] == "product":
                batch, m, n, k = (int(row[x]) for x in ("batch", "m", "n", "k"))
                products[row["path"], Product(batch, m, n, k, row["layout"])] = value
            else:
                single[row["what"]] = value
    return Stored(
        products=products,
        floor=single.get("floor"),
        gap=single.get("gap"),
        dram=single.get("copy_bytes_per_s"),
    )
