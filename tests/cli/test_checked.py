"""Every command refuses what it could only ignore: empty values, no numbers, idle options."""

import click
import pytest

from pymicro.cli import cli
from pymicro.cli.checked import Command
from pymicro.errors import UsageError

# What each command must be given before its options are looked at.
NEEDED = {
    "e2e": ["t5"],
    "predict": ["t5"],
    "recommend": ["t5"],
    "suite": ["--for", "t5"],
    "profile": ["--", "true"],
}


@pytest.fixture
def nothing_runs(monkeypatch):
    """A command that fails to refuse would measure, or wait for other processes."""
    for name, command in cli.commands.items():
        monkeypatch.setattr(command, "callback", lambda name=name, **given: pytest.fail(name))


def test_every_command_checks():
    assert [
        name for name, command in cli.commands.items() if not isinstance(command, Command)
    ] == []


def options(kinds):
    for name, command in cli.commands.items():
        for param in command.params:
            if isinstance(param, click.Option) and isinstance(param.type, kinds):
                yield name, param.opts[0]


def refusal(*words):
    with pytest.raises((UsageError, click.UsageError)) as caught:
        cli.main([*words], standalone_mode=False)
    error = caught.value
    return error.format_message() if isinstance(error, click.UsageError) else str(error)


def words(command, *given):
    needed = NEEDED.get(command, [])
    return (command, *given, *needed) if "--" in needed else (command, *needed, *given)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize(("command", "option"), list(options(click.types.StringParamType)))
def test_an_empty_value_is_refused_by_every_option(command, option, value):
    said = refusal(*words(command, f"{option}={value}"))
    assert option in said
    assert "empty" in said


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(("command", "option"), list(options(click.types.FloatParamType)))
def test_not_a_number_is_no_number(command, option):
    assert option in refusal(*words(command, option, "nan"))
    assert option in refusal(*words(command, option, "inf"))


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("devices --dtype fp32", "--for"),
        ("predict t5 --link pcie", "--gpus"),
        ("recommend distilbert --link pcie", "--gpus"),
        ("e2e t5 --to /tmp", "--trace-only"),
        ("readiness --budget 5", "--measure"),
    ],
)
def test_an_option_without_effect_names_the_one_it_goes_with(line, missing):
    assert missing in refusal(*line.split())


@pytest.mark.parametrize("line", ["--all", "--sort power", "--explain"])
def test_one_card_is_not_all_cards(line):
    assert "one card" in refusal("devices", "H100", *line.split())


def test_another_programs_words_may_be_empty(tmp_path):
    with pytest.raises(Exception, match="no trace was written"):
        cli.main(["profile", "--out", str(tmp_path / "t.json"), "true", ""], standalone_mode=False)
