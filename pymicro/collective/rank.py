"""The program of one rank: `python -m pymicro.collective.rank JOB FILE`.

RANK, WORLD_SIZE and LOCAL_RANK are in the environment, as torchrun sets them. All ranks go through
the same points in the same order; rank 0 alone decides how often, and writes a line a point.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pymicro import sampling
from pymicro.backends.base import import_library
from pymicro.collective.job import Job
from pymicro.collective.operations import FORMATS
from pymicro.collective.timer import TeamTimer
from pymicro.errors import PymicroError, WrongResult

# Where ranks of this host meet, if not as torchrun arranges it.
MEETING = "PYMICRO_COLLECTIVE_MEETING"
_PATIENCE = timedelta(seconds=90)
_BATCH_S = 0.005
# What torch says where a library lacks a collective, and where memory does not hold the arrays.
_LACKING = ("does not support", "out of memory", "can't allocate memory")
_FAULTS = (PymicroError, RuntimeError, NotImplementedError)


def run(job: Job, keep: Callable[[dict[str, Any]], None]) -> None:
    """Take part in all points; on rank 0, `keep` gets a record of each as it ends."""
    torch = import_library("torch")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = "cpu"
    if job.kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = "cuda"
    dist = torch.distributed
    where = {"init_method": os.environ[MEETING]} if MEETING in os.environ else {}
    dist.init_process_group(job.backend, rank=rank, world_size=ranks, timeout=_PATIENCE, **where)
    try:
        control = dist.new_group(backend="gloo")
        timer = TeamTimer(torch, job.kind == "cuda", control)
        points = list(job.points(ranks))
        for operation, size in points:
            told = _point(torch, timer, job, operation, size, device, job.budget_s / len(points))
            if rank == 0:
                keep({"operation": operation, "size": size, "ranks": ranks} | told)
    finally:
        dist.destroy_process_group()


def _point(
    torch: Any, timer: TeamTimer, job: Job, operation: str, size: int, device: str, budget_s: float
) -> dict[str, Any]:
    """Make, check and time one collective; what came of it."""
    try:
        arrays = _checked(torch, timer, job, operation, size, device)
        plan = sampling.Plan(budget_s=budget_s, batch_s=_BATCH_S)
        if torch.distributed.get_rank():
            timer.follow(arrays.call)
            return {}
        try:
            (samples,) = sampling.sustained(timer, [arrays.call], plan)
        finally:
            timer.stop()
    except _FAULTS as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        is_missing = isinstance(error, NotImplementedError) or any(w in said for w in _LACKING)
        return {"reason": said[:300], "outcome": "skipped" if is_missing else "failed"}
    return {
        "times_s": samples.times_s,
        "repeats": samples.repeats,
        "stopped": samples.stopped,
        "timer": timer.name,
    }


def _checked(
    torch: Any, timer: TeamTimer, job: Job, operation: str, size: int, device: str
) -> Arrays:
    """The arrays after one call that was right on all ranks.

    Ranks tell each other how it went, so that one that failed alone does not leave the others
    behind in this point while it goes on to the next.

    Raises:
        WrongResult: elements differ. PymicroError, RuntimeError, NotImplementedError: here or on
        another rank the collective cannot be done.
    """
    fault, wrong = None, 0
    try:
        arrays = Arrays(torch, operation, size, job.dtype, device)
        arrays.call()
        wrong = arrays.wrong()
    except _FAULTS as error:
        fault = error
    faults, wrong = int(timer.total(fault is not None)), int(timer.total(wrong))
    if fault is not None:
        raise fault
    if faults:
        raise PymicroError(f"{faults} other ranks failed.")
    if wrong:
        raise WrongResult(f"wrong result: {wrong} elements differ, over all ranks.")
    return arrays


class Arrays:
    """The arrays of one collective on this rank, and the call.

    Places hold small whole numbers with a prime period. What is gathered is shifted by a number of
    each rank's own. To each place of a sum one rank gives its number, the next one gives one more
    and all others nothing: a rank that is left out, counted twice or takes another's place shows,
    and sums are exact in every format however many ranks there are. An all-reduce is done in
    place, again and again: its numbers grow beyond all bounds once they were checked, which costs
    no time.
    """

    def __init__(self, torch: Any, operation: str, size: int, dtype: str, device: str) -> None:
        self._torch, self._operation = torch, operation
        name, below = FORMATS[dtype]
        self._below, dist = below, torch.distributed
        self._kind = {"dtype": getattr(torch, name), "device": device}
        rank, ranks = dist.get_rank(), dist.get_world_size()
        count = size // self._kind["dtype"].itemsize
        part = count // ranks
        # Places cost more memory than what stands in them: half of it where they fit 32 bits.
        wide = torch.int32 if count + ranks < 2**31 else torch.int64
        if operation == "all-gather":
            self._out = torch.full((count,), -1, **self._kind)
            places = torch.arange(part, device=device, dtype=wide)
            given = self._numbers(places + rank * part + rank)
            parts = (self._numbers(places + r * part + r) for r in range(ranks))
            self._expected = torch.cat(list(parts))
            gather = _named(dist, "all_gather_single", "all_gather_into_tensor")
            self.call = lambda: gather(self._out, given)
            return
        places = torch.arange(count, device=device, dtype=wide)
        sums = self._numbers(places) + 1
        given = self._numbers(places) * (places % ranks == rank) + ((places + 1) % ranks == rank)
        if operation == "all-reduce":
            self._out, self._expected = given, sums
            self.call = lambda: dist.all_reduce(self._out)
            return
        self._out = torch.full((part,), -1, **self._kind)
        self._expected = sums[rank * part : (rank + 1) * part]
        scatter = _named(dist, "reduce_scatter_single", "reduce_scatter_tensor")
        self.call = lambda: scatter(self._out, given)

    def _numbers(self, places: Any) -> Any:
        """Below the prime of the format."""
        return (places % self._below).to(self._kind["dtype"])

    def wrong(self) -> int:
        """How many elements differ from what one call must leave."""
        return int((self._out != self._expected).sum())


def _named(dist: Any, *names: str) -> Any:
    """The first that this torch has; the later names are those of older ones."""
    return next(getattr(dist, name) for name in names if hasattr(dist, name))


def _end_with_the_other() -> None:
    """End when who started this rank has ended, however: its end of our stdin is then closed.

    A rank that outlived it would hold its GPU for ever.
    """
    os.read(0, 1)
    os._exit(1)


def main(words: list[str]) -> int:
    job, file = words
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    with open(file, "a", encoding="utf-8") as out:

        def keep(record: dict[str, Any]) -> None:
            out.write(json.dumps(record) + "\n")
            out.flush()

        run(Job.from_json(job), keep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
