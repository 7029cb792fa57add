"""Comparisons of cards: ratios of like with like, kinds apart, and a reason where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import H200, RTX_4090, gemm_result

from pymicro.analysis.compare import METRICS, Wish, compare, metrics
from pymicro.analysis.figures import Figure, Subject, ratio
from pymicro.analysis.in_print import _MOST_REASONS, _few
from pymicro.devices.catalogue import catalogue
from pymicro.devices.published import published
from pymicro.errors import UsageError

SPECS = catalogue()
RATES = {"gemm": "flop_per_s"}


def card(key, *results, **changes):
    return Subject(SPECS[key].name, SPECS[key], tuple(results), **changes)


def run(name, *results):
    spec = SPECS.get(results[0].device.get("key"))
    return Subject(name, spec, tuple(results), True)


def lines(subjects, metric, kind, dtypes=None, **wish):
    found = compare(subjects, Wish((metric,), dtypes, rates=RATES, **wish))
    return [line for line in found.lines if line.kind == kind]


def one_ratio(a, b, metric, what, dtypes=None):
    (line,) = (x for x in lines([card(a), card(b)], metric, "data sheet", dtypes) if x.what == what)
    return line.ratios[0].value


@pytest.mark.parametrize(
    ("a", "b", "metric", "what", "dtype", "value"),
    [
        ("h100_sxm5_80gb", "rtx_4090", "bandwidth", "DRAM", None, 3352 / 1008),
        ("h100_pcie_80gb", "rtx_4090", "bandwidth", "DRAM", None, 2039 / 1008),
        ("h100_nvl_94gb", "rtx_4090", "bandwidth", "DRAM", None, 3900 / 1008),
        ("h100_pcie_80gb", "rtx_4090", "gemm", "dense peak", "fp32", 51.2 / 82.6),
        ("h100_pcie_80gb", "rtx_4090", "gemm", "dense peak", "tf32", 378 / 82.6),
        ("rtx_5090", "rtx_4090", "gemm", "dense peak", "fp16", 209.5 / 165.2),
        ("h100_sxm5_80gb", "t4", "power", "power limit", None, 10.0),
    ],
)
def test_ratios_of_data_sheets(a, b, metric, what, dtype, value):
    found = one_ratio(a, b, metric, what, (dtype,) if dtype else None)
    assert found == pytest.approx(value, rel=2e-3)
    assert one_ratio(b, a, metric, what, (dtype,) if dtype else None) == pytest.approx(1 / found)


def test_a_name_with_variants_shows_them_all_on_paper():
    h100 = card("h100_sxm5_80gb", alternatives=(SPECS["h100_pcie_80gb"], SPECS["h100_nvl_94gb"]))
    found = lines([h100, card("rtx_4090")], "bandwidth", "data sheet")
    dram = [x for x in found if x.what.startswith("DRAM")]
    assert [round(x.ratios[0].value, 2) for x in dram] == [3.33, 2.02, 3.87]
    assert [x.alternative for x in dram] == [False, True, True]
    assert "PCIe" in dram[1].what
    assert "NVL" in dram[2].what


@pytest.mark.parametrize(("key", "rate"), [("rtx_4090", 165.2e12), ("rtx_5090", 209.5e12)])
def test_fp16_is_the_rate_that_sums_into_fp32_and_says_so(key, rate):
    (line,) = lines([card(key), card("l4")], "gemm", "data sheet", ("fp16",))
    assert line.figures[0].value == pytest.approx(rate, rel=1e-3)
    assert any("sums into FP32; into FP16" in note for note in line.figures[0].notes)
    assert line.figures[1].notes == ()  # This card sums into both at one rate.


def test_a_rate_of_the_vector_unit_is_said_to_be_one():
    (line,) = lines([card("quadro_p6000"), card("l4")], "gemm", "data sheet", ("fp16",))
    assert any("no matrix unit" in note for note in line.figures[0].notes)


def test_what_a_card_lacks_is_no_zero():
    found = lines([card("h100_sxm5_80gb"), card("rtx_4090")], "transfer", "data sheet")
    (line,) = (x for x in found if x.what.startswith("NVLink"))
    assert line.figures[1] is None
    assert line.ratios == (None,)
    assert "none" in line.why_not[0]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("pair", [("h100_sxm5_80gb", "rtx_4090"), ("rtx_5090", "rtx_4090")])
def test_every_line_holds_one_kind_and_a_ratio_or_a_reason(metric, pair):
    subjects = [card(key) for key in pair]
    wish = Wish((metric,), prices=(2.0, 1.0), rates=RATES)
    for line in compare(subjects, wish).lines:
        assert len(line.figures) == 2
        assert len(line.ratios) == 1
        if line.ratios[0] is None:
            assert line.why_not, line
        else:
            found = line.ratios[0]
            assert found.low <= found.value <= found.high
            assert None not in line.figures
        origins = [o for f in line.figures if f for o in f.origin]
        assert origins, "every number can be traced"


def test_published_ratios_span_all_pairs_of_like_figures():
    found = lines([card("h100_sxm5_80gb"), card("rtx_4090")], "gemm", "published", ("fp16",))
    (line,) = (x for x in found if "8192x8192x8192" in x.what)
    ours, theirs = (
        [
            r.value
            for r in published()
            if r.key == key and r.metric.name == "gemm_tflops" and r.dtype == "fp16"
            and r.size == "8192x8192x8192"
        ]
        for key in ("h100_sxm5_80gb", "rtx_4090")
    )  # fmt: skip
    assert (line.figures[0].low, line.figures[0].high) == (min(ours), max(ours))
    assert line.figures[0].count == len(ours) > 1
    assert line.ratios[0].low == pytest.approx(min(ours) / max(theirs))
    assert line.ratios[0].high == pytest.approx(max(ours) / min(theirs))
    assert line.ratios[0].pairs == len(ours) * len(theirs)


def test_other_sizes_and_the_best_of_many_get_no_ratio_but_a_reason():
    found = lines([card("h100_pcie_80gb"), card("rtx_4090")], "gemm", "published", ("tf32",))
    lonely = [x for x in found if x.ratios[0] is None]
    assert lonely
    assert any("best of many or one" in why for x in lonely for why in x.why_not)
    forced = lines([card("l4"), card("rtx_5090")], "gemm", "published", ("bf16",), force=True)
    assert any(x.ratios[0] and x.ratios[0].forced for x in forced)


def test_a_figure_that_fits_in_the_cache_makes_no_ratio(monkeypatch):
    """A copy of 16 MiB on a card with 72 MiB of L2 is no figure of DRAM."""
    from pymicro.analysis import in_print

    base = next(r for r in published() if r.metric.name == "dram_copy_gbps")
    source = replace(base, dtype="fp32", fill=None, sustained=None, searched=False)
    small = replace(source, key="rtx_4090", value=3868e9, bytes_touched=16 * 2**20, size="16 MiB")
    large = replace(source, key="l4", value=260e9, bytes_touched=2**30, size="1 GiB")
    monkeypatch.setattr(in_print, "published", lambda: (small, large))
    (line,) = lines([card("rtx_4090"), card("l4")], "bandwidth", "published")
    assert line.ratios == (None,)
    assert any("L2 cache" in why for why in line.why_not)
    monkeypatch.setattr(
        in_print, "published", lambda: (replace(small, value=9e11, bytes_touched=2**30), large)
    )
    (line,) = lines([card("rtx_4090"), card("l4")], "bandwidth", "published")
    assert line.ratios[0].value == pytest.approx(900 / 260)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"accumulate": "fp16"}, "accumulators"),
        ({"fill": "zeros"}, "contents"),
        ({"sustained": False}, "burst or sustained"),
        ({"searched": True}, "best of many"),
        ({"size": "512x512x512"}, "sizes"),
    ],
)
def test_published_figures_made_otherwise_are_told_apart(monkeypatch, change, word):
    from pymicro.analysis import in_print

    base = next(r for r in published() if r.metric.name == "gemm_tflops")
    a = replace(
        base, key="rtx_4090", dtype="fp16", accumulate="fp32", fill="random", sustained=True,
        searched=False, size="4096x4096x4096", value=150e12, bytes_touched=None,
    )  # fmt: skip
    b = replace(a, key="l4", value=50e12, **change)
    monkeypatch.setattr(in_print, "published", lambda: (a, b))
    found = lines([card("rtx_4090"), card("l4")], "gemm", "published", ("fp16",))
    assert all(x.ratios == (None,) for x in found)
    said = [why for x in found for why in x.why_not]
    if word != "accumulators":  # Another accumulator is another quantity, with a line of its own.
        assert any(word in why for why in said), said
    monkeypatch.setattr(in_print, "published", lambda: (a, replace(a, key="l4", value=50e12)))
    (line,) = lines([card("rtx_4090"), card("l4")], "gemm", "published", ("fp16",))
    assert line.ratios[0].value == pytest.approx(3)


def test_cards_are_compared_by_their_stored_results_too():
    ours = gemm_result(1e-3), gemm_result(2e-3, backend="triton", variant="blocked")
    theirs = gemm_result(4e-3, RTX_4090, params=ours[0].params | {"path": "sm89"})
    subjects = [card("h200_sxm_141gb", *ours), card("rtx_4090", theirs)]
    found = lines(subjects, "gemm", "measured")
    (line,) = found  # The cases differ in their path, so only the best of backends is joined.
    assert "best backend" in line.what
    assert line.ratios[0].value == pytest.approx(4)
    assert line.topic == "gemm fp16"


def test_bandwidth_and_latency_of_two_cards():
    """Another number of SMs is another way to do the same; less is better for a latency."""
    rates = {"bandwidth": "bytes_per_s", "latency": "s_per_step"}

    def both(device, sms, seconds):
        size = {"size": 2**30, "level": "memory"}
        return (
            gemm_result(
                seconds, device, benchmark="bandwidth", flop=0, bytes=2**31,
                params=size | {"op": "copy", "sms": sms},
            ),
            gemm_result(
                seconds, device, benchmark="latency", flop=0, bytes=0, steps=1000, params=size
            ),
        )  # fmt: skip

    subjects = [
        card("h200_sxm_141gb", *both(H200, 132, 1e-3)),
        card("rtx_4090", *both(RTX_4090, 128, 4e-3)),
    ]
    found = compare(subjects, Wish(("bandwidth", "latency"), rates=rates)).lines
    best = {x.topic: x for x in found if x.kind == "measured" and "best backend" in x.what}
    assert best["bandwidth"].ratios[0].value == pytest.approx(4)
    assert (best["bandwidth"].unit, best["bandwidth"].better) == ("B/s", "more")
    assert best["latency"].ratios[0].value == pytest.approx(1 / 4)
    assert (best["latency"].unit, best["latency"].better) == ("s", "less")
    assert best["latency"].figures[0].value == pytest.approx(1e-6)


def test_runs_join_on_the_whole_key_whatever_their_order():
    small = gemm_result(
        5e-5, params={"m": 512, "n": 512, "k": 512, "layout": "nt"}, flop=2 * 512**3
    )
    other = gemm_result(3e-3, backend="cupy")
    a = run("a", gemm_result(1e-3), small, other)
    b = run("b", replace(small, times_s=(1e-4,) * 9), replace(gemm_result(2e-3), run_id="b"))
    found = compare([a, b], Wish(("gemm",), rates=RATES))
    ratios = {x.what.split()[2]: x.ratios[0].value for x in found.lines}
    assert ratios == {"4096×4096×4096": pytest.approx(2), "512×512×512": pytest.approx(2)}
    assert len(found.unmatched) == 1
    assert "only a" in found.unmatched[0]
    assert "cupy" in found.unmatched[0]


@pytest.mark.parametrize(
    ("change", "word"),
    [({"cache": "cold"}, "cache"), ({"fill": "zeros"}, "fill"), ({"timer": "graph"}, "timer"),
     ({"accumulate": "fp16"}, "accumulate")],
)  # fmt: skip
def test_runs_measured_otherwise_have_no_ratio_unless_forced(change, word):
    subjects = [run("a", gemm_result(1e-3)), run("b", gemm_result(2e-3, **change))]
    found = compare(subjects, Wish(("gemm",), rates=RATES))
    assert not found.has_ratio
    assert all(f"different {word}" in said for said in found.unmatched)
    forced = compare(subjects, Wish(("gemm",), force=True, rates=RATES))
    (line,) = forced.lines
    assert line.ratios[0].forced
    assert line.ratios[0].value == pytest.approx(2)
    assert f"different {word}" in line.why_not[0]


def test_burst_and_sustained_rates_never_meet():
    a = run("a", gemm_result(times_s=(), burst_s=(1e-3,) * 9))
    b = run("b", gemm_result(2e-3))
    assert not compare([a, b], Wish(("gemm",), force=True, rates=RATES)).has_ratio
    both = run("c", gemm_result(2e-3, burst_s=(1.5e-3,) * 9))
    found = compare([a, both], Wish(("gemm",), rates=RATES))
    (line,) = found.lines
    assert "burst" in line.what
    assert line.ratios[0].value == pytest.approx(1.5)


def test_runs_of_different_devices_need_force():
    subjects = [run("a", gemm_result(1e-3)), run("b", gemm_result(4e-3, RTX_4090))]
    found = [
        x for x in compare(subjects, Wish(("gemm",), rates=RATES)).lines if x.kind == "measured"
    ]
    assert found[0].ratios == (None,)
    assert "different devices" in found[0].why_not[0]
    forced = compare(subjects, Wish(("gemm",), force=True, rates=RATES)).lines
    assert any(x.kind == "measured" and x.ratios[0].forced for x in forced)


def test_another_driver_is_named_first_and_before_the_hardware():
    environment = {"node": "here", "driver": {"version": "590.10"}, "versions": {"torch": "2.9"}}
    a = run("a", gemm_result(1e-3))
    b = run("b", gemm_result(23e-3, environment=environment))
    found = compare([a, b], Wish(("gemm",), rates=RATES)).findings
    assert "driver differs: a 580.65.06, b 590.10" in found[0]
    assert "before blaming the hardware" in found[0]
    assert compare([a, run("c", gemm_result(2e-3))], Wish(("gemm",), rates=RATES)).findings == ()


def test_the_interval_of_a_measured_ratio_holds_all_that_both_allow():
    a, b = Figure(10, 9, 11, 5), Figure(5, 4, 6, 5)
    found = ratio(a, b)
    assert (found.value, found.low, found.high) == (2, 9 / 6, 11 / 4)
    assert ratio(a, None) is None
    assert ratio(a, Figure(0, 0, 0)) is None


def test_an_impossible_measurement_carries_its_doubt():
    clocks = (1.98e9,) * 20
    device = H200 | {"ops_per_clk": {"fp16": 1e3}}
    subjects = [
        run("a", gemm_result(device=device, sample_sm_clock_hz=clocks)),
        run("b", gemm_result(device=device)),
    ]
    (line,) = compare(subjects, Wish(("gemm",), rates=RATES)).lines
    assert "cannot be" in line.figures[0].notes[0]
    assert line.figures[1].notes == ()


@pytest.mark.parametrize(
    ("subjects", "wish", "words"),
    [
        ([], {}, "two or more"),
        ([card("l4")], {}, "two or more"),
        ([card("l4"), card("t4"), card("l4")], {}, "named twice"),
        ([run("a", gemm_result()), run("a", gemm_result())], {}, "named twice"),
        ([card("l4"), card("t4")], {"prices": (1.0,)}, "1 prices for 2 cards"),
        ([card("l4"), card("t4")], {"metrics": ("price",)}, "--prices"),
    ],
)  # fmt: skip
def test_what_makes_no_comparison_is_told(subjects, wish, words):
    with pytest.raises(UsageError, match=words):
        compare(subjects, Wish(**({"metrics": ("power",)} | wish)))


def test_metrics_of_a_word():
    assert metrics("all") == tuple(METRICS)
    assert metrics("gemm, gemm,latency") == ("gemm", "latency")
    with pytest.raises(UsageError, match="did you mean bandwidth"):
        metrics("bandwith")


def test_prices_are_the_users_and_give_rates_per_price():
    subjects = [card("l4"), card("t4")]
    found = lines(subjects, "price", "data sheet", prices=(0.8, 0.4))
    by_what = {x.what: x for x in found}
    assert by_what["price, as given"].ratios[0].value == pytest.approx(2)
    expected = (300e9 / 0.8) / (320e9 / 0.4)
    assert by_what["DRAM bandwidth per price"].ratios[0].value == pytest.approx(expected)


def test_a_kind_without_figures_is_said_to_be_missing():
    found = compare([card("h100_sxm5_80gb"), card("rtx_4090")], Wish(("launch",), rates=RATES))
    said = " ".join(found.absent)
    assert "data sheets print no such figure" in said
    assert "no stored measurement" in said


def test_published_quantities_are_called_by_their_name_without_the_unit():
    from pymicro.analysis.in_print import _UNIT
    from pymicro.devices.metrics import METRICS

    names = {name: _UNIT.sub("", name) for name in METRICS}
    assert names["l1_read_bytes_per_clk_per_sm"] == "l1_read"
    assert names["dram_latency_ns"] == names["dram_latency_cycles"] == "dram_latency"
    assert not [n for n in names.values() if n.endswith(("gbps", "tflops", "clk", "per_sm"))]


def test_rates_of_integers_are_no_flop():
    """On paper and stored: `int8` is in operations a second."""
    results = [gemm_result(1e-3, dtype="int8", accumulate="int32") for _ in range(2)]
    pair = [card("h200_sxm_141gb", results[0]), card("rtx_4090", results[1])]
    for kind in ("data sheet", "measured"):
        found = lines(pair, "gemm", kind, ("int8", "fp16"))
        units = {x.topic: x.unit for x in found}
        assert units["gemm int8"] == "OP/s", kind
        assert units.get("gemm fp16", "FLOP/s") == "FLOP/s", kind


@pytest.mark.parametrize(
    ("left", "said"), [(1, "1 further difference."), (2, "2 further differences.")]
)
def test_how_many_differences_were_left_out_is_counted_in_words(left, said):
    reasons = _few(f"reason {i}." for i in range(_MOST_REASONS + left))
    assert reasons[-1] == f"and {said}"
    assert len(_few(f"reason {i}." for i in range(_MOST_REASONS))) == _MOST_REASONS
