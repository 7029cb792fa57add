"""What stored collectives tell: bus bandwidth, a line, and the primitive that jobs rest on."""

import pytest
from fakes import H200, gemm_result

from pymicro.analysis import after, collectives, primitives_sources
from pymicro.analysis.cases import case
from pymicro.analysis.predict import predict
from pymicro.analysis.recommend import several
from pymicro.analysis.verdict import judge
from pymicro.devices.catalogue import catalogue


def collective(size=2**30, seconds=4e-3, ranks=8, op="all-reduce", link="nvlink", **changes):
    factor = (2 if op == "all-reduce" else 1) * (ranks - 1) / ranks
    return gemm_result(
        benchmark="collective", backend="torch", variant="nccl", dtype="fp32", flop=0, bytes=size,
        params={"op": op, "size": size, "ranks": ranks, "link": link}, times_s=(seconds,) * 9,
        details={"bus_factor": factor}, **changes,
    )  # fmt: skip


def test_bus_bandwidth_is_what_a_ranks_link_carries():
    assert collectives.bus_bytes_per_s(collective()) == pytest.approx(2**30 / 4e-3 * 1.75)
    gathered = collective(op="all-gather")
    assert collectives.bus_bytes_per_s(gathered) == pytest.approx(2**30 / 4e-3 * 0.875)


def test_a_line_for_each_operation():
    sizes = [2**12, 2**20, 2**30]
    found = [collective(size, 20e-6 + size / 250e9) for size in sizes]
    one, other = after.findings("collective", [*found, collective(op="all-gather")])
    assert one.seen.startswith("all-reduce over 8 ranks by nccl (nvlink): bus bandwidth 435 GB/s")
    assert "20.0 µs + n / 250 GB/s" in one.seen
    assert "µs" not in other.seen


def test_no_memory_bus_bounds_a_collective():
    device = H200 | {"memory_bytes_per_s": 1e9}
    assert judge(collective(device=device)).peak is None


def test_stored_all_reduces_stand_before_print():
    h200 = catalogue()["h200_sxm_141gb"]
    printed = primitives_sources.primitives(h200).allreduce_bytes_per_s
    assert printed["nvlink"].kind == "published"
    stored = [
        collective(2**28, 1.2e-3), collective(2**30, 4.2e-3), collective(2**30, 3e-3, ranks=4),
        collective(2**20, 1.0), collective(2**30, 1.0, op="all-gather"),
        collective(2**30, 1.0, link="network"),
    ]  # fmt: skip
    found = primitives_sources.primitives(h200, stored).allreduce_bytes_per_s
    assert found["nvlink"].kind == "measured"
    assert found["nvlink"].value == pytest.approx(2**30 / 4.2e-3 * 1.75)
    assert "8 ranks" in found["nvlink"].source
    assert found["pcie"] == printed["pcie"]
    assert "network" not in found


def test_a_job_on_several_cards_rests_on_what_was_measured():
    job, h200 = case("bert-large", precision="amp_fp16", batch=8), catalogue()["h200_sxm_141gb"]

    def summed(stored):
        known = primitives_sources.primitives(h200, stored, measured=bool(stored))
        return several(job, known, predict(job, known), 8).allreduce_s

    slow, fast = summed([collective(2**30, 40e-3)]), summed([])
    assert (slow.kind, fast.kind) == ("measured", "published")
    assert slow.value > 5 * fast.value
