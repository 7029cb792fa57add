"""The peak benchmark: flop counts, and that shortened, removed and wrong loops are found."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pymicro import issue, operands
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable, WrongResult
from pymicro.suite import benchmark

PEAK = benchmark("peak")
PURE = [row for row in issue.PROBES if row[0] not in issue.FEEDS]
FED = [(unit, dtype) for unit in issue.FEEDS for dtype in ("fp16", "int8")]


def drawn(unit, dtype, fill):
    p = {"unit": unit, "sms": 6 if unit in issue.FEEDS else 3}
    wanted = PEAK.operands(dtype, p)
    shapes = {o.name: o.shape[1:] if o.fill == "repeated" else o.shape for o in wanted[:-1]}
    inputs = {
        name: operands.draw(shape, DTYPES[dtype], fill, n)
        for n, (name, shape) in enumerate(shapes.items())
    }
    return inputs, wanted[-1], PEAK.reference(dtype, p, inputs)


def plain_sum(probe, inputs, thread):
    """What one thread holds, in the plainest way: element by element, step by step."""
    row = DTYPES[probe.dtype]
    wide = {k: operands.decode(v, row).astype(object) for k, v in inputs.items()}
    trips = 1 if probe.restarts else probe.trips
    if probe.unit in issue.CONTRACTING:
        return contracted(probe, wide["a"][thread])
    if probe.unit in issue.VECTOR_UNITS:
        pairs, total = wide["a"][thread], 0
        for chain in range(probe.chains):
            for step in range(probe.steps):
                a, b = pairs[step % probe.chains][0], pairs[(chain + step) % probe.chains][1]
                total += trips * sum(a * b)
        return total
    warp, lane = divmod(thread, 32)
    g, t = divmod(lane, 4)
    total, m = 0, issue.TILE[probe.unit][0]
    base = 16 * (warp % (m // 16)) if probe.unit == "wgmma" else 0
    for chain in range(probe.chains):
        for step in range(probe.steps):
            if probe.unit == "wgmma":
                k = wide["a"].shape[1] // 4
                part = slice(step % 4 * k, (step % 4 + 1) * k)
                a, b = wide["a"][:, part], wide["b"][:, part]
            else:
                a, b = wide["a"][step % 4], wide["b"][(chain + step) % probe.chains]
            for r in (base + g, base + g + 8):
                for n in range(0, b.shape[0], 8):
                    total += trips * sum(a[r] * (b[n + 2 * t] + b[n + 2 * t + 1]))
    return total


def contracted(probe, pairs):
    """Chain by chain and step by step, in fractions rounded where the unit rounds."""
    total = 0
    for element in range(len(pairs[0][0])):
        a = abs(float(pairs[0][0][element]))
        scale = 2.0 ** (-30 if probe.dtype == "fp64" else -1)
        a = math.frexp(a)[0] * 2 * scale if a else scale
        a = math.copysign(a, float(pairs[0][0][element]))
        for chain in range(probe.chains):
            x, b = Fraction(float(pairs[chain][1][element])), float(pairs[0][1][element])
            for _ in range(probe.steps * probe.trips):
                term = x if probe.dtype == "fp64" else Fraction(b)
                exact, before = x * Fraction(a) + term, x
                kind = {"fp32": np.float32, "fp16": np.float16, "fp64": np.float64}[probe.dtype]
                x = Fraction(float(kind(float(exact))))
                if x == before:
                    break
            total += x
    return total


@pytest.mark.parametrize(
    ("unit", "dtype"), [k for k in PURE if k[0] != "imad" and k != ("hfma2", "bf16")]
)
def test_references_are_those_of_the_plainest_loop(unit, dtype):
    probe = issue.PROBES[unit, dtype]
    inputs, _, reference = drawn(unit, dtype, "integers")
    for thread in (0, 37, probe.threads - 1):
        expected = float(plain_sum(probe, inputs, thread))
        rel = 1e-11 if unit == "dfma" else 1e-6 if unit == "ffma" else 1e-12
        assert reference._sums[thread] == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize(("unit", "dtype"), FED)
def test_a_fed_block_makes_its_own_tile_of_the_product(unit, dtype):
    probe, feed = issue.PROBES[unit, dtype], issue.FEEDS[unit]
    inputs, out, reference = drawn(unit, dtype, "integers")
    a, b = (operands.decode(inputs[x], DTYPES[dtype]).astype(float) for x in "ab")
    down, across = feed.grid(6)
    assert (down, across, out.shape[1]) == (3, 1, 6)
    for block in range(6):
        cluster, rank = divmod(block, 2)
        row = (cluster % down * feed.cluster[0] + rank % feed.cluster[0]) * feed.tile[0]
        column = (cluster // down * feed.cluster[1] + rank // feed.cluster[0]) * feed.tile[1]
        tile = a[row : row + feed.tile[0]] @ b[column : column + feed.tile[1]].T
        for thread in (0, 37, probe.threads - 1):
            warp, lane = divmod(thread, 32)
            held = tile[warp * 16 + lane // 4 :: 8][:2].reshape(2, -1, 4, 2)[:, :, lane % 4]
            assert reference._sums[block, thread] == held.sum()


@pytest.mark.parametrize("sms", [2, 78, 114, 132])
@pytest.mark.parametrize("unit", issue.FEEDS)
def test_a_fed_grid_has_a_place_for_every_cluster(unit, sms):
    feed = issue.FEEDS[unit]
    down, across = feed.grid(sms)
    assert down * across == sms // 2
    assert down >= across
    assert feed.rows(sms) == (
        down * feed.cluster[0] * feed.tile[0], across * feed.cluster[1] * feed.tile[1]
    )  # fmt: skip


def test_panels_that_come_from_memory_are_more_than_any_cache_holds():
    for unit, feed in issue.FEEDS.items():
        row_bytes = issue.LAP * 128
        streamed = feed.panels * feed.rows(132)[1] * row_bytes
        assert streamed > 2**28 if unit.startswith("memory") else streamed < 2**24


def test_a_multiplied_chain_is_followed_step_by_step():
    probe = issue.PROBES["imad", "int32"]
    inputs, _, reference = drawn("imad", "int32", "normal")
    pairs, total = [[int(x[0]) for x in p] for p in inputs["a"][5]], 0
    for chain in range(probe.chains):
        x = 0
        for _ in range(probe.trips):
            for step in range(probe.steps):
                x = (x * pairs[step % 4][0] + pairs[(chain + step) % 4][1]) % 2**32
        total += x - 2**32 * (x >= 2**31)
    assert reference._sums[5] == total


@pytest.mark.parametrize("fill", ["normal", "integers", "zeros"])
@pytest.mark.parametrize(("unit", "dtype"), PURE + FED)
def test_right_answers_pass_and_others_fail(unit, dtype, fill):
    _, out, reference = drawn(unit, dtype, fill)
    right = np.empty(out.shape)
    right[0], right[1] = reference._trips, reference._sums
    reference.check(right)
    spoiled = [np.full(out.shape, np.nan), right.copy()]
    spoiled[1][0, 2, 9] -= 1  # one trip fewer
    if fill != "zeros":
        spoiled.append(right.copy())
        spoiled[2][1] = 0  # the loop is gone
        spoiled.append(right.copy())
        largest = np.argmax(np.abs(right[1, 1]))
        spoiled[3][1, 1, largest] *= 1.25 if dtype == "fp8_e4m3" else 1.1
    for wrong in spoiled:
        with pytest.raises(WrongResult, match="wrong result"):
            reference.check(wrong)


def test_flop_are_those_of_the_instructions():
    assert PEAK.work("fp32", {"unit": "ffma", "sms": 2}).flop == 2 * 2 * 256 * 16 * 32 * 512
    assert PEAK.work("bf16", {"unit": "wgmma", "sms": 1}).flop == 2 * 64 * 256 * 16 * 2 * 64 * 128
    fed = PEAK.work("bf16", {"unit": "memory_192x256", "sms": 1})
    assert fed.flop == 2 * 192 * 256 * 64 * issue.LAP * issue.FEEDS["memory_192x256"].panels
    assert PEAK.work("int8", {"unit": "mma", "sms": 1}).flop == 2 * 16 * 8 * 32 * 8 * 128 * 512
    assert PEAK.work("fp32", {"unit": "avx2", "threads": 2}).flop == 2 * 3 * 2**28


@pytest.mark.parametrize("params", [{"unit": "ffma", "sms": 1}, {"unit": "wgmma", "threads": 1}])
def test_a_format_that_a_unit_lacks_is_unavailable(params):
    with pytest.raises(Unavailable, match="has no"):
        PEAK.operands("fp64", params)
