"""A command that checks its options in one place: none is empty, no number, or idle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from pymicro.errors import UsageError


class Command(click.Command):
    """A click command that refuses, in a sentence, values that could only be ignored.

    `needs` says by parameter which others, at least one of them, must be given beside it.
    """

    def __init__(
        self, *args: Any, needs: Mapping[str, tuple[str, ...]] | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._needs = dict(needs or {})

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        """As click's, then the checks.

        Raises:
            UsageError: a value is empty or not a number, two options contradict each other, or
                one would change nothing.
        """
        rest = super().parse_args(context, words)
        if not context.resilient_parsing:  # While a shell completes, half a line is no mistake.
            for param in self.params:
                _refuse_nothing(param, context.params.get(param.name or ""))
            if _is_given(context, "store") and _is_given(context, "no_store"):
                raise UsageError("--store and --no-store contradict each other.")
            for name, others in self._needs.items():
                self._refuse_idle(context, name, others)
        return rest

    def _refuse_idle(self, context: click.Context, name: str, others: tuple[str, ...]) -> None:
        if _is_given(context, name) and not any(_is_given(context, o) for o in others):
            wanted = " or ".join(self._word(other) for other in others)
            raise UsageError(f"{self._word(name)} means nothing without {wanted}.")

    def _word(self, name: str) -> str:
        return next(_word(param) for param in self.params if param.name == name)


def _word(param: click.Parameter) -> str:
    """What the user writes: `--size`, `MODEL`."""
    if isinstance(param, click.Option):
        return param.opts[0]
    return param.human_readable_name.strip("[]")


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) == ParameterSource.COMMANDLINE


def _refuse_nothing(param: click.Parameter, value: Any) -> None:
    if param.nargs == -1:  # The words of another program may well be empty.
        return
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, str) and not part.strip():
            raise UsageError(f"{_word(param)} is empty; give it a value or leave it out.")
        if isinstance(part, float) and math.isnan(part):
            raise UsageError(f"{_word(param)} nan: that is no number.")
