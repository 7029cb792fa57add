"""What must not go wrong again: checks, sampling, timing and the run under faults."""

import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import ScriptedTimer

from pymicro import backends, compiler, driver, run, sampling, stats, timers, workbench
from pymicro.analysis.verdict import judge
from pymicro.backends.base import Place, Prepared
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable, WrongResult
from pymicro.operands import decode, draw, encode
from pymicro.report.columns import against_vendor, rows
from pymicro.results import Result
from pymicro.suite import benchmark
from pymicro.telemetry import Telemetry
from pymicro.timers import Timing
from pymicro.verify import GemmReference

GEMM = benchmark("gemm")


# --- checks -------------------------------------------------------------------------------------


def product(name, m, n, k, fill="normal", seed=0, rounded=lambda x: x):
    """A reference, and the correctly rounded product."""
    dtype = DTYPES[name]
    a, b = draw((m, k), dtype, fill, seed), draw((n, k), dtype, fill, seed + 1)
    left, right = (rounded(decode(x, dtype)).astype(np.float64) for x in (a, b))
    with np.errstate(over="ignore"):
        c = encode((left @ right.T).astype(np.float32), DTYPES[dtype.output])
    return GemmReference(dtype, "nt", a, b), c


@pytest.mark.parametrize(
    ("name", "m", "n", "k"),
    [("fp16", 2000, 2000, 1), ("bf16", 2000, 2000, 1), ("bf16", 65536, 1, 1),
     ("bf16", 65536, 1, 1024), ("bf16", 300_000, 2, 16), ("fp8_e4m3", 65536, 1, 1024)],
)  # fmt: skip
def test_the_correctly_rounded_product_of_a_flat_shape_passes(name, m, n, k):
    reference, c = product(name, m, n, k)
    reference.check(c)


