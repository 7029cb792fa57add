"""Does what the two sources claim hold? Each claim with the command and the numbers behind it.

    python benchmarks/claims.py                the table of claims, in Markdown
    python benchmarks/claims.py --table        the table that both experiments should have had

Every figure is simulated from primitives that `pymicro predict` shows; the wording of the claims is
that of the notes on the two articles (S1: five devices, two jobs; S2: nine cards by data sheet).
A claim *holds* or *does not hold* where the intervals leave one answer, else it *cannot tell*.
The CPU is two cores of an AMD EPYC (Zen 5), measured; sixteen such cores are assumed to be eight
times as fast in products and twice in memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import claims_five_devices as five
import claims_nine_cards as nine
from claims_common import CPU, EXPECTED, device, job, times_faster, told_of

from pymicro.analysis.predict import predict

CLAIMS = (*five.CLAIMS, *nine.CLAIMS)


def table() -> Iterator[str]:
    """Cards by tasks: time with interval, bound, speed-up over the CPU beside what was expected."""
    yield "| device | task | time | bound by | over the CPU | expected | published |"
    yield "|---|---|---|---|---|---|---|"
    published = {("t5", "RTX 4090"): "38.2 s, unverified", ("t5", "RTX 5090"): "44.7 s, unverified"}
    for task in ("t5", "distilbert"):
        for card in (CPU, *EXPECTED):
            made = predict(job(task, card), device(card))
            over = "1" if card == CPU else told_of(times_faster(task, CPU, card))
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
