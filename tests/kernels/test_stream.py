"""The table of bandwidth operations that all languages share."""

from __future__ import annotations

import pytest

from pymicro.kernels.stream import ROLES, SUMS, operands

ARRAYS = {name: name for name in ("a", "b", "c", "out")}


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("write", ("a", "a", "a")), ("copy", ("a", "a", "c")), ("scale", ("c", "c", "b")),
        ("add", ("a", "b", "c")), ("triad", ("b", "c", "a")), ("read", ("a", "a", "out")),
        ("dot", ("a", "b", "out")),
    ],
)  # fmt: skip
def test_operands_are_babelstream_s(operation, wanted):
    assert operands(operation, ARRAYS) == wanted


def test_sums_are_the_operations_that_fill_out():
    assert tuple(name for name, role in ROLES.items() if role[2] == "out") == SUMS
