"""Every command that the help, the README or the documents show is one that can be typed."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pymicro.analysis.study import studies
from pymicro.cli import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Answers from data that ships, in a second or so each.
CHEAP = ("compare", "devices", "explain", "predict", "readiness", "recommend", "roofline", "suite")


def of_help():
    for name, command in cli.commands.items():
        for line in (command.epilog or "").splitlines():
            if line.strip().startswith("pymicro "):
                yield f"{name} --help", line.strip()
    for line in (cli.epilog or "").splitlines():
        if line.strip().startswith("pymicro "):
            yield "--help", line.strip()


def of_documents():
    for path in DOCUMENTS:
        for block in re.findall(r"```bash\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
            for line in block.splitlines():
                if line.startswith("pymicro "):
                    yield path.name, line


def of_studies():
    for name, row in studies().items():
        for cause in row["cause"]:
            yield f"--case {name}", cause["settle"].split(" (")[0].split(", ")[0]


EXAMPLES = list(dict.fromkeys([*of_help(), *of_documents(), *of_studies()]))


def words_of(line):
    """What would be typed: no comment, no remark after two blanks."""
    line = re.split(r"\s{2,}(?=\S)|\s#", line.removeprefix("pymicro "))[0]
    return shlex.split(line.split(" > ")[0])


def test_there_are_examples():
    assert len(EXAMPLES) > 60
    assert {Path("README.md").name, "--case 5090", "gemm --help"} <= {
        where for where, _ in EXAMPLES
    }


@pytest.mark.parametrize(("where", "line"), EXAMPLES, ids=lambda text: text[:60])
def test_every_example_parses(where, line):
    name, *rest = words_of(line)
    command = cli.commands[name]
    if "--list" in rest and "--for" not in rest:  # An eager option, which would print at once.
        rest.remove("--list")
    with click.Context(cli) as parent, command.make_context(name, rest, parent=parent):
        pass


def cheap():
    """Commands whose subject is named, so that nothing of this machine is looked at."""
    for _, line in EXAMPLES:
        name, *rest = words_of(line)
        reads = {"--trace", "--result", "--measure", "--require"} & set(rest)
        reads |= {word for word in rest if word.endswith(".jsonl")}
        if name not in CHEAP or not rest or reads:
            continue
        if name == "readiness" and "--stack" not in rest:
            continue
        about_here = name in ("roofline", "predict", "explain") and rest[0].startswith("-")
        if about_here and "--case" not in rest:
            continue
        yield line


@pytest.mark.parametrize("line", sorted(set(cheap())))
def test_examples_that_need_no_device_answer(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    words = words_of(line)
    if words[0] == "suite":
        words.append("--list")
    if words[0] == "explain" and not {"--device", "--case"} & set(words):
        words += ["--device", "4090"]
    done = CliRunner(env={"COLUMNS": "100"}).invoke(cli, words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.output
    drawn = [w for w in words if w.endswith((".html", ".png", ".svg", "t5.json"))]
    assert all((tmp_path / name).stat().st_size for name in drawn)
