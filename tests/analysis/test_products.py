"""The model of a product: large ones reach the rate, tiles and waves cost, floors hold."""

import csv
import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.analysis import products
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.primitives_tables import default_library
from pymicro.analysis.work import Product
from pymicro.devices.catalogue import catalogue

REFERENCE = Path(__file__).parents[2] / "benchmarks" / "reference" / "h200_sxm_141gb"
RATE = 1e14


def seconds(batch, m, n, k, unit="tensor", sms=100):
    held = default_library().units[unit]
    return products.seconds(Product(batch, m, n, k, "nt"), RATE, sms, held, 1e-6)


@pytest.mark.parametrize("unit", ["tensor", "vector"])
def test_a_large_product_reaches_the_rate(unit):
    flop = 2 * 16384**3
    assert flop / seconds(1, 16384, 16384, 16384, unit) > 0.95 * RATE


def test_one_tile_more_than_fills_the_device_costs_a_turn():
    # 100 tiles of 256 x 128 fill 100 SMs; 101 need another turn, of whatever tile.
    full = seconds(1, 2560, 1280, 8192)
    more = seconds(1, 2560 + 256, 1280, 8192)
    assert more > 1.15 * full


def test_a_long_sum_of_a_small_result_is_split():
    alone = 2 * 128 * 128 * 65536 / (RATE / 100)
    assert seconds(1, 128, 128, 65536) < alone / 4


@given(
    st.integers(1, 4096), st.integers(1, 4096), st.integers(16, 4096), st.sampled_from([1, 8, 96])
)
def test_no_product_is_faster_than_the_rate(m, n, k, batch):
    assert seconds(batch, m, n, k) >= 2 * batch * m * n * k / RATE * 0.999


def test_the_model_fits_the_products_that_were_timed():
    """Against products of one card: this is what the constants were found from."""
    with (REFERENCE / "operators.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["layout"] and r["dtype"] != "tf32"]
    p = primitives(catalogue()["h200_sxm_141gb"], measured=False)
    errors = []
    for row in rows:
        shape = Product(
            max(int(row["batch"]), 1), int(row["m"]), int(row["n"]), int(row["k"]), row["layout"]
        )
        unit = p.library.units[products.unit_of(row["dtype"])]
        compute_s = products.seconds(
            shape, p.flop_per_s[row["dtype"]].value, p.sm_count, unit, p.floor_s.value
        )
        memory_s = int(row["bytes"]) / p.dram_bytes_per_s.value
        model_s = products.start_s(unit, p.floor_s.value) + max(compute_s, memory_s)
        errors.append(abs(math.log(model_s / float(row["kernel_s"]))))
    assert len(rows) > 400
    assert statistics.median(errors) < 0.12
