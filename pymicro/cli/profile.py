"""`pymicro profile`: run a program and record a few of its steps."""

from __future__ import annotations

import glob
import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path

import click

from pymicro.cli.checked import Command

_EXAMPLES = """\b
Examples:
  pymicro profile -- python train.py --epochs 1
  pymicro profile --skip 50 -- torchrun --nproc-per-node 4 train.py
  pymicro explain --trace trace.json.gz
"""


@click.command(
    "profile", cls=Command, short_help="Record a trace of any PyTorch program.", epilog=_EXAMPLES
)
@click.option("--out", metavar="FILE", default="trace.json.gz", show_default=True)
@click.option(
    "--skip", type=click.IntRange(0), default=10, show_default=True, help="steps to let pass first"
)
@click.option(
    "--steps", type=click.IntRange(1), default=5, show_default=True, help="steps to record"
)
@click.option(
    "--step",
    "unit",
    type=click.Choice(("auto", "optimizer", "forward")),
    default="auto",
    show_default=True,
    help="what ends a step: optimizer.step(), or the outermost module's forward call",
)
@click.option("--no-shapes", is_flag=True, help="leave shapes out: less load on the host")
@click.option("--stacks", is_flag=True, help="Python stacks too: much more load on the host")
@click.option("--end", is_flag=True, help="end the program when the trace is written")
@click.argument("words", nargs=-1, required=True, metavar="-- PROGRAM [ARGUMENT]...")
def command(
    out: str,
    skip: int,
    steps: int,
    unit: str,
    no_shapes: bool,
    stacks: bool,
    end: bool,
    words: tuple[str, ...],
) -> int:
    """Run PROGRAM unchanged and record some of its steps with PyTorch's profiler.

    Every Python process below PROGRAM that trains or infers writes a trace; several ranks write
    one each. Exit code: the program's; 3 if it wrote no trace.
    """
    from pymicro import profiling
    from pymicro.errors import Unavailable, UsageError

    path = os.path.abspath(out)
    if not os.access(os.path.dirname(path), os.W_OK):
        raise UsageError(f"--out {out}: no trace can be written there.")
    wanted = profiling.settings(
        path, skip=skip, steps=steps, shapes=not no_shapes, stacks=stacks, unit=unit, end=end
    )
    earlier = _stamps(path)
    code = _run(words, json.dumps(asdict(wanted)))
    made = sorted(name for name, stamp in _stamps(path).items() if earlier.get(name) != stamp)
    if not made:
        if code:
            raise Unavailable(f"{words[0]} ended with exit code {code} and wrote no trace.")
        raise Unavailable(
            "no trace was written: no Python process of this program took enough steps with torch "
            "(see --skip and --step), or it runs with -I, -E or -S, which keep recorders out."
        )
    subject = out if len(made) == 1 else str(Path(out).parent)
    click.echo(f"{len(made)} trace(s) written; next: pymicro explain --trace {subject}", err=True)
    return code


def _run(words: tuple[str, ...], settings: str) -> int:
    from pymicro import profiling
    from pymicro.errors import UsageError

    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(profiling.INJECTED), *([before] if before else [])])
    environment = os.environ | {"PYTHONPATH": path, profiling.ENVIRONMENT: settings}
    try:
        return subprocess.run(words, env=environment, check=False).returncode
    except (FileNotFoundError, PermissionError):
        raise UsageError(f"there is no program '{words[0]}' that could be started.") from None


def _stamps(path: str) -> dict[str, int]:
    """The traces at a path, of one rank or many, and when each was written."""
    ending = ".json.gz" if path.endswith(".gz") else ".json"
    start = glob.escape(path.removesuffix(ending))
    names = [*glob.glob(f"{start}{ending}"), *glob.glob(f"{start}.rank*{ending}")]
    return {name: os.stat(name).st_mtime_ns for name in names}
