"""The operator trace of a job: what it asks of a device, without weights, and where it is kept.

A trace holds what the framework dispatches, phase by phase. Kernels per operator, rates and host
costs are properties of a device and belong to its primitives, never to a trace.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError
from pymicro.workloads.sizes import elements, evaluate

SCHEMA = 1
# Of torch's formats; those that are no number format of ours hold indices and masks.
ITEM_BYTES = {row.torch_name: row.itemsize_bytes for row in DTYPES.values()} | {
    "int64": 8,
    "int16": 2,
    "uint8": 1,
    "bool": 1,
}

# In an operator's details: at these sizes it is not dispatched.
UNLESS = "unless"


class TraceError(PymicroError):
    """A trace that cannot be read: another version, or not a trace."""


@dataclass(frozen=True)
class Tensor:
    """Memory that an operator goes through once: of an expanded view, what is stored.

    Attributes:
        shape: one product of sizes a dimension, see `sizes`.
        dtype: torch's name without the prefix, `float16`.
        place: `device`, or `host` for a tensor that lies in main memory.
    """

    shape: tuple[str, ...]
    dtype: str
    place: Literal["device", "host"] = "device"

    def bytes(self, values: Mapping[str, int]) -> int:
        return elements(self.shape, values) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Operator:
    """One dispatched operator that runs kernels; views and metadata are only counted.

    Attributes:
        name: torch's, with its overload: `aten::addmm`, `aten::_foreach_add.List`.
        reads, writes: tensors, in the order of the arguments and results. A list of tensors
            (an optimiser's) is folded into one flat tensor a dtype.
        module: path of the module that called it, layer numbers as `*`: `encoder.layer.*.attn`.
        calls: times in a row with these very sizes; layers that repeat are not folded.
        tensors: tensors in the lists that were folded, 0 if there was none.
        views: operators without a kernel dispatched since the last operator.
        synchronises: the host waits for the device here (`.item()`, a copy to the host).
        transposed: for matrix products, which operands are read transposed: "", "a", "b", "ab".
        details: what else decides the kernel: `{"is_causal": true}`, `{"p": 0.1}`.
    """

    name: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    module: str = ""
    calls: int = 1
    tensors: int = 0
    views: int = 0
    synchronises: bool = False
    transposed: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def bytes(self, values: Mapping[str, int]) -> int:
        """Bytes of one call, each operand once."""
        return sum(tensor.bytes(values) for tensor in (*self.reads, *self.writes))


@dataclass(frozen=True)
class Phase:
    """A stretch of the job with one sequence of operators.

    Attributes:
        name: of generating, `encode` (all before the decoder's first call), `first` (its first
            call: one token, or the whole prompt where there is no encoder) and `decode` (every
            later one); of training, `input`, `forward`, `backward`, `optimiser`.
        runs: how often a batch runs it: a product, or `output-1` for decode steps, whose
            `past` then counts up from `past_from`, see `pasts_of`.
    """

    name: str
    runs: str
    operators: tuple[Operator, ...]
    is_decode: bool = False
    past_from: str = "1"


@dataclass(frozen=True)
class Trace:
    """All phases of a job of one model in one precision.

    Attributes:
        model: key of the model's row. task: `generate` or `train`.
        precision: `fp32`, `fp16`, `bf16`, `amp_fp16`, `amp_bf16`. TF32 is no trace of its own:
            the same operators through another unit.
        attention: `eager` or `sdpa`. device: `cuda` or `cpu`: whose operators these are.
        search: `greedy` or `beam`, which dispatch differently; empty in training.
        software: version of each package it was recorded with.
        recorded_at: the sizes it was recorded at.
        parameters: elements of the model's weights.
    """

    model: str
    task: Literal["generate", "train"]
    precision: str
    attention: str
    device: Literal["cuda", "cpu"]
    software: Mapping[str, str]
    recorded_at: Mapping[str, int]
    parameters: int
    phases: tuple[Phase, ...]
    search: str = ""

    @property
    def key(self) -> str:
        """What tells it from the other traces; the name of its file."""
        how = self.search or self.task
        return key_of(self.model, how, self.precision, self.attention, self.device)


def key_of(model: str, how: str, precision: str, attention: str, device: str) -> str:
    """A trace's key; `how` is `train`, `greedy` or `beam`."""
    return "-".join((model, how, precision, attention, device))


def save(trace: Trace, path: Path) -> None:
    """Write gzipped JSON lines: a header, then one line an operator. Same trace, same bytes."""
    head = asdict(trace)
    phases = head.pop("phases")
    lines = [{"schema": SCHEMA, **head}]
    for phase in phases:
        operators = phase.pop("operators")
        name = phase.pop("name")
        lines.append({"phase": name, **phase})
        lines += [_short(operator) for operator in operators]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())


def load(path: Path) -> Trace:
    """Read a trace.

    Raises:
        TraceError: no trace, truncated, or of another schema; says which file.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            head = json.loads(next(lines, "null"))
            if not isinstance(head, dict) or "schema" not in head:
                raise TraceError(f"{path.name} is no operator trace of pymicro.")
            if head.pop("schema") != SCHEMA:
                raise TraceError(
                    f"{path.name} was written by another version of pymicro; record it anew."
                )
            phases = tuple(_phases(map(json.loads, lines)))
        return Trace(**head, phases=phases)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{path.name} cannot be read: {error}") from error


def _short(operator: dict[str, Any]) -> dict[str, Any]:
    """Fields that have their default are left out, as a trace has thousands of lines."""
    default = asdict(Operator("", (), ()))
    short = {
        k: v for k, v in operator.items() if v != default[k] or k in ("name", "reads", "writes")
    }
    for side in ("reads", "writes"):
        short[side] = [[t["dtype"], t["place"][0], *t["shape"]] for t in operator[side]]
    return short


def _phases(lines: Iterator[dict[str, Any]]) -> Iterator[Phase]:
    head: dict[str, Any] | None = None
    operators: list[Operator] = []
    for line in lines:
        if "phase" in line:
            if head is not None:
                yield _phase(head, operators)
            head, operators = line, []
        else:
            reads, writes = (tuple(map(_tensor, line.pop(side))) for side in ("reads", "writes"))
            operators.append(Operator(reads=reads, writes=writes, **line))
    if head is None:
        raise ValueError("it has no phases")
    yield _phase(head, operators)


def _phase(head: dict[str, Any], operators: list[Operator]) -> Phase:
    return Phase(head.pop("phase"), operators=tuple(operators), **head)


def _tensor(packed: list[str]) -> Tensor:
    dtype, place, *shape = packed
    return Tensor(tuple(shape), dtype, "host" if place == "h" else "device")


def runs_of(phase: Phase, values: Mapping[str, int]) -> int:
    """How often one batch runs a phase. `values` has `output` too: tokens generated."""
    if phase.runs == "output-1":
        return max(values["output"] - 1, 0)
    return evaluate(phase.runs, values)


def pasts_of(phase: Phase, values: Mapping[str, int]) -> range:
    """What `past` counts through in the decode steps of one batch; empty in other phases."""
    if not phase.is_decode:
        return range(0)
    start = evaluate(phase.past_from, values)
    return range(start, start + runs_of(phase, values))


def running(phase: Phase, values: Mapping[str, int]) -> tuple[Operator, ...]:
    """The operators of a phase that are dispatched at these sizes: a batch of one needs fewer."""
    alone = values["batch"] == 1
    return tuple(o for o in phase.operators if not (alone and o.details.get(UNLESS) == "batch=1"))
