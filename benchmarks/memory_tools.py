"""Other people's memory benchmarks, where their programs are on PATH: run, and their output read.

None is bundled. What each prints was read in its source: BabelStream (`src/main.cpp`, `--csv`),
gpu-stream of gpu-benches (`gpu-stream/main.cu`) and nvbandwidth (`json_output.cpp`).
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from pymicro.units import binary_bytes

_LIMIT_S = 120
# BabelStream copies all its arrays to the host and goes over them there after it has measured.
_CHECKED_BYTES = 2**30

# In which BabelStream says rates: up to version 5.0, and after it.
_UNITS = {
    "mbytes": 1e6, "mibytes": 2**20, "MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30,
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A rate that a program printed, by our name of the operation."""

    tool: str
    op: str
    dtype: str
    bytes_per_s: float
    how: str


def babelstream(text: str) -> list[Figure]:
    """The table of `--csv`, rates from the average time since the program's own is the best."""
    names = {"Copy": "copy", "Mul": "scale", "Add": "add", "Triad": "triad", "Dot": "dot"}
    found, head = [], None
    for cells in csv.reader(text.splitlines()):
        if cells and cells[0] == "function":
            head = cells
        elif head is not None and cells and cells[0] in names:
            row = dict(zip(head, cells, strict=False))
            rate, unit = next((k, u) for k in head for u in _UNITS if k == f"max_{u}_per_sec")
            best = float(row[rate]) * _UNITS[unit]
            mean = best * float(row["min_runtime"]) / float(row["avg_runtime"])
            dtype = {"4": "fp32", "8": "fp64"}[row["sizeof"]]
            size = int(row["n_elements"]) * int(row["sizeof"])
            how = f"mean, host clock, arrays of {binary_bytes(size)}"
            found.append(Figure("BabelStream", names[cells[0]], dtype, mean, how))
    return found


def gpu_stream(text: str) -> list[Figure]:
    """The best block size of each column; doubles, medians. Its triad, a = b d + c, moves four."""
    columns = ("write", "read", "scale", "triad")
    best: dict[str, float] = {}
    for line in text.splitlines():
        if "GB/s:" not in line:
            continue
        told = re.sub(r"! \d+ blocks per SM", "", line.split("GB/s:")[1])
        for op, word in zip(columns, told.split(), strict=False):
            best[op] = max(best.get(op, 0.0), float(word) * 1e9)
    return [Figure("gpu-stream", op, "fp64", rate, "best block size") for op, rate in best.items()]


def nvbandwidth(text: str) -> list[Figure]:
    """The copy inside a device by its SMs and by its copy engine; it counts reads and writes."""
    begin = text.find("{")
    tests = json.loads(text[begin:])["nvbandwidth"]["testcases"] if begin >= 0 else []
    found = []
    for test in tests:
        matrix = test.get("bandwidth_matrix") or []
        values = [float(v) for row in matrix for v in row if v not in ("N/A", None)]
        if test.get("status") == "Passed" and values:
            rate = max(values) * 1e9
            found.append(Figure("nvbandwidth", "copy", "bytes", rate, str(test["name"])))
    return found


@dataclass(frozen=True)
class Tool:
    """A program: the names it may have on PATH, its arguments for arrays of so many bytes."""

    names: tuple[str, ...]
    arguments: Callable[[int, str], list[str]]
    parse: Callable[[str], list[Figure]]
    dtypes: tuple[str, ...] = ("fp64",)


TOOLS = (
    Tool(
        ("cuda-stream", "babelstream", "BabelStream"),
        lambda size, dtype: [
            "--csv",
            "--arraysize",
            str(min(size, _CHECKED_BYTES) // (4 if dtype == "fp32" else 8)),
            "--numtimes",
            "30",
            *(["--float"] if dtype == "fp32" else []),
        ],
        babelstream,
        ("fp64", "fp32"),
    ),
    Tool(("gpu-stream",), lambda size, dtype: [], gpu_stream),
    Tool(
        ("nvbandwidth",),
        lambda size, dtype: ["-j", "-b", str(size // 2**20), "-t", "device_local_copy"],
        nvbandwidth,
    ),
)


def figures(size_bytes: int) -> tuple[list[Figure], list[str]]:
    """What the programs on PATH say, and a sentence for each that is absent or failed."""
    found: list[Figure] = []
    said: list[str] = []
    for tool in TOOLS:
        program = next((path for name in tool.names if (path := shutil.which(name))), None)
        if program is None:
            said.append(f"{tool.names[0]} is not on PATH.")
            continue
        for dtype in tool.dtypes:
            command = [program, *tool.arguments(size_bytes, dtype)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
                own = tool.parse(done.stdout)
            except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
                said.append(f"{tool.names[0]}: {type(error).__name__}: {error}")
                continue
            if not own:
                tail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
                said.append(
                    f"{tool.names[0]} printed no figure (exit {done.returncode}): {tail[0]}"
                )
            found += own
    return found, said
