"""Starting one process a device of this host, and ending all when one of them fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pymicro.collective.job import Job
from pymicro.collective.rank import MEETING
from pymicro.errors import PymicroError, without_folders

_PACKAGES = Path(__file__).parents[2]
_LOOK_S = 0.05
# For importing, meeting and the first collective, on top of sampling.
_START_S = 120.0
Records = list[dict[str, Any]]


class RankFailed(PymicroError):
    """A process ended before its time; the message has its last words."""


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun, or who works like it, started this process as one of several."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= environment.keys()


def measured(job: Job, ranks: int) -> tuple[Records, RankFailed | None]:
    """What rank 0 wrote, and the failure that ended it early, if one did."""
    with tempfile.TemporaryDirectory() as folder:
        out, failure = Path(folder) / "records.jsonl", None
        out.touch()
        processes: list[subprocess.Popen] = []
        try:
            for rank in range(ranks):
                processes.append(_start(job, rank, ranks, out, Path(folder)))
            _wait(processes, Path(folder), job.budget_s)
        except RankFailed as error:
            failure = error
        finally:
            for process in processes:
                process.kill()  # Of one that has ended this is nothing.
                process.wait()
                assert process.stdin is not None
                process.stdin.close()
        return [json.loads(line) for line in out.read_text("utf-8").splitlines()], failure


def _start(job: Job, rank: int, ranks: int, out: Path, folder: Path) -> subprocess.Popen:
    own = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
    paths = [str(_PACKAGES), os.environ.get("PYTHONPATH", "")]
    environment = {
        # Each rank would else start a thread a core; and a host's name need not resolve.
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        **os.environ,
        **{name: str(value) for name, value in own.items()},
        MEETING: (folder / "meeting").as_uri(),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = [sys.executable, "-m", "pymicro.collective.rank", job.to_json(), str(out)]
    with open(folder / f"{rank}.txt", "wb") as said:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,  # Closed by whatever ends us, which ends the rank.
            stdout=subprocess.DEVNULL,
            stderr=said,
            cwd=folder,
        )


def _wait(processes: Sequence[subprocess.Popen], folder: Path, budget_s: float) -> None:
    """Until all have ended well.

    Raises:
        RankFailed: one has not, or they take far too long.
    """
    until = time.monotonic() + budget_s * 3 + _START_S
    codes = [process.poll() for process in processes]
    while None in codes and not any(codes):
        if time.monotonic() > until:
            raise RankFailed("the ranks do not end; one may wait for another that has stopped.")
        time.sleep(_LOOK_S)
        codes = [process.poll() for process in processes]
    # A rank that a signal ended has said nothing, but it is why others complain.
    for rank, code in sorted(enumerate(codes), key=lambda one: one[1] or 0):
        if code and code < 0:
            raise RankFailed(f"rank {rank} was ended by signal {-code}.")
        if code:
            raise RankFailed(f"rank {rank} failed: {_last_words(folder / f'{rank}.txt')}")


def _last_words(file: Path) -> str:
    lines = file.read_text("utf-8", errors="replace").strip().splitlines()
    return without_folders(lines[-1].strip())[:300] if lines else "it said nothing."
