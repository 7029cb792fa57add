"""Do our copies between host and GPU reach what NVIDIA's nvbandwidth shows on the same machine?

    python benchmarks/transfer_vs_nvbandwidth.py                   nvbandwidth from the PATH
    python benchmarks/transfer_vs_nvbandwidth.py --binary FILE --rounds 5
    python benchmarks/transfer_vs_nvbandwidth.py --device cuda:1 --size 256
    python benchmarks/transfer_vs_nvbandwidth.py --read FILE       what was kept, without a GPU

Expected: copy engines at 0.995 of nvbandwidth's rate or more, each way and each way while the other
is busy; our kernel at 1.00 or more; the rounds of each row within 0.5 % of each other. Both kernels
reach what the link gives to SMs, so that which of them is ahead is a matter of one in a thousand;
and where others use the host's memory, nvbandwidth's own rounds lie further apart than that.

The two take turns, each in a process of its own, with copies of 512 MiB of pinned memory
(nvbandwidth is told so; it takes the median of three series of 16). A ratio is the median over
rounds; the least and the greatest of them stand beside it. Where there is no nvbandwidth, our rates
stand beside figures that it gave on one H200 (PCIe 5 x16) in December 2026; they say nothing of
another machine. Each run is appended to reference/<device>/transfer_vs_nvbandwidth.jsonl.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pymicro.devices.here import resolve
from pymicro.errors import PymicroError, Unavailable
from pymicro.report.terminal import Terminal
from pymicro.results import now_utc
from pymicro.stats import median

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "benchmarks" / "reference"
SIZE_MIB = 512
SECONDS = 120  # after which a process is given up


@dataclass(frozen=True)
class Row:
    """A test of nvbandwidth, our case that does the same, the least ratio, and the figure in GB/s
    that nvbandwidth gave on the H200 named above."""

    test: str
    variant: str
    path: str
    least: float
    quoted: float


ROWS = (
    Row("host_to_device_memcpy_ce", "engine", "h2d", 0.995, 55.41),
    Row("device_to_host_memcpy_ce", "engine", "d2h", 0.995, 55.33),
    Row("host_to_device_bidirectional_memcpy_ce", "engine", "h2d-busy", 0.995, 49.89),
    Row("device_to_host_bidirectional_memcpy_ce", "engine", "d2h-busy", 0.995, 51.28),
    Row("host_to_device_memcpy_sm", "sm", "h2d", 1.0, 51.37),
    Row("device_to_host_memcpy_sm", "sm", "d2h", 1.0, 52.56),
)
Rates = Mapping[str, float]


@dataclass(frozen=True)
class Compared:
    """A row with the rates of all rounds in GB/s; `theirs` is quoted where nothing was measured."""

    test: str
    variant: str
    path: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    is_quoted: bool
    ratio: float
    least: float
    size_mib: int = SIZE_MIB

    @property
    def ratios(self) -> list[float]:
        """Of each round."""
        theirs = self.theirs * len(self.ours) if len(self.theirs) == 1 else self.theirs
        return [a / b for a, b in zip(self.ours, theirs, strict=True)]

    @property
    def spread(self) -> float:
        """Between our slowest and fastest round, relative."""
        return _spread(self.ours)

    @property
    def their_spread(self) -> float:
        """The same of theirs: where theirs is wide too, it is the machine's."""
        return _spread(self.theirs)


def _spread(rates: Sequence[float]) -> float:
    return (max(rates) - min(rates)) / median(rates)


