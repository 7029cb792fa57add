"""The keys of a row of gpus.toml: type, unit, plausible range; and what a row must fulfil.

Reading a row checks everything at once, so a wrong clock or a slipped unit never reaches a peak.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pymicro.devices.spec import PATHS, DeviceSpec, uses_tensor_clock
from pymicro.errors import unknown

TOLERANCE = 0.015
_REQUIRED = object()
_KI, _GI = 2**10, 2**30


class BadRow(Exception):
    """A key of a row that cannot be right; the loader adds file and row."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"key '{key}': {problem}")


@dataclass(frozen=True)
class Number:
    """A number in the unit of its key: whole or not, times `scale` in SI, from `low` to `high`."""

    scale: float
    low: float
    high: float
    whole: bool = True

    def read(self, key: str, value: Any) -> Any:
        types = int if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, types):
            raise BadRow(key, f"{value!r} is not a {'whole ' if self.whole else ''}number.")
        if not self.low <= value <= self.high:
            raise BadRow(key, f"{value} is outside {self.low:g} to {self.high:g}: a unit slip?")
        scaled = value * self.scale
        return int(scaled) if isinstance(self.scale, int) and self.whole else float(scaled)


@dataclass(frozen=True)
class Text:
    """Words, which `pattern` must match as a whole."""

    pattern: str = r".*"

    def read(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            raise BadRow(key, f"{value!r} does not have the form {self.pattern}.")
        return value


@dataclass(frozen=True)
class Texts:
    """A list of words."""

    each: Text = Text(r".+")

    def read(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise BadRow(key, f"{value!r} is not a list.")
        return tuple(self.each.read(key, v) for v in value)


@dataclass(frozen=True)
class Flag:
    def read(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise BadRow(key, f"{value!r} is neither true nor false.")
        return value


@dataclass(frozen=True)
class Table:
    """A value by arithmetic path; `complete` means that every path must be named."""

    each: Number | Text
    complete: bool = False

    def read(self, key: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise BadRow(key, f"{value!r} is not a table.")
        for path in value:
            if path not in PATHS:
                raise BadRow(f"{key}.{path}", str(unknown("arithmetic path", path, PATHS)))
        if self.complete and (missing := [p for p in PATHS if p not in value]):
            raise BadRow(f"{key}.{missing[0]}", "is missing (0 says that there is no such path).")
        return MappingProxyType({p: self.each.read(f"{key}.{p}", v) for p, v in value.items()})


def _capability(key: str, value: Any) -> tuple[int, int]:
    major, minor = Text(r"\d{1,2}\.\d").read(key, value).split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Key:
    """One key of the file and the attribute of DeviceSpec that it fills."""

    attribute: str
    read: Callable[[str, Any], Any]
    default: Any = _REQUIRED


def _key(attribute: str, kind: Any, default: Any = _REQUIRED) -> Key:
    return Key(attribute, kind.read, default)


_VERSION = Text(r"(\d+\.\d+)?")
_PATHS_NAMED = Texts(Text("|".join(PATHS)))
KEYS: dict[str, Key] = {
    "marketing_name": _key("name", Text(r"\S.*\S")),
    "nvml_names": _key("nvml_names", Texts(Text(r"\S.*\S"))),
    "pci_device_ids": _key("pci_device_ids", Texts(Text(r"[0-9A-F]{4}:[0-9A-F]{4}"))),
    "chip": _key("chip", Text(r"\w+")),
    "architecture": _key("architecture", Text(r"\w[\w ]+")),
    "compute_capability": Key("capability", _capability),
    "launch_year": _key("launch_year", Number(1, 2006, 2100)),
    "sm_count": _key("sm_count", Number(1, 1, 1024)),
    "base_clock_mhz": _key("base_clock_hz", Number(1e6, 200, 5000, False), None),
    "boost_clock_mhz": _key("boost_clock_hz", Number(1e6, 200, 5000, False)),
    "tensor_boost_clock_mhz": _key("tensor_boost_clock_hz", Number(1e6, 200, 5000, False), None),
    "max_clock_mhz": _key("max_clock_hz", Number(1e6, 200, 5000, False), None),
    "memory_size_gb": _key("memory_bytes", Number(_GI, 1, 4096)),
    "memory_type": _key("memory_type", Text(r"\w+")),
    "memory_bus_width_bits": _key("memory_bus_width_bits", Number(1, 32, 32768)),
    "memory_data_rate_gbit_s_per_pin": _key(
        "memory_bits_per_s_per_pin", Number(1e9, 0.5, 100, False)
    ),
    "memory_clock_nvml_mhz": _key("memory_clock_hz", Number(1e6, 200, 50000, False), None),
    "memory_bandwidth_gbps": _key("memory_bytes_per_s", Number(1e9, 20, 100e3, False)),
    "l2_size_mb": _key("l2_bytes", Number(2**20, 0.5, 2048, False)),
    "l1_and_shared_per_sm_kb": _key("l1_and_shared_bytes_per_sm", Number(_KI, 16, 2048)),
    "shared_memory_max_per_sm_kb": _key("shared_bytes_per_sm", Number(_KI, 16, 2048)),
    "shared_memory_per_block_optin_kb": _key("shared_bytes_per_block", Number(_KI, 16, 2048)),
    "registers_per_sm_32bit": _key("registers_per_sm", Number(1, 1024, 2**20)),
    "max_threads_per_sm": _key("max_threads_per_sm", Number(1, 256, 8192)),
    "structured_sparsity_2_4": _key("structured_sparsity", Flag()),
    "pcie_generation": _key("pcie_generation", Number(1, 1, 8)),
    "pcie_lanes": _key("pcie_lanes", Number(1, 1, 32)),
    "nvlink_generation": _key("nvlink_generation", Number(1, 0, 10)),
    "nvlink_links": _key("nvlink_links", Number(1, 0, 128)),
    "nvlink_total_bidirectional_gbps": _key("nvlink_bytes_per_s", Number(1e9, 0, 20e3, False)),
    "nvlink_kind": _key("nvlink_kind", Text()),
    "nvlink_c2c_total_bidirectional_gbps": _key(
        "nvlink_c2c_bytes_per_s", Number(1e9, 10, 20e3, False), None
    ),
    "p2p_over_pcie": _key("p2p_over_pcie", Text("supported|expected|blocked")),
    "p2p_over_nvlink": _key("p2p_over_nvlink", Flag()),
    "tdp_w": _key("tdp_w", Number(1.0, 10, 5000, False)),
    "ecc": _key("ecc", Text()),
    "cuda_toolkit_first": _key("cuda_toolkit_first", _VERSION),
    "cuda_toolkit_last": _key("cuda_toolkit_last", _VERSION, ""),
    "cuda_toolkit_dropped": _key("cuda_toolkit_dropped", _VERSION, ""),
    "cublas_first_cuda_toolkit": _key("cublas_first_cuda_toolkit", _VERSION, ""),
    "pytorch_first": _key("pytorch_first", _VERSION, ""),
    "pytorch_note": _key("pytorch_note", Text(), ""),
    "ops_per_clk_per_sm": _key("ops_per_clk_per_sm", Table(Number(1, 0, 2**20), complete=True)),
    "published_tera_ops": _key(
        "published_ops_per_s", Table(Number(1e12, 0.01, 1e6, False)), MappingProxyType({})
    ),
    "explained_mismatch": _key("explained_mismatch", Table(Text(r".{10,}")), MappingProxyType({})),
    "published_halved_from_sparse": _key("published_halved_from_sparse", _PATHS_NAMED, ()),
    "published_not_confirmed": _key("published_not_confirmed", _PATHS_NAMED, ()),
    "inferred": _key("inferred", Texts(), ()),
    "notes": _key("notes", Texts(), ()),
    "sources": _key("sources", Texts(), ()),
    "vendor_documents": _key("vendor_documents", Texts(), ()),
}


def read_row(key: str, row: Any) -> DeviceSpec:
    """Turn one `[gpu.<key>]` table into a spec.

    Raises:
        BadRow: a missing or unknown key, a wrong type or range, or figures that contradict.
    """
    if not isinstance(row, dict):
        raise BadRow(key, "is not a table.")
    for name in row:
        if name not in KEYS:
            raise BadRow(name, str(unknown("key", name, KEYS)))
    values = {}
    for name, k in KEYS.items():
        if name not in row and k.default is _REQUIRED:
            raise BadRow(name, "is missing.")
        values[k.attribute] = k.read(name, row[name]) if name in row else k.default
    if values["l2_bytes"] is not None:
        values["l2_bytes"] = int(values["l2_bytes"])
    spec = DeviceSpec(key=key, **values)
    for name, problem in _contradictions(spec):
        raise BadRow(name, problem)
    return spec


def differs(value: float, reference: float, tolerance: float = TOLERANCE) -> bool:
    """Whether `value` is off `reference` by more than a share of `reference`."""
    return abs(value - reference) > tolerance * abs(reference)


def _contradictions(s: Any) -> Iterator[tuple[str, str]]:
    """Pairs of key and problem of a DeviceSpec in which no required key is None."""
    yield from _wrong_peaks(s)
    rate = s.memory_bus_width_bits * s.memory_bits_per_s_per_pin / 8
    if differs(rate, s.memory_bytes_per_s):
        yield (
            "memory_bandwidth_gbps",
            f"{s.memory_bytes_per_s / 1e9:g} does not follow from "
            f"{s.memory_bus_width_bits} bits x data rate / 8 = {rate / 1e9:.1f}.",
        )
    # NVML counts two transfers per tick of its memory clock, for every memory type so far.
    if s.memory_clock_hz and differs(2 * s.memory_clock_hz, s.memory_bits_per_s_per_pin):
        yield "memory_clock_nvml_mhz", "is not half of the data rate per pin."
    if s.max_clock_hz and s.max_clock_hz < s.boost_clock_hz:
        yield "max_clock_mhz", "is below the boost clock."
    if s.tensor_boost_clock_hz and s.tensor_boost_clock_hz > s.boost_clock_hz:
        yield "tensor_boost_clock_mhz", "is above the boost clock."
    if s.base_clock_hz and s.base_clock_hz > s.boost_clock_hz:
        yield "base_clock_mhz", "is above the boost clock."
    if len({bool(s.nvlink_generation), bool(s.nvlink_links), bool(s.nvlink_bytes_per_s)}) != 1:
        yield "nvlink_links", "generation, links and bandwidth must all be 0 or none of them."
    # Generations 1 to 5 run at 28 to 100 GB/s a link, both ways together.
    elif s.nvlink_links and not 10e9 <= s.nvlink_bytes_per_s / s.nvlink_links <= 500e9:
        yield "nvlink_total_bidirectional_gbps", "makes no plausible rate for one link."


def _wrong_peaks(s: DeviceSpec) -> Iterator[tuple[str, str]]:
    for path, published in s.published_ops_per_s.items():
        where, peak = f"published_tera_ops.{path}", s.peak_ops_per_s(path) or 0.0
        off = differs(peak, published)
        if off and path not in s.explained_mismatch:
            clock = "tensor_boost_clock_mhz" if uses_tensor_clock(path) else "boost_clock_mhz"
            yield (
                where,
                f"{published / 1e12:g} does not follow from sm_count x ops_per_clk_per_sm x "
                f"{clock} (or boost_clock_mhz) = {peak / 1e12:.1f}, and nothing in "
                "explained_mismatch says why.",
            )
        if not off and path in s.explained_mismatch:
            yield f"explained_mismatch.{path}", "explains a mismatch that is not there."
    named = (*s.explained_mismatch, *s.published_halved_from_sparse, *s.published_not_confirmed)
    for path in named:
        if path not in s.published_ops_per_s:
            yield f"published_tera_ops.{path}", "is missing, yet other keys speak of it."
