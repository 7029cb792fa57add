"""Does what the two sources claim hold? Each claim with the command and the numbers behind it.

    python benchmarks/claims.py                the table of claims, in Markdown
    python benchmarks/claims.py --table        the table that both experiments should have had

Every figure is simulated from primitives that `pymicro predict` shows; the wording of the claims is
that of the notes on the two articles (S1: five devices, two jobs; S2: nine cards by data sheet).
A claim *holds* or *does not hold* where the intervals leave one answer, else it *cannot tell*.
The CPU is two cores of an AMD EPYC (Zen 3), measured; sixteen such cores are assumed to be eight
times as fast in products and twice in memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pymicro.analysis.against import against, predict_s
from pymicro.analysis.cases import Case, case
from pymicro.analysis.memory_need import need
from pymicro.analysis.predict import predict
from pymicro.analysis.primitives import Primitives
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.recommend import choice, several
from pymicro.analysis.study import study
from pymicro.analysis.values import Value
from pymicro.devices.catalogue import catalogue
from pymicro.devices.cpu import CpuSpec
from pymicro.errors import PymicroError
from pymicro.results import Store

HERE = Path(__file__).parent
CPU = "16 cores of Zen 3"
CARDS = {
    "T4": "t4",
    "RTX 4090": "rtx_4090",
    "RTX 5090": "rtx_5090",
    "H100 SXM": "h100_sxm5_80gb",
    "H100 PCIe": "h100_pcie_80gb",
    "A100": "a100_sxm4_80gb",
    "A6000": "rtx_a6000",
    "A4000": "rtx_a4000",
    "V100": "v100_sxm2_16gb",
    "P6000": "quadro_p6000",
    "RTX 4000": "quadro_rtx_4000",
    "L40S": "l40s",
    "L4": "l4",
}
# What the author expected of each, times a CPU.
EXPECTED = {"T4": 10, "RTX 4090": 40, "RTX 5090": 50, "H100 SXM": 100, "H100 PCIe": 100}


# The training job that the nine cards are ranked by.
LARGE: dict[str, Any] = {"precision": "amp_fp16", "batch": 8, "length": 384}
# Causes of the study that libraries and drivers answer for.
SOFTWARE = (
    "batched FP32 products",
    "plain FP32 products",
    "memory or crossbar clock",
    "start-up and JIT",
)


@dataclass(frozen=True)
class Judged:
    """A claim's end: the verdict, the command that shows it, and the figures."""

    id: str
    verdict: str
    command: str
    numbers: str


@cache
def device(name: str) -> Primitives:
    if name != CPU:
        return primitives(catalogue()[CARDS[name]], measured=False)
    folder = HERE / "reference" / "cpu_zen3_2cores"
    results = [
        r for f in ("gemm", "bandwidth") for r in Store(folder / f"{f}.jsonl").read().results
    ]
    two = primitives(CpuSpec(name="AMD EPYC (Zen 3)", physical_cores=2), results)
    eight = {"rates": 8.0, "dram": 2.0}
    for group, factor in eight.items():
        two = two.scaled(group, factor)
    peaks = {k: 8 * v for k, v in two.peaks.items()}
    return replace(two, name=CPU, key=CPU, sm_count=16, peaks=peaks, paper_dram=2 * two.paper_dram)


def job(name: str, on: str = "", **given: Any) -> Case:
    return case(name, "cpu" if on == CPU else "cuda", **given)


def seconds(name: str, on: str, **given: Any) -> Value:
    return predict(job(name, on, **given), device(on)).seconds


def _ratio(name: str, slow: str, fast: str, **given: Any) -> tuple[float, float, float]:
    """How many times as fast `fast` is, with its interval."""
    made = against(
        job(name, fast, **given), device(fast), device(slow), job(name, slow, **given), False
    )
    return made.ratio


def _told(ratio: tuple[float, float, float]) -> str:
    return f"{ratio[0]:.3g} x ({ratio[1]:.3g} to {ratio[2]:.3g})"


def _above(ratio: tuple[float, float, float], least: float) -> str:
    if ratio[1] > least:
        return "holds"
    return "does not hold" if ratio[2] < least else "cannot tell"


def expectation() -> Judged:
    told, verdicts = [], []
    for task in ("t5", "distilbert"):
        for card, promised in EXPECTED.items():
            ratio = _ratio(task, CPU, card)
            told.append(f"{task} {card} {_told(ratio)} of {promised}")
            verdicts.append(ratio[1] <= promised <= ratio[2])
    verdict = "holds" if all(verdicts) else "does not hold" if not any(verdicts) else "cannot tell"
    # An order that is wrong somewhere decides it, whatever the CPU.
    order = seconds("distilbert", "H100 PCIe").value > seconds("distilbert", "RTX 4090").value
    verdict = "does not hold" if order else verdict
    note = "; the order of the cards itself is another (FP32)" if order else ""
    return Judged("S1-1", verdict, "python benchmarks/claims.py --table", "; ".join(told) + note)


