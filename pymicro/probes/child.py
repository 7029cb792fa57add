"""Running things that may crash or hang: probes in a Python of their own, and tools by name.

The parent never imports what it asks about; a crash, a signal or a time-out is an answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

_CHILDREN = Path(__file__).parent / "children"
Ending = Literal["ok", "error", "crash", "timeout"]


@dataclass(frozen=True)
class Report:
    """What a probe told before it ended.

    Attributes:
        ended: `ok`; `error`, an exception; `crash`, by a signal or without a word; `timeout`.
        step: what it was doing last, in words.
        how: the exception with its text, the signal's name, or the time limit; empty if ok.
        facts: by name; a fact that the library lacks is not there, and `no_<name>` says why.
    """

    ended: Ending
    step: str = ""
    how: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """False only where the probe said so: a crash on the way there is no proof."""
        return self.facts.get("installed", True)

    @property
    def is_ok(self) -> bool:
        return self.ended == "ok"


def ask(probe: str, env: Mapping[str, str], timeout_s: float, **argument: Any) -> Report:
    """Run `children/<probe>.py` under a time limit, in a session of its own so that whatever it
    started ends with it."""
    command = [sys.executable, "-P", str(_CHILDREN / "launch.py")]
    command += [str(_CHILDREN / f"{probe}.py"), json.dumps(argument)]
    told = _run(command, env, timeout_s)
    facts: dict[str, Any] = {}
    for line in told.out.splitlines():
        with contextlib.suppress(ValueError):  # The last line of a crash may be cut short.
            facts.update(json.loads(line))
    step, warnings = facts.pop("step", "start"), tuple(facts.pop("warnings", ()))
    ended, said = facts.pop("ended", None), facts.pop("said", "")
    if ended == "error":
        how = f"{facts.pop('error')}: {said}"
    elif ended == "ok":
        how = ""
        facts |= {"said": said} if said else {}
    else:
        ended = "timeout" if told.code is None else "crash"
        how = told.why or f"exit code {told.code}"
    return Report(ended, step, how, facts, warnings)


@dataclass(frozen=True)
class Said:
    """How a program ended. `code` is None where it could not run or took too long; `why` then
    says which, and names the signal of a crash."""

    code: int | None
    out: str = ""
    err: str = ""
    why: str = ""


def run_tool(command: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Said:
    """Run a program with the C locale, so that its numbers have points."""
    return _run(list(command), {**env, "LC_ALL": "C", "LANG": "C", "LANGUAGE": "C"}, timeout_s)


def find_tool(name: str, env: Mapping[str, str]) -> str | None:
    """The path of a program on the PATH of `env`."""
    import shutil

    return shutil.which(name, path=env.get("PATH", os.defpath))


def _run(command: list[str], env: Mapping[str, str], timeout_s: float) -> Said:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return Said(None, why=f"cannot be started ({error.strerror})")
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        return Said(None, out, err, f"no answer within {timeout_s:g} s")
    except BaseException:
        _end(process)
        raise
    code = process.returncode
    return Said(code, out, err, _signal_name(code) if code < 0 else "")


def _end(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
