"""What is said under bandwidth and latency: levels of a sweep, and why memory is slow."""

from dataclasses import replace

import pytest
from fakes import H200

from pymicro.analysis.memory import bandwidth_findings, latency_findings
from pymicro.analysis.sweeps import best_of, curves
from pymicro.results import Result
from pymicro.streams import arrays_moved
from pymicro.telemetry import Telemetry

KIB, MIB = 2**10, 2**20
DEVICE = H200 | {"memory_bytes_per_s": 4.8e12, "caches": {"L1": 256 * KIB, "L2": 60 * MIB}}


def chase(size, seconds, **params):
    params = {"size": size, "stride": 128, "where": "memory", "step": "load"} | params
    return Result(
        "latency", "cuda", "chase", "int32", outcome="ok", params=params, device=DEVICE,
        steps=65536, times_s=(seconds * 65536,) * 5, sample_sm_clock_hz=(1.98e9,) * 5,
    )  # fmt: skip


def chases(steps, **params):
    sizes = [2**n for n in range(14, 31)]
    return [chase(n, next(s for last, s in steps if n <= last), **params) for n in sizes]


LIKE_H200 = [(128 * KIB, 16.2e-9), (16 * MIB, 142e-9), (32 * MIB, 239e-9), (2**40, 346e-9)]


def test_a_sweep_names_its_levels_in_seconds_and_cycles():
    levels, l1, l2 = latency_findings(chases(LIKE_H200))
    assert levels.code == "latency-levels"
    assert "16.20 ns (32.1 cycles) from 16 KiB to 128 KiB; 142.0 ns (281.2 cycles)" in levels.seen
    assert "L1 of 256 KiB agrees: a level ends between 128 KiB and 256 KiB" in l1.seen
    assert "L2 of 60 MiB agrees: a level ends between 16 MiB and 64 MiB" in l2.seen


def test_a_cache_that_is_not_where_the_row_has_it_is_a_warning():
    found = latency_findings(chases([(128 * KIB, 16e-9), (4 * MIB, 142e-9), (2**40, 346e-9)]))
    told = [f for f in found if f.severity == "warning"]
    assert [f.code for f in told] == ["latency-cache-differs"]
    assert "L2 of 60 MiB" in told[0].seen
    assert "between 4 MiB and 8 MiB" in told[0].seen


def test_a_sweep_without_an_end_of_a_level_says_so_once():
    found = latency_findings(chases([(2**40, 500e-9)]))
    assert [f.code for f in found] == ["latency-levels", "latency-cache"]
    assert "no end of a level" in found[1].seen


def test_memory_of_the_host_is_held_against_no_cache():
    (levels,) = latency_findings(chases([(2**40, 900e-9)], where="host"))
    assert levels.code == "latency-levels"


def test_places_a_page_apart_say_nothing_of_caches():
    (levels,) = latency_findings(chases([(2**40, 500e-9)], stride=2**21 + 128))
    assert levels.code == "latency-levels"


GIB = 2**30
# A line a page, by powers of two from 16 MiB to 128 GiB and one size between the last two.
REACH = [
    (16 * MIB, 141.0e-9), (32 * MIB, 134.3e-9), (128 * MIB, 138.3e-9), (1 * GIB, 143.3e-9),
    (8 * GIB, 144.9e-9), (64 * GIB, 144.8e-9), (96 * GIB, 162.0e-9), (128 * GIB, 170.1e-9),
]  # fmt: skip


def test_a_line_a_page_shows_how_far_translations_reach():
    levels, told = latency_findings([chase(n, s, stride=2**21 + 128) for n, s in REACH])
    assert levels.code == "latency-levels"
    assert told.code == "latency-translations"
    assert told.seen.endswith(
        "translations of 64 GiB are at hand; from 96 GiB on a load takes 23.90 ns longer."
    )


def test_lines_that_leave_l2_are_no_translations():
    """At 64 KiB apart, 32 GiB have 64 MiB of lines."""
    steps = [(n, s + 150e-9 * (n >= 32 * GIB)) for n, s in REACH]
    found = latency_findings([chase(n, s, stride=2**16 + 128) for n, s in steps])
    assert [f.code for f in found] == ["latency-levels"]


def test_what_pairs_of_sms_receive_is_not_taken_for_what_l2_sends():
    alone = [stream(n, 9.1e12, "read") for n in range(20 * MIB, 40 * MIB, 4 * MIB)]
    pairs = [stream(n, 16.6e12, "read") for n in range(20 * MIB, 40 * MIB, 4 * MIB)]
    found = bandwidth_findings([*alone, *(replace(r, variant="shared") for r in pairs)])
    levels = [f.seen for f in found if f.code == "bandwidth-levels"]
    assert [seen.partition(" from")[0] for seen in levels] == [
        "read fp32: 9.100 TB/s", "read by pairs of SMs fp32: 16.60 TB/s",
    ]  # fmt: skip


def test_atomics_are_done_in_l2_and_show_no_l1():
    found = latency_findings(chases(LIKE_H200[1:], step="atomic"))
    assert not any("L1" in f.seen for f in found)


