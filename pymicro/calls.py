"""What the launch benchmark asks for, for all who answer: which calls there are, who makes them,
with which arguments a nearly empty kernel is called, and what it must leave behind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

Params = Mapping[str, Any]

# Launch -> inputs and numbers that the kernel takes beside its output, together no, 3 and 16
# arguments. It leaves out[0] = the sum of in[0] and n over all of them.
LAUNCHES: dict[str, tuple[int, int]] = {"args0": (0, 0), "args3": (1, 1), "args16": (5, 10)}
# What else costs a call.
OTHERS: dict[str, str] = {
    "record": "an event is recorded",
    "query": "an event is asked whether it has passed",
    "synchronise": "an idle stream is waited for",
    "item": "one number comes back from an array",
    "allocate": "2 MiB are taken from the system and given back",
    "pool": "2 MiB are taken from a pool and given back",
}
CALLS = (*LAUNCHES, *OTHERS)
ALLOCATED_BYTES = 2**21
# None is 1 or a multiple of 16: Triton would compile such a number into the kernel.
_NUMBERS = (3, 5, 7, 9, 11, 13, 15, 17, 19, 21)


@dataclass(frozen=True)
class Row:
    """A layer that makes calls.

    Attributes:
        makes: the calls it makes; a torch operation has arguments of its own, so it is one launch.
        ran_on: where it was run and checked: `cpu`, or devices by catalogue key.
    """

    backend: str
    variant: str
    does: str
    makes: tuple[str, ...] = tuple(LAUNCHES)
    kind: str = "cuda"
    ran_on: tuple[str, ...] = ()


_ONE = ("args3",)
_CPU = ("cpu",)
_H200 = ("h200_sxm_141gb",)
ROWS = (
    Row("native", "python", "an empty Python function", ("args0",), "cpu", _CPU),
    Row("native", "ctypes", "a C function through ctypes", kind="cpu", ran_on=_CPU),
    Row("native", "pybind11", "a C++ function through pybind11", kind="cpu", ran_on=_CPU),
    Row("cuda", "cpp", "cuLaunchKernel in a C++ loop", ran_on=_H200),
    Row(
        "cuda",
        "bindings",
        "the driver through cuda.bindings, arguments laid out before",
        (*LAUNCHES, "record", "query", "synchronise", "allocate", "pool"),
        ran_on=_H200,
    ),
    Row("cuda", "core", "cuda.core's launch, arguments laid out at each", ran_on=_H200),
    Row("cuda", "graph", "a CUDA graph's node, all replayed by one launch", ran_on=_H200),
    Row("triton", "jit", "kernel[grid](…), which looks at each argument", ran_on=_H200),
    Row("triton", "bound", "the compiled kernel, past that look", ran_on=_H200),
    Row("cupy", "raw", "RawKernel", ran_on=_H200),
    Row("numba", "jit", "cuda.jit with a signature", ran_on=_H200),
    Row("numba", "njit", "a compiled function called from Python", kind="cpu", ran_on=_CPU),
    Row("torch", "op", "torch.add(…, out=…)", _ONE, ran_on=_H200),
    Row("torch", "op", "torch.add(…, out=…)", _ONE, "cpu", _CPU),
    Row("torch", "module", "the same in the forward of an nn.Module", _ONE, ran_on=_H200),
    Row("torch", "module", "the same in the forward of an nn.Module", _ONE, "cpu", _CPU),
    Row("torch", "compiled", "the same through torch.compile", _ONE, ran_on=_H200),
    Row("torch", "tensor", ".item() and torch.empty", ("item", "pool"), ran_on=_H200),
    Row("torch", "tensor", ".item() and torch.empty", ("item", "allocate"), "cpu", _CPU),
)


def rows_of(backend: str, kind: str) -> tuple[Row, ...]:
    """The rows that a backend has on a kind of device."""
    return tuple(row for row in ROWS if (row.backend, row.kind) == (backend, kind))


def variants_of(backend: str, kind: str) -> tuple[str, ...]:
    return tuple(row.variant for row in rows_of(backend, kind))


def notes(backend: str, variant: str, kind: str) -> dict[str, Any]:
    """What a result says of its row: where it has run, so that a reader knows where it has not."""
    (row,) = (row for row in rows_of(backend, kind) if row.variant == variant)
    return {"layer": row.does, "ran_on": list(row.ran_on)}


def is_launch(call: str) -> bool:
    return call in LAUNCHES


def applies(variant: str, params: Params) -> bool:
    """Whether a variant makes this call; the device's side is asked about launches only.

    A variant of somebody's own backend launches.
    """
    call = params["call"]
    if params.get("side") == "device" and not is_launch(call):
        return False
    kind = "cuda" if "side" in params else "cpu"
    makes = [row.makes for row in ROWS if (row.variant, row.kind) == (variant, kind)]
    return call in (makes[0] if makes else LAUNCHES)


def numbers(call: str) -> tuple[int, ...]:
    """The numbers that a launch passes."""
    return _NUMBERS[: LAUNCHES[call][1]]


def expected(call: str, first: int) -> int:
    """What a launch with arguments leaves in its output, as unsigned 32 bits; `first` is in[0]."""
    inputs, _ = LAUNCHES[call]
    return (inputs * first + sum(numbers(call))) % 2**32


def arguments(call: str, out: Any, source: Any) -> tuple[Any, ...]:
    """The arguments in the kernel's order, arrays as the language has them."""
    inputs, _ = LAUNCHES[call]
    return (out, *[source] * inputs, *numbers(call)) if inputs else ()


def repeated(function: Callable[..., Any], count: int, *given: Any) -> Callable[[], None]:
    """A call that calls `function` so often; a round of the loop costs some ten nanoseconds."""
    return partial(_bare, function, count) if not given else partial(_full, function, count, given)


def _bare(function: Callable[[], Any], count: int) -> None:
    for _ in itertools.repeat(None, count):
        function()


def _full(function: Callable[..., Any], count: int, given: tuple[Any, ...]) -> None:
    for _ in itertools.repeat(None, count):
        function(*given)
