"""`doctor` and `readiness` from outside: broken libraries around them, text and exit code out."""

import json
import os
import subprocess
import sys

import pytest

SEGFAULT = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = "import time\ntime.sleep(600)\n"
FAILS = "raise ImportError('cannot open /opt/x/libfoo.so.1 with key=hunter2')\n"
LIBRARIES = ("torch", "triton", "cupy", "numba", "cuda")


@pytest.fixture
def pymicro(tmp_path):
    """Calls pymicro with every GPU library replaced by a module of the given source."""

    def call(*words, modules=None, **env):
        folder = tmp_path / "modules"
        folder.mkdir(exist_ok=True)
        for name in LIBRARIES:
            (folder / f"{name}.py").write_text((modules or {}).get(name, FAILS))
        base = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        own = {"PYTHONPATH": os.pathsep.join([str(folder), os.getcwd()]), "COLUMNS": "160"}
        own |= {"XDG_DATA_HOME": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-m", "pymicro", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env=base | own | env,
        )

    return call


def findings(done):
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert document["results"] == []
    return {f["code"]: f for f in document["findings"]}


def test_crash_and_hang_are_findings_with_exit_1(pymicro):
    modules = {"torch": SEGFAULT, "cupy": HANG}
    done = pymicro("doctor", "--format", "json", "--timeout", "3", modules=modules)
    found = findings(done)
    assert found["torch-crashes"]["severity"] == "error"
    assert found["cupy-hangs"]["severity"] == "error"
    assert found["numba-broken"]["severity"] in ("warning", "error")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_importing_nothing_is_what_keeps_it_alive(pymicro):
    """Every library brings its process down, and doctor still says so for each."""
    done = pymicro("doctor", "--format", "json", modules=dict.fromkeys(LIBRARIES, SEGFAULT))
    codes = findings(done).keys()
    assert {"torch-crashes", "triton-crashes", "cupy-crashes", "numba-crashes"} <= codes
    assert "nvrtc-crashes" in codes
    assert done.returncode == 1


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU")
def test_without_a_gpu_it_is_one_finding_and_exit_0(pymicro):
    done = pymicro("doctor", "--format", "json")
    found = findings(done)
    assert found["no-gpu"]["severity"] == "info"
    assert not {c for c in found if c.startswith(("driver", "nvml", "monitor", "gpu"))}
    assert done.returncode == 0
    strict = pymicro("doctor", "--strict")
    assert strict.returncode == 1  # The modules of this test do not import: warnings.
    quiet = findings(pymicro("doctor", "--format", "json", "--quiet"))
    assert {f["severity"] for f in quiet.values()} <= {"warning", "error"}


def test_no_secret_and_no_path_comes_out(pymicro):
    env = {"CUDA_API_KEY": "hunter2", "NVIDIA_TOKEN": "hunter2", "CUDA_PATH": "/nonexistent/x"}
    for words in (["doctor"], ["doctor", "--format", "json"]):
        done = pymicro(*words, **env)
        assert "hunter2" not in done.stdout + done.stderr
        assert "/opt/x" not in done.stdout
        assert "/nonexistent" not in done.stdout
    assert "toolkit-folder-absent" in findings(pymicro("doctor", "--format", "json", **env))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_that_can_show_no_more(pymicro, encoding):
    env = {"LC_ALL": "C", "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "TERM": "dumb"}
    done = pymicro("readiness", "--device", "5090", "--stack", "torch=2.7,cuda=12.8", **env)
    assert done.returncode == 0, done.stderr
    assert "native" in done.stdout
    assert pymicro("doctor", COLUMNS="30", **env).returncode == 0


@pytest.mark.parametrize(
    ("device", "stack", "verdict", "head", "word"),
    [
        ("RTX 5090", "torch=2.6,cuda=12.4", "impossible", "impossible", "torch-no-image-sm120"),
        (
            "RTX 5090",
            "torch=2.7,cuda=12.8",
            "native",
            "native, with these known faults",
            "cublas-batched-fp32-small-tile",
        ),
        ("P6000", "cuda=13.0", "dropped", "dropped; use 12.9", "6.1 was dropped"),
    ],
)
def test_cards_not_at_hand(pymicro, device, stack, verdict, head, word):
    done = pymicro("readiness", "--device", device, "--stack", stack)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(f": {head}")
    assert word in done.stdout
    told = pymicro("readiness", "--device", device, "--stack", stack, "--format", "json")
    document = json.loads(told.stdout)
    assert document["schema"] == 1
    assert document["readiness"]["verdict"] == verdict
    assert all(row["sources"] for row in document["readiness"]["rows"])


def test_the_gate(pymicro):
    words = ["readiness", "--device", "H200", "--stack", "torch=2.11,cuda=13.0,driver=580"]
    assert pymicro(*words, "--require", "native,driver>=580").returncode == 0
    done = pymicro(*words, "--require", "native,link>=gen4x16,driver>=590,gemm_fp16>=0.6")
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("not met")]
    assert len(failed) == 3
    told = pymicro(*words, "--require", "driver>=590", "--format", "json")
    assert told.returncode == 1
    assert len(json.loads(told.stdout)["readiness"]["failures"]) == 1


@pytest.mark.parametrize("more", [[], ["--format", "json"]], ids=["table", "json"])
def test_a_gate_holds_where_nobody_reads_to_its_end(more):
    """`| grep -q` and `| head` leave early; in a script the exit code must still say no."""
    words = ["readiness", "--device", "5090", "--stack", "torch=2.6,cuda=12.4", *more]
    command = [sys.executable, "-m", "pymicro", *words, "--require", "native"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1, said
    assert said == b""


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU")
def test_no_gpu_and_no_card_named_is_exit_3(pymicro):
    done = pymicro("readiness")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "name a card with --device" in done.stderr


def test_the_installed_software_on_a_card_not_at_hand(pymicro):
    done = pymicro("readiness", "--device", "H200", "--format", "json", modules={"torch": SEGFAULT})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["readiness"]["capability"] == "9.0"


@pytest.mark.parametrize(
    "words",
    [
        ["--device", "5090", "--stack", "torch=2.6,cuda=12.8"],
        ["--device", "5090", "--stack", "tourch=2.6"],
        ["--device", "RTX 5091", "--stack", "torch=2.6"],
        ["--device", "cpu", "--stack", "torch=2.6"],
        ["--device", "5090", "--stack", "torch=2.7", "--require", "fast"],
        ["--format", "csv"],
    ],
    ids=" ".join,
)
def test_wrong_words_are_one_sentence_and_exit_2(pymicro, words):
    done = pymicro("readiness", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
