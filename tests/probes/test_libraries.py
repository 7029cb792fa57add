"""Broken libraries are found out in a process of their own: crash, hang, error, wrong build."""

import sys

import pytest

from pymicro.probes import Evidence, compilers, libraries
from pymicro.probes.child import Report, ask

SEGFAULT = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = "import time\nprint('noise on stdout', flush=True)\ntime.sleep(600)\n"
CPU_TORCH = """
__version__ = "2.11.0+cpu"
class version: cuda = None; hip = None
class cuda:
    get_arch_list = staticmethod(lambda: [])
    is_available = staticmethod(lambda: False)
class backends:
    class cudnn: version = staticmethod(lambda: None); allow_tf32 = True
class _Tensor:
    def __add__(self, other): return self
    def cpu(self): return self
    def tolist(self): return [2.0] * 4
ones = lambda n, device: _Tensor()
get_float32_matmul_precision = lambda: "highest"
"""
CUPY_WITHOUT_NVRTC = """
import warnings
warnings.warn("CUDA path could not be detected. Set CUDA_PATH environment variable if CuPy fails")
__version__ = "13.4.0"
class cuda:
    class runtime: runtimeGetVersion = staticmethod(lambda: 12080)
    class nvrtc:
        @staticmethod
        def getVersion(*a): raise ImportError("libnvrtc.so.12: cannot open shared object file")
        createProgram = getVersion
class RawKernel:
    def __init__(self, *a): raise ImportError("libnvrtc.so.12: cannot open shared object file")
"""
NUMBA_BAD_ADVICE = """
import sys, types
__version__ = "0.61.0"
config = types.SimpleNamespace(ENABLE_CUDASIM=0)
class Unsupported(Exception): pass
def compile_ptx(*a, **k):
    raise Unsupported("libNVVM cannot be found. Do `conda install cudatoolkit`:\\nlibrary nvvm")
cuda = types.ModuleType("numba.cuda")
cuda.compile_ptx = compile_ptx
sys.modules["numba.cuda"] = cuda
"""


def probed(name, env, timeout_s=30.0, capability=None):
    return ask(name, env, timeout_s, capability=capability)


def test_an_import_that_segfaults_is_an_answer(fake_modules):
    report = probed("torch", fake_modules(torch=SEGFAULT))
    assert (report.ended, report.step, report.how) == ("crash", "import", "SIGSEGV")


def test_an_import_that_hangs_is_ended_and_noise_is_kept_apart(fake_modules):
    report = probed("cupy", fake_modules(cupy=HANG), timeout_s=1.5)
    assert (report.ended, report.step) == ("timeout", "import")
    assert "1.5 s" in report.how


def test_an_import_that_leaves_the_interpreter(fake_modules):
    report = probed("torch", fake_modules(torch="import os\nos._exit(7)\n"))
    assert (report.ended, report.how) == ("crash", "exit code 7")
    report = probed("torch", fake_modules(torch="raise SystemExit(0)\n"))
    assert report.ended == "error"


def test_crash_and_hang_are_findings(scripted):
    e = scripted.evidence(
        torch=Report("crash", "import", "SIGSEGV", {"installed": True}),
        cupy=Report("timeout", "import", "no answer within 5 s", {"installed": True}),
    )
    found = {f.code: f for f in libraries.libraries(e)}
    assert found["torch-crashes"].severity == "error"
    assert "SIGSEGV while it is imported" in found["torch-crashes"].seen
    assert found["cupy-hangs"].severity == "error"
    assert all(f.do for f in found.values() if f.severity == "error")


def test_cpu_build_is_told_from_a_missing_device(fake_modules, scripted):
    report = probed("torch", fake_modules(torch=CPU_TORCH))
    assert report.is_ok, report
    (found,) = libraries.torch_build(scripted.evidence(torch=report))
    assert (found.code, found.severity) == ("torch-cpu-build", "warning")
    assert "2.11.0+cpu" in found.seen
    assert "whl/cu130" in found.do
    (alone,) = libraries.torch_build(
        scripted.evidence(torch=report, driver=scripted.driver(devices=()))
    )
    assert alone.severity == "info"
    no_device = Report(
        "ok", facts={"version": "2.11.0+cu130", "cuda": "13.0", "is_available": False}
    )
    (found,) = libraries.torch_build(scripted.evidence(torch=no_device))
    assert (found.code, found.severity) == ("torch-no-device", "error")


