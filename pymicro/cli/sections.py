"""The list of commands by what one wants, as the README and the help show it."""

from __future__ import annotations

from collections.abc import Iterator

import click

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Measure",
        ("gemm", "bandwidth", "latency", "peak", "transfer", "launch", "collective", "suite"),
    ),
    ("This machine", ("doctor", "devices", "readiness", "show")),
    ("Whole jobs", ("e2e", "predict", "explain", "recommend", "profile")),
    ("Cards and stored runs", ("compare", "roofline")),
)


class Sections(click.Group):
    """A group that lists its commands by section; those of plugins come last."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, rows in self._listed(context):
            with formatter.section(title):
                formatter.write_dl(rows)

    def _listed(self, context: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        known = {name for _, names in SECTIONS for name in names}
        others = tuple(name for name in self.list_commands(context) if name not in known)
        for title, names in (*SECTIONS, ("Others", others)):
            own = [command for name in names if (command := self.get_command(context, name))]
            rows = [(c.name or "", c.get_short_help_str(limit=62)) for c in own if not c.hidden]
            if rows:
                yield title, rows
