"""Recording a few steps of a running job with PyTorch's profiler.

This file travels into other people's processes, where pymicro need not be installed: it knows the
standard library, and torch once the job itself has imported it.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ENVIRONMENT = "PYMICRO_PROFILE"
# Before the recording, so many steps are timed with the profiler off: what it costs is then known.
# They follow steps that may compile or tune.
_TIMED, _UNTIMED = 5, 3
# Forward calls with gradients and no optimiser step: so many times `skip` are inference after all.
_PATIENCE = 10


@dataclass(frozen=True)
class Settings:
    """What to record.

    Attributes:
        path: the trace, `.json` or `.json.gz`; of several ranks each writes `NAME.rank3.json.gz`.
        skip: steps that pass first: compiling, tuning and the allocator settle in them.
        steps: steps that are recorded.
        shapes: operand shapes, which cost the host a little time an operator.
        stacks: Python's call stacks, which cost the host much time.
        unit: what ends a step: `optimizer`, `forward` (of the outermost module), or `auto`.
        end: leave the program when the trace is written.
    """

    path: str
    skip: int = 10
    steps: int = 5
    shapes: bool = True
    stacks: bool = False
    unit: str = "auto"
    end: bool = False

    def __post_init__(self) -> None:
        if self.skip < 0 or self.steps < 1:
            raise ValueError("skip must be at least 0 and steps at least 1")
        if not self.path.endswith((".json", ".json.gz")):
            raise ValueError(f"{self.path}: a trace is named .json or .json.gz")


class Recorder:
    """Counts steps; lets `skip` pass, records `steps`, writes the trace, and is then idle."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.written: Path | None = None
        self._count = 0
        self._timed = max(min(_TIMED, settings.skip - _UNTIMED), 0)
        self._begin_s = 0.0
        self._untraced_step_s: float | None = None
        self._profile: Any = None
        if settings.skip == 0:
            self._start(warm_up=0)

    @property
    def is_done(self) -> bool:
        return self.written is not None

    @property
    def count(self) -> int:
        """Steps seen so far."""
        return self._count

    def step(self) -> None:
        """Say that a step has ended."""
        if self.is_done:
            return
        self._count += 1
        left = self.settings.skip - self._count
        if left in (0, self._timed):
            # Work queued earlier would run inside the recording without appearing in it.
            _synchronize()
            self._time(left)
        if self._profile is not None:
            self._profile.step()
            if left == 0:  # What is added after the recording does not reach the file.
                self._profile.add_metadata_json("pymicro", json.dumps(self._told()))
            if self.is_done and self.settings.end:
                raise SystemExit(0)
        elif left <= 1:
            self._start(warm_up=left)

    def _time(self, left: int) -> None:
        if left == self._timed and left:
            self._begin_s = time.perf_counter()
        elif self._timed:
            self._untraced_step_s = (time.perf_counter() - self._begin_s) / self._timed

    def stop(self) -> None:
        """Write what was recorded so far, if anything was."""
        profile, self._profile = self._profile, None
        if profile is not None and not self.is_done:
            started = self._count >= self.settings.skip
            if not started:
                profile.on_trace_ready = None
            profile.stop()

    def _start(self, warm_up: int) -> None:
        from torch import profiler

        kinds = profiler.ProfilerActivity
        activities = [k for k in profiler.supported_activities() if k in (kinds.CPU, kinds.CUDA)]
        with warnings.catch_warnings():
            # Torch warns of no warm-up, which was asked for, and of cycles, of which there is one.
            warnings.simplefilter("ignore")
            self._profile = profiler.profile(
                activities=activities,
                schedule=profiler.schedule(
                    wait=0, warmup=warm_up, active=self.settings.steps, repeat=1
                ),
                on_trace_ready=self._write,
                record_shapes=self.settings.shapes,
                with_stack=self.settings.stacks,
            )
        self._profile.start()

    def _write(self, profile: Any) -> None:
        path = Path(rank_path(self.settings.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        profile.export_chrome_trace(str(path))
        self.written = path

    def _told(self) -> dict[str, Any]:
        """What the reader of the trace should know of its making."""
        settings = {k: v for k, v in asdict(self.settings).items() if k != "path"}
        return {"settings": settings, "untraced_step_s": self._untraced_step_s}


def rank_path(path: str) -> str:
    """The file of this rank; the path itself where there is one process."""
    rank, size = _rank()
    if size <= 1:
        return path
    ending = ".json.gz" if path.endswith(".gz") else ".json"
    return f"{path[: -len(ending)]}.rank{rank}{ending}"


def _rank() -> tuple[int, int]:
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
    except (AttributeError, RuntimeError):
        pass  # a build without torch.distributed
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1


def _synchronize() -> None:
    torch = sys.modules["torch"]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Watcher:
    """Finds the steps of a program that knows nothing of profiling.

    In training a step ends with the first optimiser's `step()`; in inference with the return of
    the outermost module's forward call.
    """

    def __init__(self, settings: Settings) -> None:
        self._recorder: Recorder | None = None
        self._unit = ""
        self._settings = settings
        self._optimizer: int | None = None
        self._forwards = 0
        self._inside = False

    def install(self, torch: Any) -> None:
        """Hook into torch, which has just been imported, and write what there is at exit."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        atexit.register(self._leave)
        if self._settings.unit != "forward":
            register_optimizer_step_post_hook(self._after_optimizer)
        if self._settings.unit != "optimizer":
            self._wrap(torch.nn.Module)

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._optimizer is None:
            self._optimizer = id(optimizer)
        if self._optimizer == id(optimizer):
            self._step("optimizer")

    def _wrap(self, module: Any) -> None:
        original = module.__call__

        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside or self._optimizer is not None:
                return original(this, *args, **kwargs)
            self._inside = True
            try:
                return original(this, *args, **kwargs)
            finally:
                self._inside = False
                self._after_forward()

        module.__call__ = call

    def _after_forward(self) -> None:
        self._forwards += 1
        if self._settings.unit == "forward" or self._is_inference():
            self._step("forward")

    def _is_inference(self) -> bool:
        torch = sys.modules["torch"]
        patience = 1 if not torch.is_grad_enabled() else _PATIENCE * max(self._settings.skip, 1)
        return self._forwards >= patience

    def _step(self, unit: str) -> None:
        if self._recorder is None or (unit == "optimizer" and self._unit != unit):
            if self._recorder is not None and self._recorder.count >= self._settings.skip:
                return  # already recording the other unit
            self._recorder, self._unit = Recorder(self._settings), unit
        self._recorder.step()

    def _leave(self) -> None:
        recorder = self._recorder
        if recorder is None:
            return  # a launcher or a data worker: it never took a step
        recorder.stop()
        if not recorder.is_done:
            print(
                f"pymicro: the program ended after {recorder.count} steps, before the recording "
                f"began; --skip {max(recorder.count // 2, 0)} leaves some to record.",
                file=sys.stderr,
            )


def watch(torch: Any) -> None:
    """Record in this process as the environment says."""
    Watcher(Settings(**json.loads(os.environ[ENVIRONMENT]))).install(torch)
