"""Claims of the comparison of nine cards by data sheet, S2-1 to S2-13."""

from __future__ import annotations

from collections.abc import Callable

from claims_common import CARDS, LARGE, Judged, device, job, times_faster, told_of

from pymicro.analysis.memory_need import need
from pymicro.analysis.predict import predict
from pymicro.analysis.recommend import choice, several
from pymicro.errors import PymicroError


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
            job(
                "llama-1b",
                batch=1,
                precision="bf16" if device(card).peak_flop_per_s["bf16"] else "fp16",
            ),
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
    made = times_faster("distilbert", "P6000", "RTX 4000", precision="amp_fp16")
    peak = p.peak_flop_per_s["fp16"] / 1e12
    told = f"FP16 peak {peak:.2f} TFLOP/s; RTX 4000 over it {told_of(made)} in AMP"
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
        if "nvlink" not in device(n).allreduce_bytes_per_s
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
    link_s = tight.spilt_bytes / device("RTX 4000").link_bytes_per_s.value
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