def test_a_right_tf32_dot_product_passes_whatever_the_seed():
    def tf32(x):
        bits = x.view(np.uint32)
        bits = (bits + np.uint32(0xFFF) + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
        return bits.view(np.float32)

    wrong = []
    for seed in range(0, 200, 2):
        reference, c = product("tf32", 1, 1, 256, seed=seed, rounded=tf32)
        try:
            reference.check(c)
        except WrongResult:
            wrong.append(seed)
    assert wrong == []


def test_a_right_fp16_product_that_overflows_is_not_called_wrong():
    """... because fp16 ends at 65504, not because the kernel is wrong."""
    with pytest.raises(Unavailable, match="65504"):
        product("fp16", 32, 32, 1_000_000, fill="integers")


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32"])
def test_two_swapped_elements_are_found_anywhere(name):
    reference, c = product(name, 256, 256, 256)
    row = next(r for r in range(256) if r not in reference._rows)
    missed = []
    for j in range(0, 64, 2):
        c[row, [j, j + 1]] = c[row, [j + 1, j]]
        try:
            reference.check(c)
            missed.append(j)
        except WrongResult:
            pass
        c[row, [j, j + 1]] = c[row, [j + 1, j]]
    # Neighbours may be equal by chance, the more so the coarser their format.
    assert len(missed) < (12 if name == "bf16" else 4)


@pytest.mark.parametrize(("name", "k"), [("int8", 500_000), ("fp16", 500_000)])
def test_the_reference_stays_within_the_memory_that_was_checked(name, k, monkeypatch):
    p = {"m": 32, "n": 32, "k": k, "layout": "nt", "threads": 1}
    needed = workbench._bytes_of(GEMM.operands(name, p))
    free = int(needed * 1.1)
    monkeypatch.setattr(workbench, "free_memory_bytes", lambda kind: free)
    tracemalloc.start()
    try:
        workbench.Workbench("cpu").problem(GEMM, Case("gemm", "x", "x", name, p), "normal", 0)
        peak = tracemalloc.get_traced_memory()[1]
    except Unavailable:
        return  # Refusing is right too.
    finally:
        tracemalloc.stop()
    assert peak <= 1.5 * free, f"{peak / needed:.1f} times the operands"


# --- sampling -----------------------------------------------------------------------------------


def test_steadiness_is_judged_on_what_was_sampled_not_on_its_start():
    """Power bites after half a second: the loop had made up its mind before."""
    timer = ScriptedTimer(lambda i: 1e-3 if timer.clock_s < 0.5 else 1.3e-3)
    plan = sampling.Plan(min_seconds=1.0, budget_s=20, batch_s=0.025, block_s=0.25)
    (samples,) = sampling.sustained(timer, [lambda: None], plan)
    assert samples.stopped != "steady" or stats.is_steady(
        samples.times_s, plan.spread, plan.drift_limit
    )


def test_one_slow_first_call_does_not_choose_the_batch():
    timer = ScriptedTimer(lambda i: 1e-3 if i == 0 else 1e-6)
    assert sampling.repeats_for(timer, lambda: None, 200e-6) >= 100


def test_most_of_the_budget_goes_into_measuring():
    """Bimodal times never become steady; the wall clock moves while statistics are computed."""
    import random
    import time

    pick = random.Random(1)

    class Real(ScriptedTimer):
        def time(self, call, repeats, before=None):
            seconds = pick.choice([2e-4, 3e-4])
            start = time.perf_counter()
            time.sleep(seconds)
            self.clock_s += time.perf_counter() - start
            return Timing(seconds, start, start + seconds)

        def now(self):
            return time.perf_counter()

    timer = Real([])
    began = time.perf_counter()
    sampling.sustained(timer, [lambda: None], sampling.Plan(budget_s=3.0))
    assert timer.clock_s > 0.5 * (time.perf_counter() - began)


def event_timer(monkeypatch, elapsed_ms, timed_out=lambda i: False):
    """An EventTimer whose driver is scripted."""
    count = iter(range(10**6))
    fake = SimpleNamespace(
        cuEventRecord=lambda *a: (0,),
        cuStreamSynchronize=lambda *a: (0,),
        cuCtxSynchronize=lambda: (0,),
        cuEventElapsedTime=lambda *a: (0, elapsed_ms(next(count))),
    )
    monkeypatch.setattr(driver, "cuda", lambda: fake)
    timer = object.__new__(timers.EventTimer)
    gate = object.__new__(timers.gate.Gate)
    gate._words, calls = [0, 0], iter(range(10**6))

    def launch():
        gate._words[1] = int(timed_out(next(calls)))

    gate.launch = launch
    timer._stream = timer._start = timer._stop = None
    timer._gate, timer._pace = gate, timers._Pace()
    timer._clock = SimpleNamespace(read=lambda which: None, mean_hz=lambda: None)
    timer.sleep = lambda seconds: None
    return timer


def test_one_negative_event_time_in_many_is_rejected_and_counted(monkeypatch):
    timer = event_timer(monkeypatch, lambda i: -1.8 if i == 40 else 0.5)
    samples = sampling.burst(timer, lambda: None, sampling.Plan(batch_s=1e-9))
    assert samples.rejected == 1


def test_one_gate_timeout_costs_its_sample_not_the_case(monkeypatch):
    timer = event_timer(monkeypatch, lambda i: 0.5, timed_out=lambda i: i == 20)
    samples = sampling.burst(timer, lambda: None, sampling.Plan(batch_s=1e-9))
    assert samples.rejected == 1


# --- the run ------------------------------------------------------------------------------------


class FakeGpuBench:
    """A workbench that says it is a GPU, with numpy under it and a scripted clock."""

    def __init__(self):
        self.place, self.timer = Place("cuda", capability=(9, 0)), ScriptedTimer(lambda i: 1e-3)
        self.flushed, self.release = [], lambda: None
        self.timer_before = []
        timed = self.timer.time

        def time(call, repeats, before=None):
            self.timer_before.append(before is not None)
            return timed(call, repeats, before)

        self.timer.time = time

    def problem(self, *_):
        check = SimpleNamespace(reference="float64", error=0.0, tolerance=1.0)
        return SimpleNamespace(arrays={}, poison=lambda: None, check=lambda: check)

    def synchronise(self): ...

    def clock(self, wanted):
        return self.timer

    def flush(self, written=1.0):
        return lambda: self.flushed.append(1)


class FakeBackend:
    vendor_variants = ()

    def __init__(self, name, is_vendor=False, call=lambda: None):
        self.name, self.is_vendor, self.call = name, is_vendor, call

    def why_not(self, place):
        return None

    def variants(self, benchmark, dtype, place):
        return ("v",)

    def prepare(self, case, place, arrays):
        return Prepared(self.call)


def gpu_run(monkeypatch, members, bench=None, **options):
    table = {b.name: b for b in members}
    monkeypatch.setattr(backends, "backend", table.__getitem__)
    bench = bench or FakeGpuBench()
    context = run.Context(bench, {"kind": "cuda", "name": "t"}, {}, "r", lambda windows: None)
    point = {"m": 8, "n": 8, "k": 8, "layout": "nt", "path": "auto"}
    planned = run.cases(GEMM, bench, list(table), ["fp16"], [point])
    return bench, run.run(GEMM, planned, run.Options(**options), context)


def test_cold_sustained_samples_are_cold(monkeypatch):
    bench, results = gpu_run(monkeypatch, [FakeBackend("a")], cache="cold")
    last = list(results)[-1]
    assert last.times_s
    # Either every sample was flushed before, or the record does not say `cold`.
    assert last.cache != "cold" or all(bench.timer_before)


def test_cold_on_a_cpu_is_cold_or_refused_never_hot_under_that_name():
    bench = workbench.Workbench("cpu")
    bench.timer = ScriptedTimer(lambda i: 1e-3)
    seen = []
    timed = bench.timer.time
    bench.timer.time = lambda c, r, before=None: seen.append(before) or timed(c, r, before)
    context = run.Context(bench, {"kind": "cpu", "name": "t"}, {}, "r", lambda windows: None)
    point = {"m": 8, "n": 8, "k": 8, "layout": "nt", "threads": 1}
    planned = [Case("gemm", "torch", "matmul", "fp32", point)]
    (result,) = run.run(GEMM, planned, run.Options(cache="cold"), context)
    assert result.outcome != "ok" or result.cache != "cold" or all(seen)


def breaks_after(calls, error):
    count = iter(range(10**9))

    def call():
        if next(count) > calls:
            raise error

    return call


def test_an_unforeseen_error_under_sustained_load_fails_its_case_only(monkeypatch):
    ours = FakeBackend("ours", call=breaks_after(60, RuntimeError("illegal address")))
    vendor = FakeBackend("vendor", is_vendor=True)
    _, results = gpu_run(monkeypatch, [ours, vendor])
    last = {r.backend: r.outcome for r in results}
    assert last == {"ours": "failed", "vendor": "ok"}


def test_a_foreseen_error_under_sustained_load_does_not_blame_the_other_case(monkeypatch):
    ours = FakeBackend("ours", call=breaks_after(60, driver.DriverError("fault.")))
    vendor = FakeBackend("vendor", is_vendor=True)
    _, results = gpu_run(monkeypatch, [ours, vendor])
    last = {r.backend: r.outcome for r in results}
    assert last == {"ours": "failed", "vendor": "ok"}


def test_a_context_that_died_does_not_take_the_results_along(monkeypatch):
    """After an illegal address every driver call fails, that of freeing too."""
    bench = FakeGpuBench()

    def release():
        raise driver.DriverError("the CUDA driver answered CUDA_ERROR_ILLEGAL_ADDRESS.")

    bench.release = release
    _, results = gpu_run(monkeypatch, [FakeBackend("a")], bench)
    assert [r.outcome for r in results][-1] == "ok"


def test_the_flush_buffer_is_not_allocated_anew_for_each_case(monkeypatch):
    made = []

    class Buffer:
        def __init__(self, shape, storage):
            made.append(self)
            self.freed, self.ptr, self.nbytes = False, 16, shape[0]

        def fill_bytes(self, value): ...

        def free(self):
            self.freed = True

    monkeypatch.setattr(driver, "Buffer", Buffer)
    monkeypatch.setattr(compiler, "compile_cubin", lambda *wanted: b"")
    monkeypatch.setattr(
        driver.Kernel, "load", lambda *wanted: SimpleNamespace(bind=lambda *_: print)
    )
    monkeypatch.setattr(
        driver, "open_gpu", lambda index: SimpleNamespace(attribute=lambda name: 50 * 2**20)
    )
    bench = object.__new__(workbench.Workbench)
    bench.place, bench._flushes, bench._flushed = Place("cuda", 0, (9, 0), 132), {}, None
    for _ in range(10):
        bench.flush()
        bench.flush(0.5)
    assert sum(not b.freed for b in made) <= 1


def test_the_host_memory_is_checked_too_before_drawing_for_a_gpu(monkeypatch):
    """The inputs are drawn, and checked against, on the host: a big card has more than it."""
    small = 2**20
    monkeypatch.setattr(
        workbench, "free_memory_bytes", lambda kind: 2**40 if kind == "cuda" else small
    )
    monkeypatch.setattr(driver, "Buffer", lambda shape, storage: SimpleNamespace(
        upload=lambda host: None, shape=shape))  # fmt: skip
    bench = object.__new__(workbench.Workbench)
    bench.place, bench._problem, bench._refused = Place("cuda"), None, None
    p = {"m": 2048, "n": 2048, "k": 2048, "layout": "nt", "path": "auto"}
    with pytest.raises(Unavailable):
        bench.problem(GEMM, Case("gemm", "x", "x", "fp16", p), "normal", 0)


# --- verdicts -----------------------------------------------------------------------------------


def result(backend, *, vendor=False, times=(), burst=(), run_id="r", device=None, **params):
    shape = {"m": 64, "n": 64, "k": 64, "layout": "nt"} | params
    return Result(
        "gemm", backend, "v", "fp16", params=shape, flop=2 * 64**3, times_s=times, burst_s=burst,
        details={"is_vendor": vendor}, run_id=run_id, device=device or {"kind": "cuda"},
    )  # fmt: skip


def test_the_yardstick_is_the_fastest_vendor_in_the_same_phase():
    """cuBLAS through CuPy ran in a burst only; torch, faster, was slowed by lasting load."""
    ours = result("cuda", times=(1.2,), burst=(0.95,))
    torch = result("torch", vendor=True, times=(1.2,), burst=(1.0,))
    cupy = result("cupy", vendor=True, burst=(1.1,))
    assert rows([ours, torch, cupy])[0].vendor is torch


def test_one_thread_is_not_held_against_two():
    mine = result("native", times=(1.0,), threads=1)
    one = result("torch", vendor=True, times=(1.0,), threads=1)
    two = result("torch", vendor=True, times=(0.5,), threads=2)
    assert against_vendor(rows([mine, one, two])[0]) in ("1.00", "1.000 (1.000-1.000)")


def test_a_vendor_of_another_device_is_no_yardstick():
    """`pymicro show --all` puts runs of different machines into one table."""
    mine = result("cuda", times=(1.0,), device={"kind": "cuda", "name": "RTX 4090"})
    other = result(
        "torch", vendor=True, times=(0.1,), run_id="s", device={"kind": "cuda", "name": "B200"}
    )
    assert rows([mine, other])[0].vendor is None


@pytest.mark.parametrize("limit", ["app_clocks", "sync_boost", "display_clocks"])
def test_a_limit_that_nvml_names_is_never_none_seen(limit):
    seen = Telemetry(limits=(limit,), samples=9)
    verdict = judge(
        Result("gemm", "cuda", "v", "fp16", flop=1, times_s=(1.0,), telemetry=seen,
               device={"kind": "cuda"})
    )  # fmt: skip
    assert verdict.limit != "none seen"


# --- compiler -----------------------------------------------------------------------------------


def test_bindings_without_cuda_core_are_one_sentence(monkeypatch):
    """torch brings cuda-bindings along, not cuda-core."""
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(Unavailable, match="install"):
        compiler.compile_cubin("gate.cu", "sm_90")


def test_a_cache_that_cannot_be_written_costs_the_cache_only(monkeypatch):
    pytest.importorskip("cuda.core")

    class Full(dict):
        def __setitem__(self, key, value):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiler, "_open_cache", Full)
    assert compiler.compile_cubin("gate.cu", "sm_90")[:4] == b"\x7fELF"


def test_an_error_code_newer_than_the_bindings_is_one_sentence(monkeypatch):
    def init(flags):
        raise ValueError("35 is not a valid CUresult")  # What cuda-bindings 13.5 really does.

    monkeypatch.setattr(driver, "cuda", lambda: SimpleNamespace(cuInit=init))
    with pytest.raises(Unavailable):
        driver.initialise()
