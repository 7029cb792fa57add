"""PyTorch's nearest calls to the streaming operations; sums go to the first partial sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymicro.backends.base import Call, require
from pymicro.benchmark import Case
from pymicro.streams import SCALARS, passes


def why_not(case: Case) -> str | None:
    """Why torch has no single call for a case; None if it has one."""
    p = case.params
    if p.get("level", "memory") != "memory":
        return "torch does not reach the memory inside an SM."
    if p["access"] == "random":
        return "torch gathers only through an array of indices."
    if p["op"] == "dot" and case.dtype not in ("fp64", "fp32"):
        return f"torch rounds a dot product of {case.dtype} to that format."
    if p["op"] in ("scale", "triad") and case.dtype == "int8":
        return "torch scales int8 by way of wider integers."
    if passes(p) > 1:
        return "one torch call on arrays this small measures the call, not the memory."
    return None


def bind(torch: Any, case: Case, tensors: Mapping[str, Any]) -> Call:
    """A call that does the operation of a case on its arrays.

    Raises:
        Unavailable: torch has none.
    """
    require(why_not(case))
    c, s, op = tensors["c"], SCALARS[case.dtype], case.params["op"]
    a, b = tensors.get("a"), tensors.get("b")
    if case.params["access"] == "strided":
        a = a[:: case.params["stride"]][: c.numel()]
    if op in ("read", "dot"):
        return _reduction(torch, op, a, b, c)
    calls = {
        "write": lambda: c.fill_(s),
        "copy": lambda: c.copy_(a),
        "scale": lambda: torch.mul(a, s, out=c),
        "add": lambda: torch.add(a, b, out=c),
        "triad": lambda: torch.add(a, b, alpha=s, out=c),
    }
    return calls[op]


def _reduction(torch: Any, op: str, a: Any, b: Any, c: Any) -> Call:
    first, rest = c[:1].view(()), c[1:]
    cleared = False

    def total() -> None:
        nonlocal cleared
        if not cleared:  # Once is enough, since only the first entry is ever written.
            rest.zero_()
            cleared = True
        if op == "read":
            torch.sum(a, dim=0, dtype=c.dtype, out=first)
        else:
            torch.dot(a, b, out=first)

    return total
