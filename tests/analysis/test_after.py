"""What is said under any benchmark's table."""

import pytest
from fakes import gemm_result

from pymicro.analysis.after import unsteady


def row(far_s, **device):
    return gemm_result(device={"kind": "cpu", "name": "a CPU"} | device, times_s=(1e-3, far_s) * 10)


@pytest.mark.parametrize(
    ("far_s", "kind", "codes"),
    [(1e-3, "cpu", []), (1.05e-3, "cpu", []), (2e-3, "cpu", ["unsteady"]), (2e-3, "cuda", [])],
)
def test_wide_intervals_of_a_cpu_are_said_once(far_s, kind, codes):
    found = unsteady([row(far_s, kind=kind), row(far_s, kind=kind)])
    assert [f.code for f in found] == codes
    assert all("2 of 2 rows" in f.seen for f in found)
