"""What torch costs before any work: an operation, a module around it, a number fetched, memory."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from pymicro import calls
from pymicro.backends.base import Call
from pymicro.benchmark import Case
from pymicro.errors import WrongResult


def bind(torch: Any, case: Case, a: Any, c: Any) -> Call:
    """The call of a case: an operation leaves a[0] + n in c[0].

    Raises:
        WrongResult: a fetched number is not the one in the array.
    """
    count, asked = case.params["calls"], case.params["call"]
    if asked == "item":
        return calls.repeated(_fetch(a), count)
    if not calls.is_launch(asked):
        options = {"dtype": torch.uint8, "device": a.device}
        return calls.repeated(lambda: _allocated(torch, options), count)
    (number,) = calls.numbers(asked)
    function = _MAKERS[case.variant](torch, number)
    return calls.repeated(function, count, a[:1], c)


def _plain(torch: Any, number: int) -> Any:
    def add(x: Any, out: Any) -> Any:
        return torch.add(x, number, out=out)

    return add


def _module(torch: Any, number: int) -> Any:
    class Add(torch.nn.Module):
        def forward(self, x: Any, out: Any) -> Any:
            return torch.add(x, number, out=out)

    return Add()


@cache
def _compiled(torch: Any, number: int) -> Any:
    """Made once, as a program would; in this process, since for one kernel a pool of compilers
    takes longer to start than to do its work."""
    with contextlib.suppress(ImportError, AttributeError):
        config: Any = importlib.import_module("torch._inductor.config")
        config.compile_threads = 1
    return torch.compile(_plain(torch, number))


_MAKERS: dict[str, Callable[[Any, int], Any]] = {
    "op": _plain,
    "module": _module,
    "compiled": _compiled,
}


def _allocated(torch: Any, options: dict[str, Any]) -> None:
    torch.empty(calls.ALLOCATED_BYTES, **options)


def _fetch(a: Any) -> Any:
    item = a[0].item
    if item() != a.tolist()[0]:
        raise WrongResult("wrong result: .item() is not the number in the array.")
    return item