def slow_cpu() -> Judged:
    ratios = [_ratio(task, CPU, "T4") for task in ("t5", "distilbert")]
    verdict = "holds" if all(r[1] > 1.2 for r in ratios) else _above(min(ratios), 1.2)
    told = ", ".join(f"{t} {_told(r)}" for t, r in zip(("t5", "distilbert"), ratios, strict=True))
    return Judged(
        "S1-2", verdict, "pymicro predict distilbert --device T4", f"T4 over {CPU}: {told}"
    )


def two_hundred() -> Judged:
    two = replace(device(CPU), sm_count=2)
    for group in ("rates", "dram"):
        two = two.scaled(group, 1 / 8 if group == "rates" else 1 / 2)
    card = predict_s(job("distilbert"), device("RTX 4090"))
    few, many = (predict_s(job("distilbert", CPU), p) / card for p in (two, device(CPU)))
    verdict = "holds" if many > 200 else "does not hold" if few < 200 else "cannot tell"
    told = f"4090 over 2 such cores {few:.0f} x, over 16 {many:.0f} x; which CPU is lost"
    return Judged("S1-3", verdict, "pymicro predict distilbert --device 4090", told)


def newer_lost() -> Judged:
    made = study("5090", lambda key: primitives(catalogue()[key], measured=False))
    known = [j for j in made.jobs if j.slow_s > j.fast_s * 1.02]
    verdict = "holds" if len(known) == len(made.jobs) else "cannot tell"
    told = "; ".join(
        f"{j.name}: {j.slow_s / j.fast_s:.2f} with no cause, "
        f"{j.together.high / j.fast_s:.2f} at most"
        for j in made.jobs
    )
    return Judged("S1-4", verdict, "pymicro explain --case 5090", told)


def immature_software() -> Judged:
    made = study("5090", lambda key: primitives(catalogue()[key], measured=False))
    shares = []
    for j in made.jobs:
        own = [c for c in j.causes if c.name in SOFTWARE]
        most = sum(c.adds_s.high for c in own)
        shares.append((j.name, most / j.gap_s if j.gap_s > 0 else 1.0))
    enough = [share >= 1 for _, share in shares]
    verdict = "cannot tell" if any(enough) else "does not hold"
    told = "; ".join(
        f"{name}: kernels, clocks and JIT make {100 * s:.0f} % of the gap at most"
        for name, s in shares
    )
    return Judged("S1-5", verdict, "pymicro explain --case 5090", told)


def h100_below() -> Judged:
    told, all_below = [], True
    for task in ("t5", "distilbert"):
        for card in ("H100 SXM", "H100 PCIe"):
            ratio = _ratio(task, "RTX 4090", card)
            told.append(f"{task} {card} over 4090 {_told(ratio)} of 2.5 expected")
            all_below &= ratio[2] < 2.5
    return Judged(
        "S1-6",
        "holds" if all_below else "cannot tell",
        'pymicro explain distilbert --device "H100 PCIe" --against 4090',
        "; ".join(told),
    )


def h100_cause() -> Judged:
    plain = predict(job("distilbert"), device("H100 PCIe"))
    fast = predict(job("distilbert", precision="tf32"), device("H100 PCIe"))
    times = plain.seconds.value / fast.seconds.value
    told = (
        f"busy {100 * plain.busy_share:.0f} % in FP32, so not idle; TF32 alone makes it "
        f"{times:.2f} x as fast; the number format is the cause"
    )
    verdict = "does not hold" if plain.busy_share > 0.7 and times > 1.5 else "cannot tell"
    return Judged(
        "S1-7", verdict, "pymicro explain distilbert --device H100-PCIe --what-if tf32", told
    )


def training_gains() -> Judged:
    gains = {t: _ratio(t, CPU, "RTX 4090") for t in ("t5", "distilbert")}
    one = _ratio("t5", CPU, "RTX 4090", batch=1, records=1, output=60, beams=1)
    told = (
        f"4090 over {CPU}: fine-tuning {_told(gains['distilbert'])}, T5 batch 32 "
        f"{_told(gains['t5'])}, batch 1 {_told(one)}"
    )
    sure = gains["distilbert"][1] > max(gains["t5"][2], one[2])
    never = gains["distilbert"][2] < min(gains["t5"][1], one[1])
    verdict = "holds" if sure else "does not hold" if never else "cannot tell"
    return Judged("S1-8", verdict, "python benchmarks/claims.py --table", told)


