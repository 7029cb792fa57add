"""Real traces on real rows: memory against published batches, several cards, what to measure."""

import pytest

from pymicro.analysis.cases import case
from pymicro.analysis.host_probe import host_costs
from pymicro.analysis.memory_need import need
from pymicro.analysis.predict import predict
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.recommend import choice, ranked, several
from pymicro.analysis.study import studies, study
from pymicro.analysis.wanted import covered, products, wanted
from pymicro.devices.catalogue import catalogue
from pymicro.errors import UsageError


def card(key: str, measured: bool = False):
    return primitives(catalogue()[key], measured=measured)


@pytest.mark.parametrize(
    ("model", "precision", "batch", "gib"),
    [
        # The largest batches that Lambda's runs of SQuAD used on each size of memory, length 384.
        # Their half precision was apex's, which kept softmax in 16 bits; autocast does not.
        ("bert-base", "fp32", 172, 80),
        ("bert-large", "fp32", 64, 80),
        ("bert-large", "fp32", 16, 24),
    ],
)
def test_the_memory_of_published_batches_nearly_fills_the_card(model, precision, batch, gib):
    made = need(case(model, batch=batch, length=384, precision=precision, attention="eager"))
    assert 0.7 * gib * 2**30 < made.total < 1.1 * gib * 2**30


def test_generation_needs_a_cache_that_grows_with_the_tokens():
    short, long = (need(case("t5", output=n)) for n in (50, 200))
    assert short.gradients == short.optimiser == 0
    assert long.cache > short.cache > 0
    # Keys and values of 24 layers of 1024 numbers, of 128 hypotheses: the tokens and the input.
    exact = 2 * 24 * 1024 * 4 * 128 * (200 + 320)
    assert long.cache == pytest.approx(exact, rel=0.1)


def test_what_does_not_fit_costs_the_link():
    job = {"batch": 32, "length": 2048, "output": 256, "precision": "fp32", "records": 32}
    made = choice(case("llama-1b", **job), card("quadro_rtx_4000"))
    assert not made.fits
    assert made.spilt_bytes > 1e9
    assert made.seconds.value > made.prediction.seconds.value
    assert made.most_batch < 32


def test_a_card_that_fits_ranks_before_one_that_does_not():
    job = case("llama-1b", batch=32, length=2048, output=64, precision="fp32", records=32)
    order = ranked([choice(job, card(k)) for k in ("quadro_rtx_4000", "h100_sxm5_80gb")])
    assert [c.fits for c in order] == [True, False]


def test_training_on_several_cards_pays_for_the_sum_and_inference_does_not():
    job, p = case("bert-large", precision="amp_fp16", batch=8), card("a100_sxm4_80gb")
    made = predict(job, p)
    fast, slow = (several(job, p, made, 4, link) for link in ("nvlink", "pcie"))
    assert slow.allreduce_s.value > 3 * fast.allreduce_s.value
    assert slow.efficiency < fast.efficiency <= 1
    # A ring sends 2(n-1)/n of the gradients.
    moved = 1.5 * job.trace.parameters * 4
    assert fast.allreduce_s.value == pytest.approx(moved / p.allreduce_bytes_per_s["nvlink"].value)
    alone = predict(case("t5"), p)
    assert several(case("t5"), p, alone, 4).seconds.value == pytest.approx(alone.seconds.value / 4)


def test_a_batch_is_not_divided_among_cards():
    p = card("a100_sxm4_80gb")
    for name, gpus, rounds in (("t5", 8, 1), ("t5", 3, 2), ("distilbert", 1024, 5)):
        job = case(name)
        alone = predict(job, p)
        made = several(job, p, alone, gpus)
        assert made.seconds.value >= rounds * alone.seconds.value / job.config.batches
        assert made.seconds.low <= made.seconds.value <= made.seconds.high
        assert made.efficiency <= job.config.batches / rounds / gpus + 1e-9


def test_gradients_of_half_the_width_are_half_as_much_to_sum():
    p = card("a100_sxm4_80gb")
    wide, half = (
        several(job, p, predict(job, p), 4).allreduce_s.value
        for job in (case("bert-large", precision=f) for f in ("fp32", "bf16"))
    )
    assert wide == pytest.approx(2 * half)


def test_the_products_to_measure_are_those_of_the_job():
    job, p = case("distilbert"), card("rtx_4090")
    points = list(wanted(job, p))
    sizes = {tuple(w.given.get(x) for x in "mnk") for w in points if w.benchmark == "gemm"}
    assert (4096, 3072, 768) in sizes
    assert sum(share for _, _, share in products(job, p)) == pytest.approx(1)
    assert {w.benchmark for w in points} == {"gemm", "bandwidth", "launch", "transfer"}
    assert covered(job, p) == 0
    assert covered(job, card("h200_sxm_141gb", measured=True)) > 0.9


