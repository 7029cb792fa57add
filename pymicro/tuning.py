"""`pymicro gemm --tune`: which of our CUDA rows is the fastest for a problem, found by trying all.

Every candidate is compiled and checked against the reference first, also those that ran on no card
yet; one that is wrong is dropped with a note. Bursts in turns thin out the rest; those that are
about as fast then run under load, since on a power-capped card it is energy that decides.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pymicro import driver, sampling, stats
from pymicro.backends.base import Call, Place
from pymicro.backends.cuda import gemm, gemm_tuned
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.benchmark import Benchmark, Case
from pymicro.errors import PymicroError, UsageError
from pymicro.sampling import Plan
from pymicro.timers import Timer
from pymicro.workbench import Problem, Workbench

_ROUNDS = 3  # of bursts
_FAR_OFF = 2.0  # slower than the best by this in a first look: not worth a burst
_CLOSE = 1.05  # within this of the best burst: load decides
_LONGEST_CHECK_S = 60.0


class Hung(PymicroError):
    """A kernel did not end; the process must."""


@dataclass
class Found:
    """What a search gave: the winner's name (None: nobody was left), seconds a call, notes."""

    winner: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def search(
    timer: Timer, makers: Mapping[str, Callable[[], Call]], check: Callable[[str, Call], None]
) -> Found:
    """Compile all, check all, time those that are right.

    makers: name -> compiles, loads and binds. check: runs a call once and raises where it is
    wrong, which drops it; Hung ends the search.
    """
    found, calls = Found(), {}
    for name, make in makers.items():
        try:
            calls[name] = make()
        except Exception as error:  # A kernel that only fails costs nobody else.
            found.notes.append(f"{name} dropped: {_first_line(error)}")

    def is_right(name: str) -> bool:
        try:
            check(name, calls[name])
        except Hung:
            raise
        except Exception as error:
            found.notes.append(f"{name} dropped: {_first_line(error)}")
            return False
        return True

    calls = {name: call for name, call in calls.items() if is_right(name)}
    while calls:
        winner = _time(timer, calls, found)
        # Once more after so many calls: a kernel may leave something behind that spoils the next.
        if is_right(winner):
            found.winner = winner
            break
        del calls[winner]
        found.seconds.pop(winner, None)
    return found


def _time(timer: Timer, calls: Mapping[str, Call], found: Found) -> str:
    """The fastest of them; puts seconds and what load decided into `found`."""
    looks = {name: _first_look(timer, call) for name, call in calls.items()}
    near = _within(looks, _FAR_OFF)
    bursts: dict[str, list[float]] = {name: [] for name in near}
    for round_ in range(_ROUNDS):
        for name in near if round_ % 2 == 0 else reversed(near):
            bursts[name] += sampling.burst(timer, calls[name], Plan()).times_s
    seconds = {name: stats.median(times) for name, times in bursts.items()}
    close = _within(seconds, _CLOSE)
    found.seconds = {n: taken for n, taken in (looks | seconds).items() if math.isfinite(taken)}
    if len(close) == 1:
        return close[0]
    plan = Plan(min_seconds=1.0, budget_s=2.5, batch_s=0.025, block_s=0.25)
    tracks = sampling.sustained(timer, [calls[name] for name in close], plan)
    loaded = {n: stats.median(t.times_s) for n, t in zip(close, tracks, strict=True)}
    told = ", ".join(f"{name} {1e6 * taken:.4g} us" for name, taken in loaded.items())
    found.notes.append(f"under load: {told}")
    return min(loaded, key=loaded.__getitem__)


def _first_look(timer: Timer, call: Call) -> float:
    times = [timer.time(call, 1).seconds for _ in range(2)]
    return min((t for t in times if t > 0), default=math.inf)


def _within(seconds: Mapping[str, float], factor: float) -> list[str]:
    """Names not slower than the fastest by more than a factor, the fastest first."""
    best = min(seconds.values())
    ordered = sorted(seconds, key=seconds.__getitem__)
    return [name for name in ordered if seconds[name] <= factor * best]


def tune(
    benchmark: Benchmark, planned: Sequence[Case], fill: str, seed: int, bench: Workbench
) -> Iterator[str]:
    """Search for every problem of our CUDA backend in a plan; says what it found, a line each.

    Raises:
        UsageError: there is nothing to tune: no GPU, no such backend here, or a path was asked for.
        Hung: a kernel did not end.
    """
    if bench.place.kind != "cuda":
        raise UsageError("--tune measures on a GPU, and this run is on the CPU.")
    cases = [case for case in planned if case.backend == "cuda" and case.variant]
    cases = [case for case in cases if case.params["path"] == "auto"]
    if not cases:
        raise UsageError("--tune is for the cuda backend with --path auto; nothing here is.")
    memory = gemm_tuned.Memory()
    device = gemm_tuned.device_key(bench.place.index)
    for case in cases:
        try:
            problem = bench.problem(benchmark, case, fill, seed)
            found = _search_case(case, problem, bench, memory, device)
        except (Hung, UsageError):
            raise
        except PymicroError as reason:
            yield f"not tuned: {case.dtype}: {reason}"
            continue
        yield from (f"  {note}" for note in found.notes)
        yield f"tuned {gemm_tuned.shape_class(case)}: {found.winner or 'no row was left'}"


def _search_case(
    case: Case, problem: Problem, bench: Workbench, memory: gemm_tuned.Memory, device: str
) -> Found:
    rows = {row.name: row for row in gemm.candidates(case, bench.place)}
    avoided = {name: why for name, row in rows.items() if (why := _avoided(memory, device, row))}

    def check(name: str, call: Call) -> None:
        problem.poison()
        bench.synchronise()
        why = _spoils(call, bench)
        if why is not None:
            with contextlib.suppress(PymicroError):  # A file that cannot be written hides nothing.
                memory.avoid(device, rows[name], why)
            raise Hung(
                f"{name} left the GPU unusable ({why}) and will not be tried again; "
                "run --tune once more for the others."
            )
        problem.check()

    makers = {
        name: partial(gemm.bound, row, case, bench.place, problem.arrays)
        for name, row in rows.items()
        if name not in avoided
    }
    found = search(bench.timer, makers, check)
    found.notes = [f"{name} not tried: {why}" for name, why in avoided.items()] + found.notes
    if found.winner is not None:
        memory.keep(device, case, rows[found.winner], found.seconds)
    return found


def _avoided(memory: gemm_tuned.Memory, device: str, row: GemmKernel) -> str | None:
    try:
        return memory.avoided(device, row)
    except UsageError:
        raise
    except PymicroError:  # Damaged: nothing is known, and what is found will replace it.
        return None


def _spoils(call: Call, bench: Workbench) -> str | None:
    """Run a call and wait; why the GPU is of no use after it, None if it is.

    Raises:
        PymicroError: the call failed, and others may still run.
    """
    try:
        call()
        if not _ends(bench.place, _LONGEST_CHECK_S):
            return f"it had not ended after {_LONGEST_CHECK_S:g} s"
    except PymicroError as error:
        if not bench.is_alive():
            return _first_line(error)
        raise
    return None


def _ends(place: Place, seconds: float) -> bool:
    """Whether the stream is empty within this time."""
    cuda, until = driver.cuda(), time.monotonic() + seconds
    stream = cuda.CUstream(place.stream)
    while time.monotonic() < until:
        (code,) = cuda.cuStreamQuery(stream)
        if code != cuda.CUresult.CUDA_ERROR_NOT_READY:
            driver.check((code,))
            return True
        time.sleep(1e-4)
    return False


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