ONE_PART = {"l2_cycles": 212.4, "l2_least_cycles": 205.0, "l2_most_cycles": 219.6}
TWO_PARTS = ONE_PART | {
    "l2_other_part_cycles": 388.0,
    "memory_near_cycles": 535.0,
    "memory_far_cycles": 716.0,
}


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (ONE_PART, "L2 hits take 212 cycles, 205 to 220 from SM to SM."),
        (
            TWO_PARTS,
            "L2 hits take 212 cycles, 205 to 220 from SM to SM; 388 where only the other part of "
            "L2 has the line. Memory takes 535 cycles behind an SM's own part and 716 behind the "
            "other.",
        ),
    ],
)
def test_parts_of_l2_are_told_once(details, said):
    probed = [replace(r, details=details) for r in chases(LIKE_H200)]
    told = [f.seen for f in latency_findings(probed) if f.code == "latency-l2-partitions"]
    assert told == [said]


def test_a_few_sizes_say_nothing():
    assert latency_findings(chases(LIKE_H200)[:4]) == []


def stream(size, rate, op="copy", **changes):
    work = arrays_moved(op) * size
    params = {"op": op, "size": size, "level": "memory", "access": "sequential", "sms": 132}
    fields = {
        "outcome": "ok", "params": params, "device": DEVICE, "bytes": work,
        "times_s": (work / rate,) * 5, "details": {"passes": 1},
    }  # fmt: skip
    return Result("bandwidth", "cuda", "fastest", "fp32", **(fields | changes))


def test_a_sweep_of_rates_names_levels_and_the_shared_cache():
    rates = [(2**n, 9.9e12 if 2**n <= 8 * MIB else 4.3e12) for n in range(20, 31)]
    found = bandwidth_findings([stream(n, r) for n, r in rates])
    assert [f.code for f in found] == ["bandwidth-levels", "bandwidth-cache-differs"]
    assert "copy fp32: 9.900 TB/s from 2 MiB to 16 MiB; 4.300 TB/s from 32 MiB" in found[0].seen
    rates = [(2**n, 9.9e12 if 2**n <= 16 * MIB else 4.3e12) for n in range(20, 31)]
    found = bandwidth_findings([stream(n, r) for n, r in rates])
    assert [f.code for f in found] == ["bandwidth-levels", "bandwidth-cache"]


def test_the_best_of_all_backends_makes_one_curve():
    ours = [stream(2**n, 4e12) for n in range(20, 28)]
    theirs = [replace(r, backend="torch", times_s=(r.times_s[0] * f,) * 5)
              for r, f in zip(ours, [0.5, 2] * 4, strict=True)]  # fmt: skip
    (best,) = best_of(curves([*ours, *theirs]))
    assert [s.value for s in best.spots] == pytest.approx([8e12, 4e12] * 4)
    assert len(curves([*ours, *theirs])) == 2


SLOW = 0.70 * 4.8e12


def slow(**changes):
    found = bandwidth_findings([stream(2**30, SLOW, **changes)])
    return [f for f in found if f.code == "bandwidth-slow"]


def test_memory_as_fast_as_usual_is_no_finding():
    assert bandwidth_findings([stream(2**30, 0.80 * 4.8e12)]) == []


def test_slow_memory_without_a_cause_says_so():
    (found,) = slow()
    assert "copy: 70.0 % of the bus" in found.seen
    assert "No cause was seen" in found.seen


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {
                "telemetry": Telemetry(memory_clock_hz=1.6e9),
                "environment": {"gpu": {"max_memory_clock_hz": 3.201e9}},
            },
            "the memory clock was 1.600 GHz of 3.201 GHz",
        ),
        ({"telemetry": Telemetry(limits=("power_cap", "hw_slowdown"))}, "power cap and hw slow"),
        (
            {
                "device": DEVICE | {"memory_type": "GDDR6"},
                "environment": {"gpu": {"is_ecc_enabled": True}},
            },
            "ECC is on, and GDDR6",
        ),
        ({"environment": {"gpu": {"other_processes": 2}}}, "2 other process"),
        ({"environment": {"gpu": {"is_mig_partition": True}}}, "MIG partition"),
        ({"environment": {"gpu": {"virtualization": "vgpu"}}}, "slice of a card (vgpu)"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_the_cause_of_slow_memory_is_named_where_it_was_seen(changes, said):
    (found,) = slow(**changes)
    assert said in found.seen
    assert "No cause" not in found.seen


def test_ecc_of_hbm_costs_no_bandwidth_and_is_no_cause():
    device = DEVICE | {"memory_type": "HBM3e"}
    (found,) = slow(device=device, environment={"gpu": {"is_ecc_enabled": True}})
    assert "No cause was seen" in found.seen


def test_small_arrays_and_few_sms_are_causes():
    (found,) = [f for f in bandwidth_findings([stream(2**26, SLOW)]) if "slow" in f.code]
    assert "part of it the launch" in found.seen
    params = stream(2**30, SLOW).params | {"sms": 16}
    (found,) = slow(params=params)
    assert "only 16 of 132 SMs" in found.seen
