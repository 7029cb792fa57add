"""Jobs whose reason is known: it is named first, and the parts add up to the step."""

import pytest
import synthetic_trace as synthetic
from synthetic_trace import GEMM, NCCL, Job, write

from pymicro.analysis import profile

FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma"
STEPS = 4


def explain(tmp_path, job, **head):
    told = profile.explain(write(tmp_path / "t.json", job.document(**head)))
    split = told.ranks[0].split
    assert sum(p.s for p in split.parts) == pytest.approx(split.wall_s, rel=1e-9)
    assert abs(split.part("unexplained").s) < 0.01 * split.wall_s
    assert all(p.s >= 0 for p in split.parts if p.code != "unexplained")
    return told


def tiny(job):
    for _ in range(100):
        job.op()


def slow_loader(job):
    with job.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        job.wait(8000)
    busy(job)


def busy(job, count=20):
    for _ in range(count):
        job.op("aten::mm", 6, 100, GEMM)


def item(job):
    """The host would be ahead of the device, did it not wait for each of these."""
    busy(job)
    for _ in range(40):
        job.op("aten::norm", 30, 20)
        job.item()


def nonzero(job):
    busy(job, 5)
    for _ in range(20):
        job.op("aten::relu", 25, 40)
        with job.range("aten::index", "cpu_op"), job.range("aten::nonzero", "cpu_op"):
            job.launch(3)
            job.synchronize()
        job.wait(30)


def sleeping(job):
    job.wait(5000)
    busy(job)


def fp32(job):
    for _ in range(20):
        job.op("aten::addmm", 6, 500, FP32)


def graph(job):
    correlation = job.call("cudaGraphLaunch", 20)
    job.host_us += 5
    for _ in range(300):
        job.kernel(1.5, synthetic.TINY, correlation)
        job.gpu_us += 1.0
    job.gpu_us -= 1.0


def pageable(job):
    with job.range("aten::to", "cpu_op"), job.range("aten::copy_", "cpu_op"):
        correlation = job.call("cudaMemcpyAsync", 0)
        job.kernel(9000, "Memcpy HtoD (Pageable -> Device)", correlation, "gpu_memcpy")
        job.synchronize()
    busy(job, 10)


def collective(job):
    busy(job, 30)
    job.op("c10d::allreduce_", 10, 4000, NCCL)


def allocate(job):
    for _ in range(5):
        with job.range("aten::empty", "cpu_op"):
            job.call("cudaMalloc", 900)
        job.op()
    busy(job, 5)


def compile_(job):
    with job.range("_compile.compile_inner (dynamo_timed)"):
        job.op()
        job.wait(9000)
    busy(job, 5)


def held_back(job):
    """Kernels are queued and wait for an event of another device."""
    for _ in range(5):
        job.op()
    job.gpu_us += 4000
    busy(job, 5)


def long_and_short(job):
    """Most element-wise kernels are short, most of their time is in long ones."""
    for _ in range(20):
        job.op("aten::add", 6, 2)
    for _ in range(10):
        job.op("aten::add", 6, 900)


PLANTED = {
    held_back: "held-back",
    long_and_short: "gpu-busy",
    tiny: "host-bound",
    slow_loader: "input",
    item: "synchronisation",
    nonzero: "synchronisation",
    sleeping: "outside-pytorch",
    fp32: "number-format",
    graph: "small-kernels",
    pageable: "copies",
    collective: "collective",
    allocate: "allocation",
    compile_: "start-up",
    busy: "gpu-busy",
}


@pytest.mark.parametrize("job", PLANTED, ids=lambda f: f.__name__)
def test_the_planted_cause_is_named_first(tmp_path, job):
    made = Job()
    for _ in range(STEPS):
        with made.step():
            job(made)
    told = explain(tmp_path, made)
    assert told.causes[0].code == PLANTED[job], told.causes
    assert len(told.ranks[0].split.steps_s) == STEPS
    assert [f.code for f in told.findings] == []


def test_the_first_call_of_an_operator_is_start_up(tmp_path):
    job = Job()
    for number in range(STEPS):
        with job.step():
            job.op("aten::mm", 60_000 if number == 0 else 6, 100, GEMM)
            busy(job)
    told = explain(tmp_path, job)
    assert told.causes[0].code == "start-up"
    assert "first call of aten::mm" in told.causes[0].seen
    assert [f.code for f in told.findings] == ["uneven-steps"]


def test_the_host_keeps_what_its_own_slowness_costs_beside_a_wait(tmp_path):
    """A step of 20 ms of host and 4 ms of device work with one `.item()` is host-bound."""
    job = Job()
    for _ in range(STEPS):
        with job.step():
            for _ in range(200):
                job.op("aten::mul", 97, 20)
            job.item()
    told = explain(tmp_path, job)
    assert told.causes[0].code == "host-bound"
    split = told.ranks[0].split
    assert split.part("synchronisation").s < 0.02 * split.wall_s


def test_a_wait_that_serialises_costs_what_it_costs(tmp_path):
    """Host 4 ms and device 10 ms a step, one after the other: the wait makes 14 ms of 10."""
    job = Job()
    for _ in range(20):
        with job.step():
            job.wait(900)
            job.wait(100)
            job.op("aten::mm", 2997, 10_000, GEMM)
            job.synchronize("cudaDeviceSynchronize", return_us=0)
    split = explain(tmp_path, job).ranks[0].split
    assert split.step_s == pytest.approx(12.5e-3, rel=0.01)
    lost = split.part("synchronisation").s / split.wall_s
    # The first step had no wait before it.
    assert lost == pytest.approx(2.5 / 12.5 * 19 / 20, abs=0.005)