def theirs(document: str, gpu: int) -> Rates:
    """GB/s by test out of nvbandwidth's JSON, for one GPU; tests that did not pass are absent.

    Raises:
        Unavailable: it is no such JSON, or holds an error.
    """
    try:
        top = json.loads(document[document.index("{") :])["nvbandwidth"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable("nvbandwidth printed no JSON that is known here.") from error
    if "error" in top:
        raise Unavailable(f"nvbandwidth failed: {top['error']}")
    found = {}
    for test in top.get("testcases", ()):
        cells = [row[gpu] for row in test.get("bandwidth_matrix", ()) if gpu < len(row)]
        if test.get("status") == "Passed" and cells and cells[0] != "N/A":
            found[test["name"]] = float(cells[0])
    return found


def ours(document: str) -> Rates:
    """GB/s by the test that does the same, out of `pymicro transfer --format json`."""
    found = {}
    try:
        results = json.loads(document)["results"]
    except (ValueError, KeyError) as error:
        raise Unavailable("pymicro transfer printed no results.") from error
    for result in results:
        for row in ROWS:
            same = (result["variant"], result["params"].get("path")) == (row.variant, row.path)
            if same and result["outcome"] == "ok":
                found[row.test] = result["summary"]["bytes_per_s"] / 1e9
    return found


def compared(
    our_rounds: Sequence[Rates], their_rounds: Sequence[Rates], size_mib: int = SIZE_MIB
) -> list[Compared]:
    """Every row that ran in all rounds; where nvbandwidth never ran, beside the quoted figures."""
    found = []
    for row in ROWS:
        a = [rates[row.test] for rates in our_rounds if row.test in rates]
        b = [rates[row.test] for rates in their_rounds if row.test in rates] or [row.quoted]
        if len(a) < len(our_rounds) or not a:
            continue
        if len(b) not in (1, len(a)):
            continue
        ratios = [x / y for x, y in zip(a, b * len(a) if len(b) == 1 else b, strict=True)]
        is_quoted = not their_rounds
        names = (row.test, row.variant, row.path)
        rates = (tuple(a), tuple(b), is_quoted, median(ratios))
        found.append(Compared(*names, *rates, row.least, size_mib))
    return found


def run_theirs(binary: str, gpu: int, size_mib: int) -> Rates:
    """One round of nvbandwidth."""
    command = [binary, "-j", "-b", str(size_mib), "-t", *(row.test for row in ROWS)]
    return theirs(_output(command), gpu)


def run_ours(device: str, size_mib: int) -> Rates:
    """One round of `pymicro transfer`."""
    chosen = ",".join(dict.fromkeys(row.path for row in ROWS))
    command = [
        sys.executable, "-m", "pymicro", "transfer", "--device", device, "--backend", "cuda",
        "--host", "pinned", "--path", chosen, "--size", f"{size_mib}MiB", "--no-store", "--quiet",
        "--format", "json",
    ]  # fmt: skip
    return ours(_output(command))


def _output(command: Sequence[str]) -> str:
    """What a process printed.

    Raises:
        Unavailable: it cannot be started, or does not end.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        name = Path(command[0]).name
        raise Unavailable(f"{name} did not run ({type(error).__name__}).") from error
    return done.stdout


def show(rows: Sequence[Compared], terminal: Terminal) -> None:
    quoted = any(row.is_quoted for row in rows)
    titles = ("copies", "ours, GB/s", "within", "quoted" if quoted else "theirs", "within",
              "ratio", "rounds", "bar", "")  # fmt: skip
    cells = [
        (
            f"{row.variant} {row.path} {row.size_mib} MiB",
            f"{median(row.ours):.2f}",
            f"{100 * row.spread:.2f} %",
            f"{median(row.theirs):.2f}",
            f"{100 * row.their_spread:.2f} %",
            f"{row.ratio:.4f}",
            f"{min(row.ratios):.4f}-{max(row.ratios):.4f}",
            f"{row.least:.3f}",
            "" if row.ratio >= row.least else "below",
        )
        for row in rows
    ]
    terminal.table(titles, cells, numbers=(1, 2, 3, 4, 5, 7))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--binary", help="nvbandwidth; by default the one on the PATH")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or a GPU's UUID")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="no round begins that would end later"
    )
    parser.add_argument("--size", type=int, default=SIZE_MIB, metavar="MIB", help="of a copy")
    parser.add_argument("--read", type=Path, help="rows that were kept; nothing is measured")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="folder of devices' folders")
    given = parser.parse_args(words)
    if given.read is not None:
        show(read(given.read), Terminal())
        return 0
    try:
        device = resolve(given.device)
        if device.kind != "cuda":
            raise Unavailable("copies to a GPU need one.")
        return _study(given, device)
    except PymicroError as error:
        print(f"transfer_vs_nvbandwidth: {error}", file=sys.stderr)
        return error.exit_code


def _study(given: argparse.Namespace, device: Any) -> int:
    binary = given.binary or shutil.which("nvbandwidth")
    if binary is None:
        print("no nvbandwidth on the PATH: beside quoted figures.", file=sys.stderr)
    our_rounds: list[Rates] = []
    their_rounds: list[Rates] = []
    began, longest_s = time.monotonic(), 0.0
    for _ in range(given.rounds):
        round_began = time.monotonic()
        if our_rounds and round_began + longest_s > began + given.seconds:
            print(f"{len(our_rounds)} rounds fit {given.seconds:g} s.", file=sys.stderr)
            break
        our_rounds.append(run_ours(given.device, given.size))
        if binary is not None:
            their_rounds.append(run_theirs(binary, device.index or 0, given.size))
        longest_s = max(longest_s, time.monotonic() - round_began)
    rows = compared(our_rounds, their_rounds, given.size)
    if not rows:
        raise Unavailable("no row ran.")
    _store(rows, given.out / (getattr(device.spec, "key", None) or "unknown"))
    show(rows, Terminal())
    return 0


def read(file: Path) -> list[Compared]:
    """Rows as they were kept, the lists of rounds as tuples again."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        row = {name: value for name, value in json.loads(line).items() if name != "created_utc"}
        found.append(Compared(**row | {side: tuple(row[side]) for side in ("ours", "theirs")}))
    return found


def _store(rows: Sequence[Compared], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "transfer_vs_nvbandwidth.jsonl", "a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(asdict(row) | {"created_utc": now_utc()}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
