"""Launches a second and the smallest kernel that keeps a device busy: numbers in, numbers out."""

from dataclasses import replace

import pytest
from fakes import H200, gemm_result

from pymicro.analysis import after, launches
from pymicro.report import columns


def result(
    host_s=8e-6,
    side="host",
    call="args3",
    kind="cuda",
    count=100,
    times=None,
    bus=4.8e12,
    **changes,
):
    device = (H200 | {"memory_bytes_per_s": bus}) if kind == "cuda" else {"kind": "cpu"}
    params = {"call": call, "calls": count} | ({"side": side} if kind == "cuda" else {})
    fields = {
        "benchmark": "launch", "backend": "torch", "variant": "op", "dtype": "int32", "flop": 0,
        "bytes": 0, "steps": count, "params": params,
        "times_s": tuple(times or [host_s * count] * 20),
    }  # fmt: skip
    return gemm_result(host_s, device, **(fields | changes))


def test_a_layer_feeds_what_its_calls_leave_room_for():
    (feed,) = launches.feeds([result(8e-6)])
    assert feed.launches_per_s == pytest.approx(125_000)
    assert feed.smallest_kernel_s == pytest.approx(8e-6)
    assert (feed.device_s, feed.waits_for) == (None, "host")


@pytest.mark.parametrize(
    ("host_s", "device_s", "smallest", "pace"),
    [(8e-6, 2e-6, 8e-6, "host"), (0.2e-6, 1.8e-6, 1.8e-6, "device")],
)
def test_the_slower_side_sets_the_smallest_kernel(host_s, device_s, smallest, pace):
    (feed,) = launches.feeds([result(host_s), result(device_s, "device")])
    assert feed.smallest_kernel_s == pytest.approx(smallest)
    assert feed.waits_for == pace


def test_sides_join_by_layer_and_arguments_only():
    other = result(2e-6, "device", "args16")
    another = result(3e-6, "device", variant="module")
    (feed,) = launches.feeds([other, result(8e-6), another])
    assert feed.device_s is None


def test_what_is_no_launch_or_not_ok_feeds_nothing():
    failed = result(outcome="failed", reason="x", times_s=())
    assert launches.feeds([result(call="record"), failed, gemm_result()]) == []
    assert launches.findings([gemm_result(), failed]) == []


def test_findings_on_a_gpu_say_how_much_work_a_launch_wants():
    (said,) = launches.findings([result(8e-6), result(2e-6, "device")])
    assert said.seen == (
        "torch op: this host feeds 125,000 launches a second with 3 arguments; back to back it "
        "starts one every 2.00 µs; a kernel shorter than 8.00 µs (of 36.62 MiB at the data "
        "sheet's bandwidth) leaves the GPU idle."
    )
    assert "graph" in said.do
    (said,) = launches.findings([result(0.2e-6), result(2e-6, "device")])
    assert said.do == ""


def test_a_graph_is_asked_for_as_a_whole():
    sides = [result(34e-9, variant="graph"), result(0.8e-6, "device", variant="graph")]
    (said,) = launches.findings(sides)
    assert said.seen == (
        "torch graph: a graph of 100 nodes with 3 arguments costs the host 3.40 µs a launch, "
        "34.0 ns a node; the device starts one node every 800 ns, and a kernel shorter than that "
        "leaves it idle."
    )
    (said,) = launches.findings(sides[:1])
    assert said.seen.endswith("34.0 ns a node.")


def test_findings_without_a_known_bandwidth_guess_none():
    (said,) = launches.findings([result(bus=None)])
    assert "bandwidth" not in said.seen


def test_findings_on_a_cpu_say_what_is_worth_a_call():
    (said,) = launches.findings([result(5e-6, kind="cpu")])
    assert said.seen == (
        "torch op: 200,000 calls a second with 3 arguments; work shorter than 45.0 µs loses more "
        "than a tenth of its time to the call."
    )


@pytest.mark.parametrize(("swing", "noisy"), [(0.01, False), (0.2, True)])
def test_a_noisy_host_is_said_with_its_spread(swing, noisy):
    times = [1e-3 * (1 + swing * (-1) ** i) for i in range(40)]
    found = launches.findings([result(times=times)])
    assert (found[-1].code == "launch-noisy-host") is noisy
    if noisy:
        assert found[-1].severity == "warning"
        assert "±20 %" in found[-1].seen or "±17 %" in found[-1].seen


def test_one_line_a_layer_names_all_numbers_of_arguments():
    calls = {"args0": 4e-6, "args3": 5e-6, "args16": 8e-6}
    (said,) = launches.findings([result(s, call=c, bus=None) for c, s in calls.items()])
    assert said.seen == (
        "torch op: this host feeds 250,000 / 200,000 / 125,000 launches a second with 0 / 3 / 16 "
        "arguments; a kernel shorter than 4.00 µs / 5.00 µs / 8.00 µs leaves the GPU idle."
    )


def test_looks_that_differ_are_a_noisy_host_though_each_is_quiet():
    quiet = result(details={"look_medians_s": [8.0e-4, 8.2e-4]})
    noisy = result(details={"look_medians_s": [8.0e-4, 9.8e-4]})
    assert [launches.is_noisy(r) for r in (quiet, noisy)] == [False, True]
    assert launches.spread_of(noisy) == pytest.approx(0.1011, rel=1e-3)
    assert not launches.is_noisy(replace(noisy, params={**noisy.params, "side": "device"}))


def test_a_run_with_many_noisy_rows_has_a_noisy_host_and_its_lucky_rows_say_so():
    swings = [1e-3 * (1 + 0.2 * (-1) ** i) for i in range(40)]
    lucky = result(call="args0", run_id="a")
    device = result(2e-6, "device", run_id="a")
    noisy = [result(call=call, times=swings, run_id="a") for call in ("args3", "args16")]
    other = [result(call=call, run_id="b") for call in ("args0", "args3", "record")]
    other.append(result(call="query", times=swings, run_id="b"))
    runs = launches.noisy_runs([lucky, device, *noisy, *other])
    assert runs == {"a"}
    assert launches.is_noisy(lucky, runs)
    assert not launches.is_noisy(lucky)
    assert not launches.is_noisy(device, runs)
    assert [launches.is_noisy(r, runs) for r in other] == [False, False, False, True]
    assert [row.is_noisy for row in columns.rows([lucky, *noisy, *other])] == [
        True, True, True, False, False, False, True,
    ]  # fmt: skip


def test_the_first_launch_of_each_layer_is_told_from_the_slowest_on():
    results = [
        result(details={"prepare_s": 0.001, "first_call_s": 0.0001}),
        result(call="args0", details={"prepare_s": 0.5, "first_call_s": 0.25}),
        result(variant="compiled", details={"prepare_s": 0.0, "first_call_s": 9.73}),
    ]
    (said,) = (f for f in launches.findings(results) if f.code == "launch-cold")
    assert said.seen.endswith("loaded: torch compiled 9.73 s, torch op 750 ms.")


def test_few_outliers_make_no_noisy_host():
    assert launches.spread([1.0] * 30 + [9.0] * 5) == 0


def test_findings_follow_a_benchmark():
    assert after.findings("launch", [result()])
    assert after.findings("somebody's", [gemm_result()]) == []
