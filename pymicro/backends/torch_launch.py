"""What torch costs before any work: an operation, a module around it, a number fetched, memory."""

from __future__ import annotations

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
    first = a[:1]

    def add(x: Any) -> Any:
        return torch.add(x, number, out=c)

    function = {"module": _module, "compiled": _compiled}.get(case.variant, _plain)(torch, add)
    return calls.repeated(function, count, first)


def _plain(torch: Any, add: Any) -> Any:
    return add


def _module(torch: Any, add: Any) -> Any:
    class Add(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return add(x)

    return Add()


def _compiled(torch: Any, add: Any) -> Any:
    return torch.compile(add)


def _allocated(torch: Any, options: dict[str, Any]) -> None:
    torch.empty(calls.ALLOCATED_BYTES, **options)


def _fetch(a: Any) -> Any:
    item = a[0].item
    if item() != a.tolist()[0]:
        raise WrongResult("wrong result: .item() is not the number in the array.")
    return item