def test_evidence_names_the_operator_and_the_call(tmp_path):
    job = Job()
    for _ in range(STEPS):
        with job.step():
            item(job)
    seen = explain(tmp_path, job).causes[0].seen
    assert ".item() in cudaStreamSynchronize" in seen
    job = Job()
    with job.step():
        nonzero(job)
    assert "nonzero() or a mask as an index" in explain(tmp_path, job).causes[0].seen


def test_stacks_name_the_line_that_waits(tmp_path):
    job = Job()
    for _ in range(STEPS):
        with (
            job.step(),
            job.range("train.py(42): log", "python_function"),
            job.range("torch/_tensor.py(7): item", "python_function"),
        ):
            item(job)
    assert "at train.py(42): log" in explain(tmp_path, job).causes[0].seen


def test_a_host_that_runs_ahead_does_not_shorten_the_steps(tmp_path):
    """Steps of 1 ms on the host and 10 ms on the device take 10 ms."""
    job = Job()
    for _ in range(STEPS):
        with job.step():
            busy(job, 100)
    split = explain(tmp_path, job).ranks[0].split
    assert split.step_s == pytest.approx(10e-3, rel=0.01)
    assert split.busy_s / split.wall_s > 0.99


def test_time_hidden_behind_arithmetic_is_nobodys(tmp_path):
    job = Job()
    with job.step():
        for _ in range(20):
            job.op("c10d::allreduce_", 10, 400, NCCL, stream=13)
            job.gpu_us -= 400
            job.op("aten::mm", 10, 500, GEMM)
    split = explain(tmp_path, job).ranks[0].split
    rows = {r.kind.group: r for r in split.kernels}
    assert rows["collective"].total_s == pytest.approx(20 * 400e-6)
    assert split.part("collective").s < 0.02 * split.wall_s


def test_work_of_the_profiler_is_its_own_part(tmp_path):
    job = Job()
    with job.step():
        busy(job, 3)
        job.gpu_us = job.host_us + 1000
        job.wait(1000)
        start = job.host_us
        job.wait(9000)
        job.events.append(synthetic._complete("overhead", "Buffer Flush", -1, 0, start, 8000, {}))
        busy(job, 3)
    split = explain(tmp_path, job).ranks[0].split
    assert split.part("profiler").s == pytest.approx(8e-3, rel=0.01)
    assert split.part("profiler").owners[0][0] == "Buffer Flush"


def test_backward_runs_on_a_thread_of_its_own(tmp_path):
    """The main thread does nothing that the profiler sees while autograd's thread launches."""
    job = Job()
    for _ in range(STEPS):
        with job.step():
            tiny(job)
            job.tid += 1
            for _ in range(100):
                job.op("autograd::engine::evaluate_function: AddBackward0", 20, 2)
            job.tid -= 1
    told = explain(tmp_path, job)
    assert told.causes[0].code == "host-bound"
    assert "AddBackward0" in told.causes[0].seen


def test_what_the_recording_itself_costs_is_not_the_hosts(tmp_path):
    job = Job()
    for _ in range(STEPS):
        with job.step():
            tiny(job)
    plain = explain(tmp_path, job).shown.split
    assert plain.part("profiler").s == 0
    bare_s = plain.step_s / 1.4
    told = explain(tmp_path, job, pymicro={"untraced_step_s": bare_s})
    split = told.shown.split
    assert split.part("profiler").s == pytest.approx(plain.wall_s - STEPS * bare_s)
    assert split.part("host").s == pytest.approx(plain.part("host").s - split.part("profiler").s)
    assert split.clean_step_s == pytest.approx(bare_s)
    assert [f.code for f in told.findings] == ["profiler-cost"]
    slight = explain(tmp_path, job, pymicro={"untraced_step_s": plain.step_s / 1.05})
    assert not slight.findings


def test_a_recording_that_costs_more_than_the_host_takes_no_more_than_that(tmp_path):
    job = Job()
    for _ in range(STEPS):
        with job.step():
            item(job)
    split = explain(tmp_path, job, pymicro={"untraced_step_s": 1e-5}).shown.split
    assert split.part("host").s == 0
    assert split.part("synchronisation").s > 0


def test_no_advice_for_what_a_chip_does_not_have(tmp_path):
    job = Job()
    with job.step():
        fp32(job)
    old = synthetic.HOPPER | {"computeMajor": 6, "computeMinor": 1}
    told = explain(tmp_path, job, deviceProperties=[old])
    assert told.causes[0].code == "gpu-busy"


def test_units_are_twice_as_fast_as_fp32_on_every_card_that_has_them():
    """What `number-format` calls avoidable holds for the whole catalogue."""
    from pymicro.analysis.profile.causes import FORMAT_FACTOR
    from pymicro.devices.catalogue import catalogue
    from pymicro.devices.peaks import peak_ops_per_s
    from pymicro.dtypes import dtype

    checked = 0
    for spec in catalogue().values():
        units, plain = (peak_ops_per_s(spec, dtype(n)) for n in ("fp16", "fp32"))
        if spec.capability >= (7, 0) and units and plain:
            assert units >= FORMAT_FACTOR * plain, spec.name
            checked += 1
    assert checked > 10
