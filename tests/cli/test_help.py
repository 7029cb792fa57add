"""The help: every command in a section, every line within eighty columns."""

import click
import pytest
from click.testing import CliRunner

from pymicro.cli import cli
from pymicro.cli.sections import SECTIONS


def help_of(*words):
    return CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*words, "--help"]).output


@pytest.mark.parametrize("words", [(), *((name,) for name in cli.commands)], ids=" ".join)
def test_help_fits_eighty_columns(words):
    assert [line for line in help_of(*words).splitlines() if len(line) > 80] == []


def test_every_command_is_listed_once_under_what_one_wants():
    listed = [name for _, names in SECTIONS for name in names]
    assert sorted(listed) == sorted(cli.commands)
    text = help_of()
    assert "Others:" not in text
    assert all(f"{title}:" in text for title, _ in SECTIONS)


def test_a_command_of_a_plugin_is_listed_too(monkeypatch):
    monkeypatch.setitem(cli.commands, "mine", click.Command("mine", short_help="A plugin's."))
    assert "Others:\n  mine" in help_of()


def test_the_exit_codes_stand_in_the_help():
    assert "0 done, 1 a case failed, 2 a wrong option, 3 nothing" in help_of()
