"""Measurements that others published: loaded, checked, in SI units, tied to the catalogue.

How a figure was made is read out of the source's words once, here, so that figures that were
made differently can be told apart. What is not said is None, never assumed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pymicro.devices import source_names
from pymicro.devices.catalogue import DATA
from pymicro.devices.metrics import METRICS, Metric
from pymicro.errors import UsageError, unknown

COLUMNS = ("device", "metric", "dtype", "size", "value", "unit", "method", "source_id")


@dataclass(frozen=True)
class Source:
    """Where figures come from; `primary` is False where a third party's quotation was read."""

    id: str
    title: str
    authors: str
    year: int
    url: str
    hardware: str
    software: str
    caveats: str
    primary: bool


@dataclass(frozen=True)
class Published:
    """One published figure.

    Attributes:
        device: the source's name; `key` is the catalogue's, None where it is not certain.
        dtype: format of the operands, `accumulate` of the sum where the source tells.
        value: in `metric.si_unit`.
        fill: `zeros` or `random`, `sustained`: long enough to be warm, `power_limit_w`: a cap
            that was set, `bytes_touched`: the working set; each None where not told.
        searched: the best over several shapes or kernels, not one fixed case.
    """

    device: str
    key: str | None
    metric: Metric
    dtype: str
    accumulate: str | None
    size: str
    value: float
    method: str
    source: Source
    fill: str | None
    sustained: bool | None
    power_limit_w: float | None
    bytes_touched: int | None
    searched: bool


@functools.cache
def published(file: Path = DATA / "published.csv") -> tuple[Published, ...]:
    """All figures in the order of the file.

    Raises:
        UsageError: a line that cannot be right; names file, line and column.
    """
    import csv

    known = sources()
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UsageError(f"{file.name}: the columns must be {', '.join(COLUMNS)}.")
        return tuple(_row(row, f"{file.name}, line {reader.line_num}", known) for row in reader)


def select(
    key: str | None = None, metric: str | None = None, dtype: str | None = None
) -> Iterator[Published]:
    """The figures of one card, metric or format, or of any combination."""
    for row in published():
        same_card = key in (None, row.key)
        if same_card and metric in (None, row.metric.name) and dtype in (None, row.dtype):
            yield row


@functools.cache
def sources(file: Path = DATA / "published-sources.toml") -> Mapping[str, Source]:
    """All sources by id."""
    import tomllib

    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        return {
            key: Source(
                id=key,
                primary=table["read_as"] == "primary",
                **{k: v for k, v in table.items() if k != "read_as"},
            )
            for key, table in tables.items()
        }
    except (KeyError, TypeError) as error:
        raise UsageError(f"{file.name}: a source has a missing or unknown key: {error}.") from error


def _row(row: dict[str, str], where: str, known: Mapping[str, Source]) -> Published:
    if None in row or None in row.values():
        raise UsageError(f"{where}: it must have {len(COLUMNS)} fields.")
    metric = METRICS.get(row["metric"])
    if metric is None:
        raise UsageError(f"{where}, column 'metric': {unknown('metric', row['metric'], METRICS)}")
    if row["unit"] != metric.unit:
        raise UsageError(f"{where}, column 'unit': '{row['unit']}' is not '{metric.unit}'.")
    if row["source_id"] not in known:
        raise UsageError(f"{where}, column 'source_id': no source is called '{row['source_id']}'.")
    dtype, told = _formats(row["dtype"], row["method"])
    words = f"{row['size']}; {row['method']}"
    return Published(
        device=row["device"],
        key=source_names.key_of(row["device"]),
        metric=metric,
        dtype=dtype,
        accumulate=told or _by_definition(metric, dtype),
        size=row["size"],
        value=_number(row["value"], where) * metric.scale,
        method=row["method"],
        source=known[row["source_id"]],
        fill=_fill(words),
        sustained=True if "sustained" in words else None,
        power_limit_w=_power_limit_w(words),
        bytes_touched=_bytes(row["size"], dtype),
        searched=row["size"].startswith("best") or row["method"].startswith(("best", "MAMF")),
    )


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"{where}, column 'value': '{text}' is no positive number.")
    return value


def _formats(dtype: str, method: str) -> tuple[str, str | None]:
    """Operand format and accumulator: from the ending `_acc16`, else from the method's words."""
    if dtype.endswith("_acc16"):
        return dtype.removesuffix("_acc16"), "fp16"
    match = re.search(r"(?<!/)\b(FP16|FP32) accumulate", method)
    return dtype, match[1].lower() if match else None


def _by_definition(metric: Metric, dtype: str) -> str | None:
    """A `gemm_tflops` row sums into FP32 or INT32 unless it says otherwise."""
    if metric.name != "gemm_tflops":
        return None
    return {"fp64": "fp64", "int8": "int32", "int4": "int32"}.get(dtype, "fp32")


def _fill(words: str) -> str | None:
    lower = words.lower()
    if re.search(r"\bzeros?\b", lower):
        return "zeros"
    return "random" if re.search(r"random data|normal\(0,1\)", lower) else None


def _power_limit_w(words: str) -> float | None:
    match = re.search(r"\b(\d+) W\b", words)
    return float(match[1]) if match else None


_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_WIDTHS = {"fp64": 8, "fp32": 4, "int32": 4, "fp16": 2, "bf16": 2, "int8": 1, "int128": 16}


def _bytes(size: str, dtype: str) -> int | None:
    """The size of one operand or of the whole set, whichever the source prints."""
    if match := re.search(r"(\d+(?:\.\d+)?) (KB|MB|GB|KiB|MiB|GiB)\b", size):
        return round(float(match[1]) * _UNITS[match[2]])
    if match := re.match(r"(?:2\^(\d+)|(\d+)) elements", size):
        count = 2 ** int(match[1]) if match[1] else int(match[2])
        return count * _WIDTHS[dtype] if dtype in _WIDTHS else None
    return None
