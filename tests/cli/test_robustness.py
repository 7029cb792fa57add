"""What must not go wrong again on the command line: broken libraries, full disks, odd words."""

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pymicro.report import table
from pymicro.report.terminal import Terminal
from pymicro.results import Result

ROOT = str(Path(__file__).parents[2])
RUN = [sys.executable, "-m", "pymicro"]
QUICK = ["gemm", "--size", "64", "--budget", "0.5", "--dtype", "fp32", "--backend", "native"]


@pytest.fixture
def pymicro(tmp_path):
    def call(*words, path=(), timeout=60, start=RUN, **env):
        where = os.pathsep.join([*map(str, path), ROOT])
        return subprocess.run(
            [*start, *words],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=os.environ
            | {"XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONPATH": where, "COLUMNS": "160"}
            | env,
        )

    return call


def module(folder, name, text):
    target = folder / f"{name}.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(textwrap.dedent(text))
    return folder


def test_a_table_on_eighty_columns_names_every_row():
    def one(backend, vendor=False):
        return Result(
            "gemm", backend, "descriptor", "fp16", flop=2 * 8192**3, times_s=(1.5e-3,) * 4,
            burst_s=(1.4e-3,) * 4, sample_sm_clock_hz=(1.7e9,) * 4,
            params={"m": 8192, "n": 8192, "k": 8192, "layout": "nt"},
            details={"is_vendor": vendor},
            device={"kind": "cuda", "peak_ops_per_s": {"fp16": 989e12},
                    "ops_per_clk": {"fp16": 540672}},
        )  # fmt: skip

    out = io.StringIO()
    table.show([one("triton"), one("torch", True)], (), Terminal(out, width=80))
    assert "triton" in out.getvalue()
    assert "torch" in out.getvalue()


def test_the_catalogue_on_forty_columns_names_every_card(pymicro):
    assert "H200" in pymicro("devices", "--all", COLUMNS="40").stdout


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError", "SystemError"])
def test_a_broken_numba_is_skipped_and_the_rest_runs(pymicro, tmp_path, error):
    text = f'raise {error}("Numba needs NumPy 2.3 or less. Got NumPy 2.4.")'
    fake = module(tmp_path / "fake", "numba", text)
    done = pymicro(*QUICK[:-1], "native,numba", "--no-store", path=[fake])
    assert done.returncode == 0, done.stderr[-300:]
    assert "skipped: numba" in done.stdout


def test_a_broken_plugin_is_skipped_and_the_rest_runs(pymicro, tmp_path):
    info = tmp_path / "fake" / "bad-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pymicro.backends]\nbad = bad_plugin:BACKEND\n")
    done = pymicro(*QUICK[:-1], "native,bad", "--no-store", path=[tmp_path / "fake"])
    assert done.returncode == 0, done.stderr[-300:]


def test_a_library_that_breaks_tells_no_folder_to_the_record(pymicro, tmp_path):
    text = 'raise OSError("/home/alice/venv/lib/torch/lib/libtorch_cpu.so: undefined symbol")'
    fake = module(tmp_path / "fake", "torch", text)
    done = pymicro(*QUICK[:-1], "native,torch", "--format", "json", path=[fake])
    assert json.loads(done.stdout)["results"]
    assert "alice" not in done.stdout
    assert "alice" not in (tmp_path / "data/pymicro/results.jsonl").read_text()


@pytest.mark.parametrize(
    "text",
    ['raise RuntimeError("built for another Python")', "x = 1"],
    ids=["raises at import", "another package of that name"],
)
def test_a_broken_nvml_binding_never_stops_the_cpu(pymicro, tmp_path, text):
    fake = module(tmp_path / "fake", "pynvml", text)
    done = pymicro(*QUICK, "--no-store", path=[fake])
    assert done.returncode == 0, done.stderr[-300:]