def idle_hardware() -> Judged:
    plain, fast = (seconds("distilbert", "H100 SXM", precision=p) for p in ("fp32", "amp_fp16"))
    made = predict(job("t5", batch=1, records=1, output=60, beams=1), device("H100 SXM"))
    told = (
        f"fine-tuning in FP32 against AMP {plain.value / fast.value:.2f} x; T5 at batch 1 "
        f"leaves {100 * (1 - made.busy_share):.0f} % of the card idle"
    )
    return Judged("S1-9", "holds", "pymicro explain t5 --device H100 --batch 1", told)


def sizes() -> Judged:
    made = job("t5")
    millions = made.trace.parameters / 1e6
    verdict = "holds" if abs(millions - 700) < 75 else "does not hold"
    return Judged(
        "S1-10", verdict, "pymicro predict t5 --device 4090", f"{millions:.0f} M parameters"
    )


def training_needs_more() -> Judged:
    train = need(job("bert-large", batch=1, length=128))
    forward = train.weights
    told = f"BERT-large: {train.total / 1e9:.1f} GB to train, {forward / 1e9:.1f} GB of weights"
    verdict = "holds" if train.total > 3 * forward else "does not hold"
    return Judged("S2-1", verdict, "pymicro predict bert-large --device A100", told)


def _fastest_training(card: str) -> tuple[int, int]:
    """Place of a card among the nine in training BERT-large with AMP, and how many fit."""
    nine = ("H100 SXM", "A100", "A6000", "A4000", "V100", "P6000", "RTX 4000", "L40S", "L4")
    found = {}
    for name in nine:
        try:
            made = choice(
                job("bert-large", precision="amp_fp16", batch=8, length=384), device(name)
            )
        except PymicroError:
            continue
        if made.fits:
            found[name] = made.seconds.value
    ranked = sorted(found, key=lambda n: found[n])
    return (ranked.index(card) + 1 if card in ranked else 0), len(ranked)


def best_training() -> Judged:
    place, fit = _fastest_training("H100 SXM")
    few = predict(job("llama-1b", batch=1, precision="bf16"), device("H100 SXM"))
    told = (
        f"place {place} of {fit} that hold it; the 1B decoder at batch 1 leaves "
        f"{100 * (1 - few.busy_share):.0f} % of it idle"
    )
    return Judged(
        "S2-2",
        "holds" if place == 1 and few.busy_share < 0.6 else "cannot tell",
        "pymicro recommend bert-large --precision amp_fp16 --length 384",
        told,
    )


def _placed(claim: str, card: str, least: int, most: int) -> Callable[[], Judged]:
    def judge() -> Judged:
        place, fit = _fastest_training(card)
        ok = least <= place <= most
        told = (
            f"place {place} of {fit} in training BERT-large with AMP"
            if place
            else f"does not hold BERT-large at batch 8 ({fit} of nine do)"
        )
        return Judged(
            claim,
            "holds" if ok else "does not hold",
            "pymicro recommend bert-large --precision amp_fp16 --length 384",
            told,
        )

    return judge


def _small(claim: str, card: str) -> Callable[[], Judged]:
    """Not for large training, fine for small inference."""

    def judge() -> Judged:
        place, fit = _fastest_training(card)
        token = predict(
            job("llama-1b", batch=1, precision="bf16" if device(card).peaks["bf16"] else "fp16"),
            device(card),
        )
        fine = token.unit_s.high < 0.1
        told = (
            f"training: {'place ' + str(place) if place else 'does not fit'} of {fit}; the 1B "
            f"decoder in {1e3 * token.unit_s.value:.0f} ms a token"
        )
        ok = (place == 0 or place > fit / 2) and fine
        return Judged(
            claim,
            "holds" if ok else "does not hold",
            f"pymicro predict llama-1b --device {CARDS[card]} --precision fp16",
            told,
        )

    return judge


def no_tensor_cores() -> Judged:
    p = device("P6000")
    made = _ratio("distilbert", "P6000", "RTX 4000", precision="amp_fp16")
    told = f"FP16 peak {p.peaks['fp16'] / 1e12:.2f} TFLOP/s; RTX 4000 over it {_told(made)} in AMP"
    return Judged(
        "S2-7",
        "holds" if made[1] > 1 else "cannot tell",
        "pymicro explain distilbert --device P6000 --against 'Quadro RTX 4000'",
        told,
    )