@pytest.mark.parametrize(
    ("chip", "archs", "code", "severity"),
    [
        ((9, 0), "sm_80 sm_90", "torch-native", "info"),
        ((8, 9), "sm_80 sm_86 sm_90", "torch-relative", "info"),
        ((12, 0), "sm_80 sm_90 compute_90", "torch-jit", "warning"),
        ((12, 0), "sm_80 sm_90", "torch-impossible", "error"),
    ],
)
def test_torch_code_for_the_device(scripted, chip, archs, code, severity):
    facts = {"version": "2.6.0", "cuda": "12.4", "is_available": True, "archs": archs.split()}
    device = scripted.device | {"major": chip[0], "minor": chip[1]}
    e = scripted.evidence(driver=scripted.driver(devices=[device]), torch=Report("ok", facts=facts))
    (found,) = libraries.torch_build(e)
    assert (found.code, found.severity) == (code, severity)


def test_cards_of_two_generations_are_each_judged(scripted, fake_tool, tmp_path):
    """The first card is served, the second one is not: the first must not speak for both."""
    old, new = (scripted.device | {"major": m, "minor": n} for m, n in ((8, 9), (12, 0)))
    facts = {"version": "2.6.0", "cuda": "12.4", "is_available": True, "archs": ["sm_86", "sm_90"]}
    env = fake_tool("ptxas", "echo \"Allowed values: 'sm_86','sm_89','sm_90'\"")
    tools = {"ptxas": {"path": str(tmp_path / "tools/ptxas"), "version": "12.4"}}
    e = scripted.evidence(
        env=env,
        driver=scripted.driver(devices=[old, old, new]),
        torch=Report("ok", facts=facts),
        triton=Report("ok", facts={"version": "3.2.0", "assemblers": tools}),
    )
    found = [(f.code, f.severity) for f in libraries.torch_build(e)]
    assert found == [("torch-relative", "info"), ("torch-impossible", "error")]
    (triton,) = compilers.triton_assemblers(e)
    assert triton.seen.endswith("do not know compute capability 12.0")


@pytest.mark.parametrize("capability", [None, (9, 0)])
def test_cupy_without_nvrtc_is_present_but_cannot_compile(fake_modules, scripted, capability):
    report = probed("cupy", fake_modules(cupy=CUPY_WITHOUT_NVRTC), capability=capability)
    assert (report.ended, report.step) == ("error", "compile an empty kernel")
    found = {f.code: f for f in libraries.libraries(scripted.evidence(cupy=report))}
    compile_finding = found["cupy-cannot-compile"]
    assert "present but cannot compile" in compile_finding.seen
    assert compile_finding.do.startswith("libnvrtc.so.12 is missing: install cupy-cuda")
    # The warning about the toolkit's folder is said here, once, as a finding.
    assert "CUDA path could not be detected" in found["cupy-warns"].seen


def test_advice_is_ours_and_theirs_is_a_detail(fake_modules, scripted):
    report = probed("numba", fake_modules(numba=NUMBA_BAD_ADVICE))
    assert report.ended == "error", report
    found = {f.code: f for f in libraries.libraries(scripted.evidence(numba=report))}
    broken = found["numba-cannot-compile"]
    assert "conda" in broken.seen
    assert "conda" not in broken.do
    assert "numba-cuda[cu13]" in broken.do


def test_two_libraries_of_different_ages_are_no_case_for_reinstalling(scripted):
    how = "AttributeError: module 'numpy' has no attribute 'row_stack'"
    report = Report("error", "compile an empty kernel", how, {"version": "0.68"})
    found = {f.code: f for f in libraries.libraries(scripted.evidence(numba=report))}
    assert found["numba-cannot-compile"].do.startswith("Numba and numpy are not made for one")


NUMBA_BEFORE_NUMPY_2_5 = """
import numpy
__version__ = "0.68.0"
class config: ENABLE_CUDASIM = False
class cuda:
    @staticmethod
    def compile_ptx(kernel, signature, cc):
        numpy.row_stack
        return ".version 9.0", None
"""


