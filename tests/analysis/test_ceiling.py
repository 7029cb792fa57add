"""The ceiling of a product: which stored probes count, and what is said of it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pymicro.analysis import ceiling
from pymicro.analysis.after import findings
from pymicro.analysis.verdict import judge
from pymicro.cli.session import Session
from pymicro.issue import FEEDS
from pymicro.report import table
from pymicro.results import Result, Store, Verified

DEVICE = {"kind": "cuda", "name": "NVIDIA Some 100", "capability": "9.0", "sm_count": 132}
LIMITED = {"gpu": {"power_limit_w": 700.0}}


def result(benchmark="peak", unit="memory_192x256", rate=700e12, dtype="fp16", **other):
    params = {"unit": unit, "sms": 132} if benchmark == "peak" else {"m": 8, "n": 8, "k": 8}
    own = {
        "benchmark": benchmark, "backend": "cuda", "variant": "issue", "dtype": dtype,
        "accumulate": "fp32", "params": params, "device": DEVICE, "environment": LIMITED,
        "verified": Verified("x", 0.0, 0.0), "flop": int(1e12), "bytes": 0,
        "times_s": (1e12 / rate,) * 3, "burst_s": (), "timer": "t", "run_id": "r", "fill": "normal",
    }  # fmt: skip
    return Result(**(own | other))


def stored(*results):
    return ceiling.stored(results, DEVICE, LIMITED)


def test_the_best_fed_probe_counts_before_a_faster_one_that_moves_nothing():
    found = stored(
        result(unit="wgmma", rate=850e12),
        result(unit="memory_128x256", rate=690e12),
        result(unit="memory_192x256", rate=710e12, run_id="best"),
        result(unit="l2_192x256", rate=750e12),
    )
    assert found["fp16"]["flop_per_s"] == pytest.approx(710e12)
    assert (found["fp16"]["unit"], found["fp16"]["run_id"]) == ("memory_192x256", "best")
    assert found["fp16"]["is_fed"]


def test_where_nothing_is_fed_the_issue_alone_is_the_ceiling():
    found = stored(result(unit="ffma", dtype="fp32", rate=60e12), result(unit="mma", rate=600e12))
    assert not found["fp32"]["is_fed"]
    assert not found["fp16"]["is_fed"]


@pytest.mark.parametrize(
    "change",
    [
        {"fill": "zeros"},
        {"times_s": (), "burst_s": (0.001,)},
        {"params": {"unit": "memory_192x256", "sms": 2}},
        {"device": DEVICE | {"name": "NVIDIA Other"}},
        {"environment": {"gpu": {"power_limit_w": 400.0}}},
        {"benchmark": "gemm"},
        {"params": {"unit": "l2_192x256", "sms": 132}},
    ],
)
def test_what_says_nothing_of_this_device_under_load_does_not_count(change):
    assert stored(result(**change)) == {}
    assert ceiling.stored([result()], DEVICE | {"kind": "cpu"}, LIMITED) == {}


def test_a_product_under_load_is_held_against_it_and_a_burst_is_not():
    device = DEVICE | {"ceilings": stored(result(rate=700e12))}
    product = result("gemm", rate=665e12, device=device)
    assert judge(product).ceiling_fraction == pytest.approx(0.95)
    burst = replace(product, times_s=(), burst_s=product.times_s)
    assert judge(burst).ceiling_fraction is None
    assert judge(result(device=device)).ceiling_fraction is None
    text = table.render([product], findings("gemm", [product]))
    assert "95.0 %" in text
    assert "of ceiling is of 700.0 TFLOP/s, what memory_192x256 kept up here" in text


@pytest.mark.parametrize(
    ("dtype", "capability", "command"),
    [
        ("fp16", "9.0", "pymicro peak --dtype fp16 --unit memory_128x256,memory_192x256`"),
        ("fp16", "8.0", "pymicro peak --dtype fp16`"),
        ("fp32", "9.0", "pymicro peak --dtype fp32`"),
    ],
)
def test_a_ceiling_that_is_not_known_is_said_with_what_measures_it(dtype, capability, command):
    product = result("gemm", dtype=dtype, device=DEVICE | {"capability": capability})
    (said,) = findings("gemm", [product])
    assert command in said.do
    assert findings("gemm", [replace(product, device={"kind": "cpu", "name": "x"})]) == []


def test_a_run_keeps_the_ceilings_that_its_store_has(tmp_path, monkeypatch):
    """So that a stored product can be judged without the store it was made beside."""
    session = Session.__new__(Session)
    session._device = SimpleNamespace(kind="cuda")
    session._store = Store(tmp_path / "results.jsonl")
    monkeypatch.setattr(session, "_facts", lambda: DEVICE)
    assert session._ceilings(LIMITED) == {}
    session._store.append(result(rate=700e12))
    kept = session._ceilings(LIMITED)
    assert kept["ceilings"]["fp16"]["flop_per_s"] == pytest.approx(700e12)
    product = result("gemm", rate=665e12, device=DEVICE | kept)
    assert Result.from_json(product.to_json()).device["ceilings"] == kept["ceilings"]
    session._device = SimpleNamespace(kind="cpu")
    assert session._ceilings(LIMITED) == {}


def test_the_units_named_exist():
    assert set(ceiling._FROM_MEMORY) == {u for u in FEEDS if u.startswith("memory")}
