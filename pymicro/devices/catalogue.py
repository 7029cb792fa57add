"""The catalogue of GPUs: gpus.toml and, on top of it, a file of the user's, checked on load."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pymicro.devices.schema import BadRow, read_row
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import UsageError

DATA = Path(__file__).parent.parent / "data"
# A user's row that changes one of these inherits no published peaks: they were for other factors.
_FACTORS = {"sm_count", "boost_clock_mhz", "tensor_boost_clock_mhz", "ops_per_clk_per_sm"}
_PUBLISHED = (
    "published_tera_ops",
    "explained_mismatch",
    "published_halved_from_sparse",
    "published_not_confirmed",
)


def catalogue(spec_file: str | Path | None = None) -> Mapping[str, DeviceSpec]:
    """All GPUs by key; `spec_file` adds rows, and changes single keys of rows that exist.

    Raises:
        UsageError: a file cannot be read or a row is wrong; names file, row and key.
    """
    return _catalogue(None if spec_file is None else Path(spec_file).resolve())


@functools.cache
def _catalogue(spec_file: Path | None) -> Mapping[str, DeviceSpec]:
    base_file = DATA / "gpus.toml"
    base = _tables(base_file)
    common = base.get("meta", {}).get("sources_all_devices", [])
    rows = {k: _with_sources(r, common) for k, r in base["gpu"].items()}
    origin = dict.fromkeys(rows, base_file)
    if spec_file is not None:
        for key, row in _tables(spec_file)["gpu"].items():
            rows[key] = _merged(rows[key], row) if key in rows else row
            origin[key] = spec_file
    specs = {}
    for key, row in rows.items():
        try:
            specs[key] = read_row(key, row)
        except BadRow as error:
            raise UsageError(f"{origin[key].name}, row '{key}', {error}") from None
    _refuse_duplicates(specs, origin)
    return MappingProxyType(specs)


def _tables(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file.name} is not valid TOML: {error}.") from error
    if extra := sorted(tables.keys() - {"meta", "gpu"}):
        raise UsageError(f"{file.name}: '{extra[0]}' is no table of cards; rows are [gpu.NAME].")
    if not isinstance(tables.get("gpu"), dict) or not tables["gpu"]:
        raise UsageError(f"{file.name} has no row; a row is a table [gpu.NAME].")
    return tables


def _with_sources(row: Any, common: list[str]) -> Any:
    if isinstance(row, dict) and isinstance(row.get("sources"), list):
        return {**row, "sources": row["sources"] + common}
    return row


def _merged(old: dict[str, Any], new: Any) -> Any:
    """The row `old` with the keys of `new`; the table of rates is merged path by path."""
    if not isinstance(new, dict):
        return new
    kept = dict(old)
    if _FACTORS & new.keys():
        kept = {k: v for k, v in kept.items() if k not in _PUBLISHED}
    merged = {**kept, **new}
    rates = new.get("ops_per_clk_per_sm")
    if isinstance(rates, dict):
        merged["ops_per_clk_per_sm"] = {**old["ops_per_clk_per_sm"], **rates}
    return merged


def _refuse_duplicates(specs: Mapping[str, DeviceSpec], origin: Mapping[str, Path]) -> None:
    seen: dict[str, str] = {}
    for key, spec in specs.items():
        names = [("nvml_names", n) for n in spec.nvml_names] + [("marketing_name", spec.name)]
        for where, name in names:
            folded = " ".join(name.casefold().split())
            # A card may carry its marketing name in NVML too; another card may not.
            if seen.setdefault(folded, key) != key:
                raise UsageError(
                    f"{origin[key].name}, row '{key}', key '{where}': '{name}' already "
                    f"names row '{seen[folded]}'."
                )