def test_a_name_that_numpy_dropped_is_put_back_as_our_kernels_do(fake_modules, scripted):
    """numba-cuda looks up numpy.row_stack; our own kernels ran where this probe said it cannot."""
    numpy = "__version__ = '2.5.2'\nvstack = len\n"
    report = probed("numba", fake_modules(numpy=numpy, numba=NUMBA_BEFORE_NUMPY_2_5))
    assert report.is_ok, report
    assert report.facts["put_back"] == ["row_stack"]
    found = {f.code: f for f in libraries.libraries(scripted.evidence(numba=report))}
    assert found["numba-older-than-numpy"].severity == "warning"
    assert "numpy.row_stack" in found["numba-older-than-numpy"].seen
    assert found["numba-ok"].severity == "info"


def test_where_the_driver_is_too_old_reinstalling_is_no_advice(scripted):
    facts = {"installed": True, "cuda": 13020}
    report = Report("error", "compile an empty kernel", "CUDARuntimeError: insufficient", facts)
    e = scripted.evidence(cupy=report, driver=scripted.driver(cuda=12020))
    found = {f.code: f for f in libraries.libraries(e)}
    assert found["cupy-cannot-compile"].do.startswith("the driver is too old for its CUDA 13.2")


def test_without_a_gpu_compiling_for_one_is_no_error(scripted):
    report = Report("error", "compile an empty kernel", "ImportError: x", {"installed": True})
    e = scripted.evidence(numba=report, driver=scripted.driver(devices=()))
    found = {f.code: f.severity for f in libraries.libraries(e)}
    assert found["numba-cannot-compile"] == "info"


def test_missing_cuda_part_names_the_line_that_installs_it(scripted, fake_nvml):
    found = {f.code: f for f in libraries.libraries(scripted.evidence(nvml=fake_nvml))}
    assert found["cuda-part-absent"].severity == "error"
    assert 'pip install "pymicro-gpu[cuda13]"' in found["cuda-part-absent"].do


def test_nvrtc_that_does_not_know_the_chip(scripted, codes):
    facts = {"version": "13.0", "archs": ["sm_75", "sm_121"], "cannot_target": "sm_61"}
    e = scripted.evidence(nvrtc=Report("ok", facts=facts))
    assert codes(compilers.nvrtc_target, e) == {"nvrtc-cannot-target": "error"}


def test_triton_assembler_that_does_not_know_the_chip(scripted, fake_tool, tmp_path):
    env = fake_tool("ptxas", "echo \"Allowed values: 'sm_75','sm_80','sm_90a','sm_90'\"")
    tools = {"ptxas": {"path": str(tmp_path / "tools/ptxas"), "version": "12.4"}}
    triton = Report("ok", facts={"version": "3.2.0", "assemblers": tools})
    device = scripted.device | {"major": 12, "minor": 0}
    e = scripted.evidence(env=env, driver=scripted.driver(devices=[device]), triton=triton)
    (found,) = compilers.triton_assemblers(e)
    assert (found.code, found.severity) == ("triton-cannot-target", "error")
    assert "up to sm_90" in found.seen
    assert next(
        iter(compilers.triton_assemblers(scripted.evidence(env=env, triton=triton)))
    ).code == ("triton-assemblers")


def test_native_module_absent_broken_and_fine(scripted, codes):
    assert codes(compilers.native_module, scripted.evidence()) == {"native-absent": "warning"}
    broken = Report("crash", "import", "SIGILL", {"installed": True})
    e = scripted.evidence(native=broken)
    assert codes(compilers.native_module, e) == {"native-broken": "error"}
    assert codes(compilers.native_module, scripted.evidence(native=Report("ok"))) == {}


def test_asking_imports_nothing_into_this_process(fake_modules):
    names = ("torch", "triton", "cupy", "numba", "cuda")
    before = {n for n in names if n in sys.modules}
    env = fake_modules(**dict.fromkeys(names, SEGFAULT))
    reports = Evidence(env=env, timeout_s=30, given={"driver": Report("ok")}).libraries
    assert {r.ended for r in reports.values()} == {"crash"}
    assert {n for n in names if n in sys.modules} == before