def test_a_probe_is_what_its_phases_take():
    job = case("distilbert")
    probe = {"loader": 1e-3, "input": 1e-4, "forward": 5e-3, "backward": 7e-3, "optimiser": 3e-3}
    made = host_costs([probe, {k: 1.2 * v for k, v in probe.items()}], job.program)
    steps = {s.phase: len(s.steps) for s in job.program.stretches}
    forward = made.operator("forward")
    assert forward.value * steps["forward"] == pytest.approx(1.1 * 5e-3)
    assert forward.low * steps["forward"] <= 5e-3 <= 6e-3 <= forward.high * steps["forward"] * 1.001
    assert made.run("input") == pytest.approx(1.1e-3)
    with pytest.raises(UsageError, match="no phase"):
        host_costs([{"forward": 1.0}], job.program)


@pytest.mark.parametrize("name", list(studies()))
def test_every_cause_of_a_study_is_on_every_job(name):
    made = study(name, card)
    for job in made.jobs:
        assert [c.name for c in job.causes] == [c["name"] for c in studies()[name]["cause"]]
        for cause in job.causes:
            assert cause.adds_s.low <= cause.adds_s.value <= cause.adds_s.high
            able = {"cause": {"no", "perhaps", "yes", "not needed"}}
            assert cause.verdict in able.get(cause.kind, {"stays", "turns round"})
            assert cause.settle.startswith("pymicro ")
    assert len(made.verdict) == len(made.jobs)


def test_what_was_found_of_these_jobs_comes_out():
    """The facts that were seen on hardware: FP32 training bound by vector products, generation at
    batch 1 mostly idle, and half precision launching more kernels."""
    p = card("h200_sxm_141gb", measured=True)
    assert "fp32 (vector units)" in predict(case("distilbert"), p).bound
    one = {"batch": 1, "beams": 1, "records": 1, "length": 128, "output": 32}
    slow, half = (predict(case("t5", precision=f, **one), p) for f in ("fp32", "fp16"))
    assert slow.busy_share < 0.25
    assert half.simulation.total.kernels > slow.simulation.total.kernels
    assert half.unit_s.value > slow.unit_s.value
    amp, plain = (predict(case("distilbert", precision=f), p) for f in ("amp_fp16", "fp32"))
    assert amp.busy_share < 0.6 < plain.busy_share


def test_nvlink_is_needed_where_pcie_cannot_hide_the_sum():
    from pymicro.analysis.recommend import needs_nvlink

    p = card("a100_sxm4_80gb")
    small, large = (
        choice(case("bert-large", precision="amp_fp16", batch=b, length=384), p, gpus=4)
        for b in (4, 64)
    )
    assert {s.link for s in small.several} == {"nvlink", "pcie"}
    assert needs_nvlink(small) is True
    assert needs_nvlink(large) is False
    assert needs_nvlink(choice(case("t5"), p)) is None


@pytest.mark.parametrize("model", ["distilbert", "t5"])
def test_every_point_to_measure_is_one_of_its_benchmark(model):
    """What `pymicro suite` asks for is what the benchmarks' own flags would make of it."""
    from pymicro.cli import words
    from pymicro.suite import benchmarks

    for kind in ("cuda", "cpu"):
        for point in wanted(case(model, kind), card("rtx_4090"), kind):
            benchmark = benchmarks()[point.benchmark]
            # As a session fills them in on a machine with one GPU.
            defaults = {"threads": 2, "sms": 128, "pair": ("0-0",), "node": "near"}
            defaults |= benchmark.defaults(kind, 1e14)
            defaults |= benchmark.of_format(kind, point.dtype)
            given = {name: (value,) for name, value in point.given.items()}
            made = words.points(benchmark, given, kind, defaults)
            assert len(made) == 1, (point, made)
            assert point.given.items() <= made[0].items()
            assert point.dtype in benchmark.dtypes
            for axis in benchmark.axes:
                if axis.choices and axis.name in point.given:
                    assert point.given[axis.name] in axis.choices


@pytest.mark.parametrize("model", ["distilbert", "t5"])
@pytest.mark.parametrize("pair", [("rtx_4090", "rtx_5090"), ("h100_pcie_80gb", "rtx_4090")])
def test_swapping_the_figures_of_two_cards_swaps_the_verdict(model, pair):
    from dataclasses import replace

    from pymicro.analysis.against import against

    first, second = (card(key) for key in pair)
    as_first = replace(second, name=first.name, key=first.key)
    as_second = replace(first, name=second.name, key=second.key)
    made, swapped = (
        against(case(model), *cards, flips=False)
        for cards in ((first, second), (as_first, as_second))
    )
    assert swapped.ratio[0] == pytest.approx(1 / made.ratio[0])
    assert swapped.is_decided == made.is_decided
    told = made.verdict.replace(first.name, "?").replace(second.name, first.name)
    if made.is_decided:
        assert swapped.verdict == told.replace("?", second.name)
    assert [n for n, _ in swapped.parts] == [n for n, _ in made.parts]
    for (_, by), (_, back) in zip(made.parts, swapped.parts, strict=True):
        assert back == pytest.approx(-by)
