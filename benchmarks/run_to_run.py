"""How far do the figures of one command lie apart from process to process?

    python benchmarks/run_to_run.py transfer --runs 5 -- --host pinned --size 64MiB
    python benchmarks/run_to_run.py launch --runs 2
    python benchmarks/run_to_run.py launch --stored launch.jsonl       the runs of a store, compared
    python benchmarks/run_to_run.py --read FILE                        what was kept, judged again

Expected on a quiet machine: copies of pinned memory one way, and streams of a GPU's memory, within
0.5 % over five processes, its latencies within 1 %, launches within 5 % over two; rows on the
host's side that lie further apart say *noisy host*.

Apart is the largest median less the smallest over the median of medians. A row of launches is noisy
where one of its processes says so itself, by its samples or by its looks some seconds apart. Each
row is appended to reference/<device>/run_to_run.jsonl with the command that measured it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pymicro.analysis.launches import is_noisy, noisy_runs
from pymicro.errors import PymicroError, Unavailable
from pymicro.report.terminal import Terminal
from pymicro.results import Result, Store, latest, now_utc
from pymicro.stats import median
from pymicro.units import si

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "benchmarks" / "reference"
SECONDS = 180  # after which a process is given up
# By benchmark: how far runs may lie apart.
MOST = {"transfer": 0.005, "launch": 0.05, "bandwidth": 0.005, "latency": 0.01}
# What another program can take part in through no fault of the method: not judged, but shown.
SHARED = ("pageable",)


@dataclass(frozen=True)
class Row:
    """One case over several processes; `seconds` is each one's median, a call or a step."""

    benchmark: str
    case: str
    seconds: tuple[float, ...]
    most: float | None
    is_noisy: bool
    command: str = ""
    created_utc: str = ""

    @property
    def apart(self) -> float:
        """From the fastest to the slowest process, relative."""
        return (max(self.seconds) - min(self.seconds)) / median(self.seconds)

    @property
    def verdict(self) -> str:
        if self.most is None:
            return "not judged"
        if self.apart <= self.most:
            return ""
        return "noisy host" if self.is_noisy else "apart"


def rows(results: Sequence[Result], command: str) -> list[Row]:
    """Every case that ran in all runs of at least two, in the order of the first."""
    newest = latest(results)
    runs, noisy = {r.run_id for r in newest}, noisy_runs(newest)
    cases: dict[tuple[str, str], list[Result]] = {}
    for r in newest:
        if r.outcome == "ok":
            cases.setdefault((r.benchmark, _name(r)), []).append(r)
    return [
        Row(
            benchmark,
            case,
            tuple(median(r.samples_s) / (r.steps or 1) for r in found),
            _most(found[0]),
            any(is_noisy(r, noisy) for r in found),
            command,
            now_utc(),
        )
        for (benchmark, case), found in cases.items()
        if len(found) == len(runs) > 1
    ]


def _name(r: Result) -> str:
    told = (f"{v}" for name, v in r.params.items() if name != "calls")
    return " ".join((r.backend, r.variant, *told))


def _most(r: Result) -> float | None:
    """Traffic the other way and pageable memory depend on more than the link."""
    if r.benchmark == "transfer" and (
        r.params.get("host") in SHARED or r.params["path"] not in ("h2d", "d2h")
    ):
        return None
    return MOST.get(r.benchmark)


def measured(benchmark: str, runs: int, words: Sequence[str]) -> list[Result]:
    """Run the command so often, each time in a process of its own.

    Raises:
        Unavailable: a process does not end well.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.jsonl"
        command = [sys.executable, "-m", "pymicro", benchmark, *words, "--quiet", "--store"]
        for _ in range(runs):
            try:
                done = subprocess.run(
                    [*command, str(store)],
                    capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise Unavailable(f"pymicro {benchmark} took more than {SECONDS} s.") from error
            if done.returncode:
                raise Unavailable(f"pymicro {benchmark} failed: {done.stderr.strip()[-300:]}")
        return stored(store, benchmark)


def stored(file: Path, benchmark: str) -> list[Result]:
    return [r for r in Store(file).read().results if r.benchmark == benchmark]


def read(file: Path) -> list[Row]:
    kept = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [Row(**row | {"seconds": tuple(row["seconds"])}) for row in kept]


def show(found: Sequence[Row], terminal: Terminal) -> None:
    cells = [
        (
            row.benchmark,
            row.case,
            f"{len(row.seconds)}",
            si(median(row.seconds), "s", 4),
            f"{100 * row.apart:.2f} %",
            "" if row.most is None else f"{100 * row.most:g} %",
            row.verdict,
        )
        for row in found
    ]
    titles = ("command", "case", "runs", "median", "apart", "at most", "")
    terminal.table(titles, cells, numbers=(2, 3, 4, 5))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", nargs="?", choices=tuple(MOST))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--stored", type=Path, help="a store that holds the runs already")
    parser.add_argument("--read", type=Path, help="rows that were kept; nothing is measured")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="folder of devices' folders")
    parser.epilog = "Words after -- go to pymicro."
    own, theirs = _split(sys.argv[1:] if words is None else words)
    given = parser.parse_args(own)
    try:
        return _study(parser, given, theirs)
    except (PymicroError, OSError) as error:
        print(f"run_to_run: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 3)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words before and after the first `--`; argparse itself allows none after an option."""
    at = list(words).index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


def _study(parser: argparse.ArgumentParser, given: argparse.Namespace, words: Sequence[str]) -> int:
    if given.read is not None:
        show(read(given.read), Terminal())
        return 0
    if given.benchmark is None:
        parser.error("say which benchmark, or --read FILE")
    if given.stored is not None:
        results = stored(given.stored, given.benchmark)
    else:
        results = measured(given.benchmark, given.runs, words)
    found = rows(results, " ".join(("pymicro", given.benchmark, *words)))
    if not found:
        raise Unavailable("no case ran in two processes.")
    keep(found, given.out / (results[0].device.get("key") or "unknown"))
    show(found, Terminal())
    return int(any(row.verdict == "apart" for row in found))


def keep(found: Sequence[Row], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "run_to_run.jsonl", "a", encoding="utf-8") as file:
        for row in found:
            file.write(json.dumps(asdict(row)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
