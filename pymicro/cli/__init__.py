"""Words to cases, results to text. Sub-commands follow from the suite; nothing heavy loads here."""

from __future__ import annotations

import contextlib
import os
import sys

import click

import pymicro
from pymicro.cli import (
    collective,
    compare,
    devices,
    doctor,
    e2e,
    explain,
    measure,
    output,
    predict,
    profile,
    readiness,
    recommend,
    results,
    roofline,
    suite,
)
from pymicro.cli.sections import Sections
from pymicro.errors import PymicroError
from pymicro.suite import benchmarks

_EPILOG = """\b
Examples:
  pymicro gemm --dtype fp16                  all backends, checked and timed
  pymicro doctor                             what is broken, and what to do
  pymicro e2e distilbert --quick             a whole job, phase by phase
  pymicro predict t5 --device 4090           its time on a card not at hand
  pymicro explain --trace trace.json.gz      where any PyTorch job's time goes
  pymicro compare H100 4090                  data sheets, published, measured

\b
Exit codes: 0 done, 1 a case failed, 2 a wrong option, 3 nothing to measure.
Completion: eval "$(_PYMICRO_COMPLETE=bash_source pymicro)" (or zsh_, fish_)
"""


@click.group(cls=Sections, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pymicro.__version__, prog_name="pymicro")
def cli() -> None:
    """GPU kernel micro-benchmarks: how close this machine comes to what its silicon can do."""


for _benchmark in benchmarks().values():
    cli.add_command(measure.command(_benchmark))
cli.add_command(collective.command)
cli.add_command(devices.command)
cli.add_command(doctor.command)
cli.add_command(readiness.command)
cli.add_command(results.show)
cli.add_command(compare.command)
cli.add_command(roofline.command)
cli.add_command(e2e.command)
cli.add_command(explain.command)
cli.add_command(profile.command)
cli.add_command(predict.command)
cli.add_command(recommend.command)
cli.add_command(suite.command)


def main() -> None:
    """Run the command line and exit; a foreseen problem is one sentence on stderr."""
    try:
        code = cli.main(prog_name="pymicro", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except PymicroError as error:
        click.echo(f"pymicro: {error}", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("pymicro: interrupted.", err=True)
        code = 130
    except output.GONE:
        output.forget()
        code = 0
    except OSError as error:
        click.echo(f"pymicro: output cannot be written: {error.strerror or error}.", err=True)
        output.forget()
        code = 1
    _leave(code or 0)


def _leave(code: int) -> None:
    """Exit; without any tidying up where torch's profiler has watched a GPU.

    Its library may still own buffers that torch frees as the process ends, which breaks the heap
    (pytorch/pytorch#195207): a run that is over and written would end in an abort.
    """
    runner = sys.modules.get("pymicro.e2e.runner")
    if runner is None or not runner.PROFILED:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
