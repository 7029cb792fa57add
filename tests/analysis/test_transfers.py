"""Findings from results of transfers that nobody made."""

from dataclasses import replace

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
    said, state = transfers.findings(sweep())
    assert said.seen == (
        "cuda engine h2d pinned: 5.00 µs + n / 55.00 GB/s; half of the rate from 268.6 KiB on, "
        "within 0 % at every size."
    )
    assert state.code == "link-state"
    assert after.findings("transfer", sweep()) == [said, state]


def test_kinds_of_copies_do_not_mix():
    found = transfers.fits(sweep() + sweep(host="pageable", rate=8e9) + sweep(path="d2h")[:2])
    assert {kind[2:] for kind in found} == {("h2d", "pinned"), ("h2d", "pageable")}


def codes(results):
    infos = ("transfer-line", "link-state")
    return [f.code for f in transfers.findings(results) if f.code not in infos]


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


def seen(code, results):
    return [f.seen for f in transfers.findings(results) if f.code == code]


def test_the_state_of_the_link_is_said_with_the_best_rates():
    results = [*sweep(), *sweep(path="d2h", rate=50e9), *sweep(path="d2h-busy", rate=70e9)]
    (said,) = seen("link-state", results)
    assert said.startswith("cuda:0: PCIe gen 5 x16 under load (the card offers gen 5 x16); h2d 54")
    assert "d2h 50.0 of 57.6 GB/s" in said
    assert "busy" not in said


def with_facts(size=2**28, index=0, rate=55e9, replays=None, **details):
    made = result(size, rate)
    telemetry = replace(made.telemetry, pcie_replays=replays)
    gpu = {"pcie_max": [4, 16], "pcie_card_generation": 5, "nvlinks": {"up": 17, "of": 18}}
    told = {"device_index": index, "gpu_numa_node": 1, "host_numa_node": 1} | details
    return replace(made, telemetry=telemetry, environment={"gpu": gpu}, details=told)


def test_what_nvml_and_the_system_tell_is_judged():
    quiet = [with_facts(replays=4), with_facts(replays=4)]
    assert codes(quiet) == ["link-nvlink-down"]
    assert codes([*quiet, with_facts(replays=9)]) == ["link-nvlink-down", "link-replays"]
    assert codes([with_facts(host_numa_node=0)]) == ["link-nvlink-down", "link-far-node"]
    asked = with_facts(host_numa_node=0)
    asked = replace(asked, params={**asked.params, "node": 0})
    assert codes([asked]) == ["link-nvlink-down"]  # That memory was asked for.


def test_a_slot_below_the_card_is_no_fault_of_the_card():
    made = replace(with_facts(rate=27e9), telemetry=Telemetry(pcie=(4, 16)))
    (said,) = (f for f in transfers.findings([made]) if f.code == "link-generation")
    assert said.severity == "info"
    assert "the slot 4" in said.seen


def test_one_card_of_four_that_is_slow_stands_out():
    results = [with_facts(index=i, rate=20e9 if i == 2 else 55e9) for i in range(4)]
    assert "link-outlier" in codes(results)
    assert seen("link-state", results)[2].startswith("cuda:2")


def peers(count, offered, size=2**28, path="p2p"):
    made = []
    for a in range(count):
        for b in range(count):
            if a != b:
                why = None if offered(a, b) else "the chipset does not support it."
                details = {"peer_access": why is None, "why_no_peer": why}
                one = result(size, rate=4e11 if why is None else 2e10, pcie=None)
                params = {"path": path, "pair": f"{a}-{b}", "size": size}
                made.append(replace(one, params=params, details=details))
    return made


@pytest.mark.parametrize("count", [2, 4, 8])
def test_all_pairs_are_a_matrix_of_the_largest_copies(count):
    results = [
        *peers(count, lambda a, b: a // 2 == b // 2),
        *peers(count, lambda a, b: True, 2**20),
    ]
    (table,) = seen("transfer-matrix", results)
    head, numbers, *rows = table.splitlines()
    assert head == "engine p2p 256 MiB, GB/s from row to column:"
    assert numbers.split() == [str(i) for i in range(count)]
    for a, row in enumerate(rows):
        expected = [
            "-" if a == b else "397.0" if a // 2 == b // 2 else "20.0" for b in range(count)
        ]
        assert row.split() == [str(a), *expected]


def test_directions_without_access_are_said_once():
    (said,) = seen("link-no-peer-access", peers(4, lambda a, b: a // 2 == b // 2))
    assert said.startswith("8 of 12 directions have no peer access")
    assert seen("link-no-peer-access", peers(4, lambda a, b: True)) == []


def test_pairs_have_lines_of_their_own():
    results = [r for n in SIZES for r in peers(2, lambda a, b: True, n)]
    assert {kind[3] for kind in transfers.fits(results)} == {"0-1", "1-0"}


def test_a_link_is_not_held_against_the_memory_bus():
    assert not is_from_memory(result(2**28))
    assert judge(result(2**28)).peak is None
    assert is_from_memory(result(2**28, path="d2d"))
