"""TF32 is a permission: it makes no job slower, on no card, and how much faster has a reason."""

import pytest

from pymicro.analysis.cases import case
from pymicro.analysis.durations import Clock
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.simulate import simulate
from pymicro.analysis.work import Product, Work
from pymicro.devices.catalogue import catalogue
from pymicro.errors import Unavailable
from tests.analysis.devices import device, value

JOBS = (
    ("distilbert", {}),
    ("distilbert", {"batch": 1, "length": 37}),
    ("bert-base", {"attention": "eager"}),
    ("t5-large", {}),
    ("t5-large", {"batch": 1, "beams": 1}),
    ("gpt2", {}),
)


def known() -> list[Primitives]:
    found = []
    for spec in catalogue().values():
        for measured in (False, True):
            try:
                p = primitives(spec, measured=measured)
            except Unavailable:
                continue
            if p.peak_flop_per_s.get("tf32"):
                found.append(p)
    return found


@pytest.mark.parametrize(("model", "given"), JOBS)
def test_no_job_is_slower_with_tf32_than_without_on_any_card(model, given):
    plain, allowed = (case(model, precision=p, **given) for p in ("fp32", "tf32"))
    cards = known()
    assert len(cards) > 30
    for p in cards:
        without_s = simulate(plain.program, p, plain.config).seconds
        with_s = simulate(allowed.program, p, allowed.config).seconds
        assert with_s <= without_s * 1.001, p.name


def work(m=4096, n=1024, k=1024, layout="nt"):
    shape = Product(1, m, n, k, layout)
    moved = 4 * (m * k + n * k + m * n)
    return Work("mm", "product", "float32", 2 * m * n * k, moved, product=shape)


def test_where_the_matrix_unit_wins_nothing_the_vector_unit_is_kept():
    fast, slow = device(), device(flop_per_s={**device().flop_per_s, "tf32": value(30e12)})
    assert Clock(fast, tf32=True).of(work()).path == "tf32"
    assert Clock(slow, tf32=True).of(work()).path == "fp32"
    assert Clock(slow, tf32=True).of(work()).seconds == Clock(slow).of(work()).seconds
    # What was measured with TF32 allowed is taken as it is.
    timed = device(flop_per_s=slow.flop_per_s, product_s={("tf32", work().product): value(1.0)})
    assert Clock(timed, tf32=True).of(work()).seconds == pytest.approx(1.0)


def test_a_vector_times_a_matrix_is_read_by_the_kernels_of_fp32():
    p = device()
    for m, path in ((1, "fp32"), (2, "tf32")):
        # Long enough that the rate decides.
        assert Clock(p, tf32=True).of(work(m, 8192, 8192)).path in (path, "fp32")
    assert Clock(p, tf32=True).of(work(1)).seconds == Clock(p).of(work(1)).seconds


def test_turning_operands_costs_a_fast_unit_more_than_a_slow_one():
    lost = []
    for key in ("rtx_3090", "h200_sxm_141gb"):
        clock = Clock(primitives(catalogue()[key], measured=False), tf32=True)
        seconds = [clock.of(work(8192, 8192, 8192, layout)).seconds for layout in ("nt", "tn")]
        lost.append(1 - seconds[0] / seconds[1])
    assert 0 < lost[0] < 0.5 * lost[1]


def test_a_format_out_of_print_takes_the_cards_own_share_in_kindred_ones():
    """Formats of one unit share its power: what holds a card back does so in all of them."""
    shares = {}
    for key in ("rtx_3090", "a10"):
        p = primitives(catalogue()[key], measured=False)
        of_fp16 = p.flop_per_s["fp16"].value / p.peak_flop_per_s["fp16"]
        shares[key] = p.flop_per_s["tf32"].value / p.peak_flop_per_s["tf32"] / of_fp16
        assert "own share" in p.flop_per_s["tf32"].source
        assert p.flop_per_s["fp16"].kind == "published"
    assert shares == pytest.approx({"rtx_3090": 1.0, "a10": 1.0}, abs=0.1)
