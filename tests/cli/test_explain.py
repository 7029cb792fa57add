"""`explain --trace` and `profile` as commands."""

import gzip
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from synthetic_trace import Job, write

from pymicro.cli import cli
from pymicro.errors import Unavailable, UsageError

TRAINING = """
import sys, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for i in range(int(sys.argv[1])):
    if sys.argv[2] == 'train':
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    else:
        with torch.no_grad():
            model(torch.ones(2, 4))
print('steps', i + 1)
"""


@pytest.fixture
def trace(tmp_path):
    job = Job()
    for _ in range(3):
        with job.step():
            for _ in range(50):
                job.op()
    return write(tmp_path / "trace.json.gz", job.document())


def run(*words):
    return CliRunner().invoke(cli, list(words), standalone_mode=False)


@pytest.mark.parametrize("format_", ["table", "json", "csv", "markdown"])
def test_a_trace_is_explained(trace, format_):
    done = run("explain", "--trace", str(trace), "--format", format_)
    assert done.exception is None
    assert "host" in done.output
    if format_ == "json":
        assert json.loads(done.output)["profile"]["causes"][0]["code"] == "host-bound"


def test_no_trace_is_a_wrong_word(tmp_path):
    assert isinstance(run("explain").exception, UsageError)
    (tmp_path / "x.json").write_text("{}")
    done = run("explain", "--trace", str(tmp_path / "x.json"))
    assert isinstance(done.exception, UsageError)
    assert done.exception.exit_code == 2


def test_explaining_needs_no_torch(trace):
    code = f"""
import sys
sys.argv[1:] = ['explain', '--trace', {str(trace)!r}]
from pymicro.cli import main
try:
    main()
except SystemExit as error:
    assert not error.code
assert 'torch' not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def profile(tmp_path, *words, steps=20, kind="train"):
    script = tmp_path / "job.py"
    script.write_text(TRAINING)
    out = tmp_path / "out.json.gz"
    done = run(
        "profile", "--out", str(out), *words, "--", sys.executable, str(script), str(steps), kind
    )
    return done, out


@pytest.mark.parametrize("kind", ["train", "infer"])
def test_a_program_is_recorded_without_a_change(tmp_path, kind):
    pytest.importorskip("torch")
    done, out = profile(tmp_path, "--skip", "6", "--steps", "2", kind=kind)
    assert done.exception is None
    assert done.return_value == 0
    with gzip.open(out) as file:
        document = json.load(file)
    marks = {e["name"] for e in document["traceEvents"] if "ProfilerStep" in e.get("name", "")}
    assert len(marks) == 2
    assert document["pymicro"]["untraced_step_s"] > 0
    assert "path" not in document["pymicro"]["settings"]


def test_a_program_that_ends_too_early_leaves_no_trace_and_that_is_said(tmp_path):
    pytest.importorskip("torch")
    done, out = profile(tmp_path, "--skip", "30")
    assert isinstance(done.exception, Unavailable)
    assert "no trace was written" in str(done.exception)
    assert not out.exists()


def test_a_program_that_is_not_there_is_a_wrong_word(tmp_path):
    done = run("profile", "--out", str(tmp_path / "t.json"), "--", "no-such-program")
    assert isinstance(done.exception, UsageError)


def test_a_name_that_is_no_traces_is_refused_before_anything_runs(tmp_path):
    done = run("profile", "--out", str(tmp_path / "t.txt"), "--", sys.executable, "-c", "1/0")
    assert isinstance(done.exception, UsageError)


def test_a_trace_that_cannot_be_written_is_refused_before_the_program_runs(tmp_path):
    ran = tmp_path / "ran"
    out = str(tmp_path / "none" / "trace.json.gz")
    with pytest.raises(UsageError, match="no trace can be written there"):
        cli.main(["profile", "--out", out, "--", "touch", str(ran)], standalone_mode=False)
    assert not ran.exists()
