"""What will the jobs of the blind study take? Written down before any of them is run.

    python benchmarks/e2e_predictions.py before --to predictions_before.jsonl
    python benchmarks/e2e_predictions.py after runs.jsonl --to predictions.jsonl
    python benchmarks/e2e_h200.py score runs.jsonl predictions.jsonl

`before` is blind: of each job of e2e_h200.py the device's busy time, and its step on the host of
hosts.toml that was probed in the first study. A rented host drifts and is known only from what
stands beside a run, so `after` simulates the same programs with the host's cost of the narrow
copy, brought to the pace read beside the job's steps (`step_s`) and as it was probed
(`step_as_probed_s`), and with nothing else of the run. Expected: median error of a step within
10 %, worst within 25 %; busy time within 10 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import e2e_h200

from pymicro.analysis.cases import Case, of_job
from pymicro.analysis.explain import split
from pymicro.analysis.host_probe import as_probed, at_pace, host_costs
from pymicro.analysis.predict import interval
from pymicro.analysis.primitives import Primitives, moving
from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.primitives_tables import default_host
from pymicro.analysis.simulate import Config, simulate
from pymicro.devices.catalogue import catalogue
from pymicro.errors import PymicroError
from pymicro.workloads.jobs import Job
from pymicro.workloads.models import MODELS

CARD = "h200_sxm_141gb"


def cases() -> Iterator[tuple[str, Case]]:
    for wanted in e2e_h200.configurations():
        try:
            yield e2e_h200.key(wanted), of_job(MODELS[wanted.model], wanted)
        except PymicroError as error:
            print(f"{e2e_h200.key(wanted)}: {error}", file=sys.stderr)


def step_s(case: Case, p: Primitives, **how: Any) -> tuple[float, float]:
    """Wall and busy seconds of one training step, or of one decode step in the middle."""
    config = Config(batches=100, tf32=case.config.tf32, **how)
    if case.trace.task == "generate":
        found = simulate(case.program, p, replace(config, batches=1)).phases["decode"]
        steps = case.job.output - 1
        return found.wall_s / steps, found.busy_s / steps
    total = simulate(case.program, p, config).total
    return total.wall_s / 100, total.busy_s / 100


def before() -> Iterator[dict[str, Any]]:
    p = primitives(catalogue()[CARD])
    for key, case in cases():
        wall_s, busy_s = step_s(case, p)
        known_s, _ = step_s(case, replace(p, host=default_host("h200_cloud")))
        free_s, _ = step_s(case, p, host=False, ties=False)
        yield {
            "key": key,
            "busy_s": busy_s,
            "step_default_host_s": wall_s,
            "step_pilot_host_s": known_s,
            "step_free_host_s": free_s,
            "operators": case.trace.device,
        }


def after(runs: Path) -> Iterator[dict[str, Any]]:
    p = primitives(catalogue()[CARD])
    shares, busy_errors = [], []
    for run in map(json.loads, runs.open()):
        wanted = Job(**run["job"])
        key, case = run["key"], of_job(MODELS[wanted.model], wanted)
        here, as_probed_here = (
            replace(p, host=host_costs(those, case.program)) for those in _probes(run)
        )
        wall_s, busy_s = step_s(case, here)
        groups = moving(here, graphs=False)
        seconds = interval(lambda q, c=case: step_s(c, q)[0], here, groups)
        train = case.trace.task == "train"
        real_busy_s = sum(run["busy_s"].values()) if train else run["busy_s"].get("decode", 0.0)
        busy_errors.append(abs(busy_s / real_busy_s - 1) if real_busy_s else 0.0)
        shares.append(abs(run["step_s"] - wall_s) / run["step_s"])
        yield {"key": key, "step_s": wall_s, "low_s": seconds.low, "high_s": seconds.high,
               "step_as_probed_s": step_s(case, as_probed_here)[0],
               "busy_s": busy_s, "measured_busy_s": real_busy_s, "measured_s": run["step_s"],
               "parts": split(case, here)}  # fmt: skip
    if shares:
        few = sum(share <= 0.10 for share in shares)
        near = sum(error <= 0.10 for error in busy_errors)
        print(f"unexplained at most 10 % in {few} of {len(shares)}")
        print(f"busy time: median error {median(busy_errors):.1%}, worst {max(busy_errors):.1%}, "
              f"within 10 % in {near}")  # fmt: skip


def _probes(run: dict[str, Any]) -> Iterator[list[dict[str, float]]]:
    """The host's seconds by phase at the job's pace, and as probed; the first study had no pace."""
    if "turns" in run:
        yield [at_pace(run["turns"])]
        yield [as_probed(run["turns"])]
    else:
        for _ in range(2):
            yield [run["host_probe_s"][when] for when in ("before", "after")]


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("when", choices=("before", "after"))
    words.add_argument("runs", nargs="?", type=Path)
    words.add_argument("--to", type=Path, required=True)
    chosen = words.parse_args()
    lines = before() if chosen.when == "before" else after(chosen.runs)
    with chosen.to.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
