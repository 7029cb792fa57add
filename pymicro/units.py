"""Words to numbers and numbers to words: the only place that knows prefixes.

Inside pymicro every quantity is in SI units without a prefix. GB is 10**9 bytes, GiB is 2**30.
"""

from __future__ import annotations

import itertools
import math
import re

from pymicro.errors import UsageError

# `1G` could be either system, so it is refused where bytes are meant. Counts may say 4k or 4Ki.
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?(?:e\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
# Nothing on earth holds an operand this large; beyond it a size is a slip of the keyboard.
_ABSURD = 2**50
_MOST_POINTS = 10_000


def parse_count(word: str, *, name: str = "size") -> int:
    """Parse a count of elements: `4096`, `8k` (8192: sizes of matrices are binary), `8Ki`.

    Raises:
        UsageError: not a whole number from 1 to 2**50.
    """
    value, suffix = _split(word, name)
    lower = suffix.lower()
    if lower in ("k", "m", "g"):
        lower += "i"
    scale = {"": 1, **_BINARY}.get(lower)
    if scale is None:
        raise UsageError(f"{name} '{word}': unknown suffix '{suffix}'; write 4096, 4k or 4Ki.")
    return _whole(value * scale, word, name)


def parse_bytes(word: str, *, name: str = "size") -> int:
    """Parse a size in bytes: `4096`, `64KiB`, `64MiB`, `1GB` (10**9), `1GiB` (2**30).

    Raises:
        UsageError: unknown or ambiguous suffix, or not a whole number from 1 to 2**50.
    """
    value, suffix = _split(word, name)
    lower = suffix.lower()
    if lower in ("k", "m", "g", "t"):
        unit = lower.upper().replace("K", "k")
        raise UsageError(
            f"{name} '{word}' is ambiguous; write {value:g}{lower.upper()}iB (binary) "
            f"or {value:g}{unit}B (decimal)."
        )
    table = {"b": 1, "": 1}
    table |= {f"{p}b": s for p, s in itertools.chain(_DECIMAL.items(), _BINARY.items()) if p}
    if lower not in table:
        raise UsageError(f"{name} '{word}': unknown suffix '{suffix}'; write 64MiB or 1GB.")
    return _whole(value * table[lower], word, name)


def parse_list(text: str, parse, *, name: str = "size") -> tuple[int, ...]:
    """Parse `4096`, a list `1k,2k` or ranges `1MiB:8GiB:x2` and `4096:8192:256`, ends included."""
    points: list[int] = []
    for word in text.split(","):
        if not word.strip():
            raise UsageError(f"{name} '{text}': an entry of the list is empty.")
        points.extend(_range(word, parse, name) if ":" in word else [parse(word, name=name)])
    return tuple(dict.fromkeys(points))


def _range(word: str, parse, name: str) -> list[int]:
    parts = [p.strip() for p in word.split(":")]
    if len(parts) != 3:
        raise UsageError(f"{name} '{word}': a range is START:STOP:STEP or START:STOP:xFACTOR.")
    start, stop = parse(parts[0], name=name), parse(parts[1], name=name)
    if stop < start:
        raise UsageError(f"{name} '{word}': the range ends before it starts.")
    if parts[2].lower().startswith("x"):
        factor = _factor(parts[2][1:], word, name)
        count = math.floor(math.log(stop / start, factor) + 1e-9) + 1
        points = (round(start * factor**i) for i in range(count))
    else:
        step = parse(parts[2], name=name)
        count = (stop - start) // step + 1
        points = (start + i * step for i in range(count))
    if count > _MOST_POINTS:
        raise UsageError(f"{name} '{word}' has {count} points; at most {_MOST_POINTS} make sense.")
    return list(points)


def _factor(text: str, word: str, name: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 < factor < math.inf:
        raise UsageError(f"{name} '{word}': the factor after x must be a number above 1.")
    return factor


def _split(word: str, name: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(word)
    if match is None:
        raise UsageError(f"{name} '{word}' is not a number; write 4096, 64MiB, 1k,2k or 1k:8k:x2.")
    return float(match[1]), match[2]


def _whole(value: float, word: str, name: str) -> int:
    if not math.isfinite(value) or value != int(value):
        raise UsageError(f"{name} '{word}' is not a whole number.")
    if value <= 0:
        raise UsageError(f"{name} '{word}' must be at least 1.")
    if value > _ABSURD:
        raise UsageError(f"{name} '{word}' is larger than any machine's memory (2**50 at most).")
    return int(value)


def si(value: float, unit: str, digits: int = 4) -> str:
    """Format with an SI prefix and `digits` significant digits: `655.2 TFLOP/s`, `3.352 TB/s`.

    Tera is the largest prefix, as in the field's tables: `1979 TFLOP/s`.
    """
    if not math.isfinite(value):
        return f"{value} {unit}"
    if value == 0:
        return f"0 {unit}"
    power = min(max(math.floor(math.log10(abs(value)) / 3), -5), 4)
    # Rounding may carry into the next prefix: 999.99 k is 1.000 M.
    scaled = float(f"{value / 1000.0**power:.{digits}g}")
    if abs(scaled) >= 1000 and power < 4:
        power, scaled = power + 1, scaled / 1000
    decimals = max(digits - 1 - math.floor(math.log10(abs(scaled))), 0) if scaled else 0
    prefix = ["f", "p", "n", "µ", "m", "", "k", "M", "G", "T"][power + 5]
    return f"{scaled:.{decimals}f} {prefix}{unit}"


def binary_bytes(count: int) -> str:
    """Format a size in bytes with the largest binary prefix that keeps it at or above one."""
    power = min(max(count, 1).bit_length() - 1, 49) // 10
    scaled = count / 2 ** (10 * power)
    return f"{scaled:.4g} {['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"


def percent(fraction: float) -> str:
    """Format a fraction: 0.8734 is `87.3 %`."""
    return f"{100 * fraction:.1f} %"
