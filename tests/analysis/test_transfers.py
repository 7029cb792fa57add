"""Findings from results of transfers that nobody made."""

import pytest
from fakes import H200, gemm_result

from pymicro.analysis import after, transfers
from pymicro.analysis.verdict import is_from_memory, judge
from pymicro.telemetry import Telemetry

SIZES = (2**12, 2**20, 2**28)


def result(size, rate=55e9, t0_s=5e-6, path="h2d", host="pinned", pcie=(5, 16), most=(5, 16)):
    seconds = t0_s + size / rate
    return gemm_result(
        seconds,
        benchmark="transfer",
        backend="cuda",
        variant="engine",
        dtype="int32",
        flop=0,
        bytes=size,
        params={"path": path, "host": host, "size": size},
        device=H200 | {"memory_bytes_per_s": 4.8e12},
        telemetry=Telemetry(pcie=pcie) if pcie else None,
        environment={"gpu": {"pcie_max": list(most)}} if most else {"gpu": None},
    )


def sweep(**changes):
    return [result(size, **changes) for size in SIZES]


def test_a_sweep_becomes_a_line():
    (said,) = transfers.findings(sweep())
    assert said.seen == (
        "cuda engine h2d pinned: 5.00 µs + n / 55.00 GB/s; half of the rate from 268.6 KiB on, "
        "within 0 % at every size."
    )
    assert after.findings("transfer", sweep()) == [said]


def test_kinds_of_copies_do_not_mix():
    found = transfers.fits(sweep() + sweep(host="pageable", rate=8e9) + sweep(path="d2h")[:2])
    assert {kind[2:] for kind in found} == {("h2d", "pinned"), ("h2d", "pageable")}


def codes(results):
    return [f.code for f in transfers.findings(results) if f.code != "transfer-line"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"pcie": (3, 16), "rate": 12.5e9}, ["link-generation"]),
        ({"pcie": (5, 8), "rate": 26e9}, ["link-width"]),
        ({"rate": 20e9}, ["link-slow"]),
        ({"rate": 80e9}, ["link-impossible"]),
        ({"host": "pageable", "rate": 8e9}, []),
        ({"path": "both", "rate": 30e9}, []),
        ({"pcie": None, "rate": 20e9}, []),
        ({"most": None}, []),
    ],
)
def test_the_link_is_judged_by_large_pinned_copies_only(changes, expected):
    assert codes(sweep(**changes)) == expected


def test_small_copies_alone_accuse_nobody():
    assert codes([result(2**12), result(2**14), result(2**16)]) == []


def test_times_that_do_not_grow_make_no_line():
    assert transfers.findings([result(2**12, t0_s=1.0 - n / 100) for n in range(3)]) == []
    assert (
        transfers.fits([result(s, t0_s=1 - s / 2**20, rate=1e12) for s in (2**10, 2**12, 2**14)])
        == {}
    )


def test_a_link_is_not_held_against_the_memory_bus():
    assert not is_from_memory(result(2**28))
    assert judge(result(2**28)).peak is None
    assert is_from_memory(result(2**28, path="d2d"))