def without_nvlink() -> Judged:
    lacking = [
        n
        for n in ("A4000", "RTX 4000", "L4", "L40S", "P6000")
        if "nvlink" not in device(n).allreduce
    ]
    wanted = job("bert-large", **LARGE)
    p = device("L40S")
    many = several(wanted, p, predict(wanted, p), 4, "pcie")
    told = (
        f"without: {', '.join(lacking)}; four L40S over PCIe keep "
        f"{100 * many.efficiency:.0f} % of four cards in training BERT-large"
    )
    right = len(lacking) == 5
    verdict = (
        "cannot tell" if right and many.efficiency > 0.7 else "holds" if right else "does not hold"
    )
    return Judged(
        "S2-11", verdict, "pymicro predict bert-large --device L40S --gpus 4 --link pcie", told
    )


def nvlink_decides() -> Judged:
    wanted = job("bert-large", **LARGE)
    p = device("A100")
    made = predict(wanted, p)
    fast, slow = (several(wanted, p, made, 4, link) for link in ("nvlink", "pcie"))
    told = (
        f"A100 all-reduce of a step {1e3 * fast.allreduce_s.value:.1f} against "
        f"{1e3 * slow.allreduce_s.value:.1f} ms; four cards: {100 * fast.efficiency:.0f} against "
        f"{100 * slow.efficiency:.0f} % of four"
    )
    decides = fast.efficiency > 1.25 * slow.efficiency
    far = slow.allreduce_s.value > 3 * fast.allreduce_s.value
    verdict = "holds" if far and decides else "cannot tell" if far else "does not hold"
    return Judged(
        "S2-12", verdict, "pymicro predict bert-large --device A100 --gpus 4 --link pcie", told
    )


def spilling() -> Judged:
    wanted = job("llama-1b", batch=32, length=2048, output=256, records=32, precision="fp32")
    tight = choice(wanted, device("RTX 4000"))
    # The prompt is worked through once; it is the tokens that wait for the link.
    decode = tight.prediction.simulation.phases["decode"].wall_s / (wanted.job.output - 1)
    link_s = tight.spilt_bytes / device("RTX 4000").link.value
    slow = max(link_s, decode) / decode
    told = (
        f"{tight.need.total / 1e9:.0f} GB on 8 GB: {tight.spilt_bytes / 1e9:.0f} GB cross the "
        f"link every token, {link_s:.2f} s instead of {decode:.2f} s: {slow:.1f} x"
    )
    command = "pymicro predict llama-1b --device 'Quadro RTX 4000' --precision fp32 --batch 32"
    return Judged(
        "S2-13",
        "holds" if slow > 3 else "does not hold",
        f"{command} --length 2048 --output 256",
        told,
    )


CLAIMS: tuple[Callable[[], Judged], ...] = (
    expectation,
    slow_cpu,
    two_hundred,
    newer_lost,
    immature_software,
    h100_below,
    h100_cause,
    training_gains,
    idle_hardware,
    sizes,
    training_needs_more,
    best_training,
    _placed("S2-3", "A100", 1, 3),
    _placed("S2-4", "A6000", 3, 5),
    _small("S2-5", "A4000"),
    _placed("S2-6", "V100", 3, 6),
    no_tensor_cores,
    _small("S2-8", "RTX 4000"),
    _placed("S2-9", "L40S", 2, 3),
    _small("S2-10", "L4"),
    without_nvlink,
    nvlink_decides,
    spilling,
)


def table() -> Iterator[str]:
    """Cards by tasks: time with interval, bound, speed-up over the CPU beside what was expected."""
    yield "| device | task | time | bound by | over the CPU | expected | published |"
    yield "|---|---|---|---|---|---|---|"
    published = {("t5", "RTX 4090"): "38.2 s, unverified", ("t5", "RTX 5090"): "44.7 s, unverified"}
    for task in ("t5", "distilbert"):
        for card in (CPU, *EXPECTED):
            made = predict(job(task, card), device(card))
            over = "1" if card == CPU else _told(_ratio(task, CPU, card))
            s = made.seconds
            yield (
                f"| {card} | {task} | {s.value:.4g} s ({s.low:.4g} to {s.high:.4g}) | {made.bound} "
                f"| {over} | {EXPECTED.get(card, 1)} x | {published.get((task, card), 'lost')} |"
            )


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--table", action="store_true")
    if words.parse_args().table:
        print("\n".join(table()))
        return
    print("| claim | verdict | numbers | command |\n|---|---|---|---|")
    for judge in CLAIMS:
        made = judge()
        print(f"| {made.id} | *{made.verdict}* | {made.numbers} | `{made.command}` |", flush=True)


if __name__ == "__main__":
    main()