def test_one_question_of_nvml_that_breaks_loses_one_field(fake_nvml):
    from pymicro.devices.nvml import look

    fake_nvml.failing["nvmlDeviceGetMigMode"] = OSError("exception: access violation")
    (gpu,) = look(fake_nvml).gpus
    assert gpu.uuid
    assert gpu.mig_enabled is None


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc for a stub driver")
def test_a_driver_older_than_the_bindings_is_told(tmp_path):
    """CUDA 12.2 under cuda-bindings 13: cuInit succeeds, and everything after it goes wrong."""
    bindings = pytest.importorskip("cuda.bindings")
    if not bindings.__version__.startswith("13"):
        pytest.skip("needs cuda-bindings 13")
    source = tmp_path / "stub.c"
    source.write_text(
        """
        #include <string.h>
        int cuInit(unsigned f) { return 0; }
        int cuDriverGetVersion(int* v) { *v = 12020; return 0; }
        int cuDeviceGetCount(int* v) { *v = 1; return 0; }
        int cuGetProcAddress_v2(const char* s, void** p, int v, unsigned long f, int* st) {
          *p = 0;
          if (!strcmp(s, "cuInit")) *p = (void*)cuInit;
          if (!strcmp(s, "cuDriverGetVersion")) *p = (void*)cuDriverGetVersion;
          if (!strcmp(s, "cuDeviceGetCount")) *p = (void*)cuDeviceGetCount;
          if (st) *st = *p ? 0 : 1;
          return *p ? 0 : 500;
        }
        int cuGetProcAddress(const char* s, void** p, int v, unsigned long f) {
          return cuGetProcAddress_v2(s, p, v, f, 0);
        }
        """
    )
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    code = """
        from pymicro import driver
        from pymicro.errors import Unavailable
        try:
            print("sees", driver.device_count())
        except Unavailable as error:
            print("told:", error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": ROOT},
    )  # fmt: skip
    assert "told:" in done.stdout, done.stderr[-300:]
    assert "driver" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--threads", "100000"],
        ["--threads", "1125899906842624"],
        ["--budget", "nan"],
        ["--store", "~nosuchuser/x.jsonl"],
        ["--m", "1:10000:1", "--n", "1:10000:1", "--k", "1"],
    ],
    ids=" ".join,
)
def test_more_wrong_words_are_one_sentence_and_exit_2(pymicro, words):
    done = pymicro(*QUICK, *words, timeout=15)
    assert done.returncode == 2, done.stderr[-300:]
    assert "Traceback" not in done.stderr


def test_threads_beyond_numbas_are_a_skip_not_a_failure(pymicro):
    pytest.importorskip("numba")
    many = str(2 * (os.cpu_count() or 1))
    words = [*QUICK[:-1], "numba", "--no-store", "--threads", many]
    done = pymicro(*words)
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 3)


@pytest.mark.parametrize("words", [QUICK, [*QUICK, "--no-store"]], ids=["store", "no store"])
def test_no_home_folder_is_no_traceback(pymicro, words):
    """A container run under a bare number: no HOME, no line in /etc/passwd."""
    code = """
        import os, pwd, sys
        for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
            os.environ.pop(name, None)
        def unknown(uid):
            raise KeyError("uid not found")
        pwd.getpwuid = unknown
        from pymicro.cli import main
        main()
    """
    done = pymicro(*words, start=[sys.executable, "-c", textwrap.dedent(code)])
    assert "Traceback" not in done.stderr, done.stderr[-200:]
    if "--no-store" in words:
        assert done.returncode == 0


def test_no_stderr_is_no_reason_to_fail(pymicro):
    code = "import sys; sys.stderr = None; from pymicro.cli import main; main()"
    done = pymicro(*QUICK, "--no-store", start=[sys.executable, "-c", code])
    assert done.returncode == 0


def test_after_a_profiler_on_a_gpu_the_process_ends_at_once(pymicro):
    """Its library may break the heap when a process tidies up: written results end in an abort."""
    pytest.importorskip("torch")
    code = "import atexit, sys; atexit.register(print, 'tidied up'); {}"
    code += "from pymicro.cli import main; main()"
    seen = "from pymicro.e2e import runner; runner.PROFILED.add('cuda:0'); "
    for more, expected in (("", True), (seen, False)):
        done = pymicro("devices", "H100", start=[sys.executable, "-c", code.format(more)])
        assert done.returncode == 0
        assert "H100" in done.stdout
        assert ("tidied up" in done.stdout) == expected
    done = pymicro("devices", "H1000000", start=[sys.executable, "-c", code.format(seen)])
    assert done.returncode == 2  # The code it would have ended with.


def test_a_reader_that_leaves_is_no_failure():
    command = f"{sys.executable} -m pymicro devices --all; echo rc=$? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": ROOT},
    )  # fmt: skip
    assert done.stderr.strip() == "rc=0"


@pytest.mark.parametrize(
    "words", [["devices", "--all"], ["show", "--format", "json"]], ids=" ".join
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_a_full_disk_is_one_sentence(pymicro, words):
    pymicro(*QUICK)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*RUN, *words], stdout=full, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": ROOT}, timeout=60,
        )  # fmt: skip
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_a_store_that_fills_up_midway_still_shows_what_was_measured(pymicro):
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); "
    code += "from pymicro.cli import main; main()"
    done = pymicro(*QUICK, start=[sys.executable, "-c", code])
    assert "FLOP/s" in done.stdout, done.stderr[-200:]


def test_a_default_store_that_cannot_be_written_does_not_forbid_measuring(pymicro, tmp_path):
    """The main job in a container with a read-only home."""
    (tmp_path / "file").touch()
    done = pymicro(*QUICK, XDG_DATA_HOME=str(tmp_path / "file"))
    assert "FLOP/s" in done.stdout, done.stderr[-200:]


@pytest.mark.parametrize("format_", ["table", "json"])
def test_show_tells_what_of_a_store_is_damaged(pymicro, tmp_path, format_):
    store = tmp_path / "s.jsonl"
    pymicro(*QUICK, "--store", str(store))
    with store.open("a") as file:
        file.write('garbage\n{"schema": 1, "benchmark": "ge')
    done = pymicro("show", str(store), "--format", format_)
    assert "line" in done.stderr + done.stdout
    assert done.returncode != 0


def test_show_of_nothing_but_damage_says_so(pymicro, tmp_path):
    store = tmp_path / "s.jsonl"
    store.write_text("garbage\n")
    done = pymicro("show", str(store))
    assert "no results there yet" not in done.stderr
    assert "s.jsonl" in done.stderr


def test_a_rate_of_one_sample_has_no_interval():
    """After Ctrl-C a case may rest on one sample: `±0.0 %` is a claim that nobody checked."""
    one = Result("gemm", "native", "v", "fp32", flop=10, times_s=(1.0,), device={"kind": "cpu"})
    assert "0.0 %" not in table.render([one], ())


def native(code, timeout=20):
    pytest.importorskip("pymicro._native")
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
        timeout=timeout, env=os.environ | {"PYTHONPATH": ROOT},
    )  # fmt: skip


def test_a_thread_that_cannot_start_does_not_hang_the_next_product():
    done = native(
        """
        import os, resource
        import numpy as np
        from pymicro import _native
        a, c = np.ones((256, 256), "f4"), np.zeros((256, 256), "f4")
        _native.gemm(a, a, c, "fp32", "nt", 1)
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + 6 * 2**20,) * 2)
        for _ in range(2):
            try:
                _native.gemm(a, a, c, "fp32", "nt", 2)
            except (RuntimeError, OSError, MemoryError):
                pass
        print("done")
        """
    )
    assert "done" in done.stdout


def test_a_product_of_single_numbers_wakes_no_threads():
    done = native(
        """
        import os
        import numpy as np
        from pymicro import _native
        a, c = np.ones((1, 1), "f4"), np.zeros((1, 1), "f4")
        before = len(os.listdir("/proc/self/task"))
        _native.gemm(a, a, c, "fp32", "nt", 8)
        print("started", len(os.listdir("/proc/self/task")) - before)
        """
    )
    assert done.stdout.strip() == "started 0"
