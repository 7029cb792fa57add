"""All sorts of traces: of earlier versions, without steps, of several ranks, and those refused."""

import pytest
import synthetic_trace as synthetic
from synthetic_trace import GEMM, NCCL, Job, write

from pymicro.analysis import profile
from pymicro.analysis.profile import steps
from pymicro.analysis.profile.trace import load
from pymicro.errors import UsageError


def job_of(steps_, body):
    job = Job()
    for _ in range(steps_):
        with job.step():
            body(job)
    return job


def training(job, count=10):
    for _ in range(count):
        job.op("aten::mm", 6, 100, GEMM)


def unmarked(job):
    job.events = [e for e in job.events if not e["name"].startswith("ProfilerStep")]
    return job


def only(told):
    return told.ranks[0].split


def test_without_marks_steps_are_the_optimisers(tmp_path):
    job = Job()
    for _ in range(5):
        training(job)
        with job.range("Optimizer.step#AdamW.step"):
            job.op("aten::_fused_adamw_", 20, 50, "multi_tensor_apply_kernel")
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert len(only(told).steps_s) == 4
    assert "optimizer.step()" in only(told).how
    assert not told.findings


def test_without_optimiser_steps_are_the_loaders(tmp_path):
    job = Job()
    for _ in range(5):
        with job.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            job.wait(500)
        training(job)
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert len(only(told).steps_s) == 4
    assert "data loader" in only(told).how


def test_without_anything_the_whole_trace_is_one_step_and_that_is_said(tmp_path):
    job = unmarked(job_of(3, training))
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert len(only(told).steps_s) == 1
    assert [f.code for f in told.findings] == ["no-steps"]
    assert only(told).busy_s == pytest.approx(3 * 10 * 100e-6)


def test_categories_of_earlier_versions_mean_the_same(tmp_path):
    job = job_of(3, training)
    new = profile.explain(write(tmp_path / "new.json", job.document()))
    old = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel",
           "gpu_memcpy": "Memcpy", "user_annotation": "user_annotation"}  # fmt: skip
    for event in job.events:
        event["cat"] = old[event["cat"]]
    past = profile.explain(write(tmp_path / "old.json", job.document()))
    assert only(past).parts == only(new).parts


def test_other_events_change_nothing(tmp_path):
    """Flows, memory events, stacks of the library, a profiler's own spans, unreadable stamps."""
    job = job_of(3, training)
    plain = profile.explain(write(tmp_path / "plain.json", job.document()))
    at = job.events[0]["ts"]
    job.events[5:5] = [
        {"ph": "s", "id": 1, "pid": 4321, "tid": 4321, "ts": at, "cat": "ac2g", "name": "ac2g"},
        {"ph": "i", "s": "t", "name": "[memory]", "ts": at, "args": {"Bytes": 512}},
        {"ph": "M", "name": "process_name", "ts": at, "pid": 1, "tid": 0, "args": {"name": "x"}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": at, "dur": 1e9},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "ts": at, "dur": 5},
        synthetic._complete("python_function", "torch/nn.py(1): f", 4321, 4321, at, 1e5, {}),
    ]
    assert only(profile.explain(write(tmp_path / "more.json", job.document()))).parts == (
        only(plain).parts
    )
    job.events.append({"ph": "X", "cat": "kernel", "name": "k", "ts": "never"})
    told = profile.explain(write(tmp_path / "bad.json", job.document()))
    assert [f.code for f in told.findings] == ["damaged-events"]


def test_kernels_match_operators_through_their_launch(tmp_path):
    job = job_of(2, lambda j: j.op("aten::addmm", 6, 50, GEMM, **{"Input Dims": [[8], [4, 2], []]}))
    row = only(profile.explain(write(tmp_path / "t.json", job.document()))).kernels[0]
    assert (row.operator, row.shapes) == ("aten::addmm", "8, 4×2")
    assert (row.kind.group, row.kind.on_tensor_cores) == ("gemm", True)
    assert row.kind.generation == "sm_80"


def test_work_whose_launch_is_missing_has_no_owner_and_that_is_said(tmp_path):
    job = job_of(3, lambda j: [j.op(host_us=50) for _ in range(50)])
    job.events = [e for e in job.events if e["cat"] != "cuda_runtime"]
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert "unexplained" in [f.code for f in told.findings]


def test_early_device_clocks_are_set_right_and_that_is_said(tmp_path):
    job = job_of(3, lambda j: [j.op() for _ in range(50)])
    right = only(profile.explain(write(tmp_path / "right.json", job.document())))
    _shift_device(job, -300)
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert [f.code for f in told.findings] == ["clock-skew"]
    # As far as causality shows: the shortest launch stays unknown.
    assert only(told).shift_s == pytest.approx(300e-6, abs=10e-6)
    assert only(told).part("host").s == pytest.approx(right.part("host").s, rel=0.02)


def test_late_device_clocks_show_at_synchronisations(tmp_path):
    def body(job):
        training(job)
        job.synchronize("cudaDeviceSynchronize", return_us=0)

    job = job_of(5, body)
    _shift_device(job, 700)
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert [f.code for f in told.findings] == ["clock-skew"]
    assert only(told).shift_s == pytest.approx(-700e-6, abs=10e-6)


def test_clocks_that_have_nothing_in_common_are_refused(tmp_path):
    job = job_of(3, training)
    _shift_device(job, -5e6)
    with pytest.raises(UsageError, match="clocks of host and device are 5"):
        profile.explain(write(tmp_path / "t.json", job.document()))


def _shift_device(job, us):
    for event in job.events:
        if event["cat"] in ("kernel", "gpu_memcpy"):
            event["ts"] += us


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda job: [e for e in job.events if e["pid"] != 0], "has no device events"),
        (lambda job: [e for e in job.events if e["pid"] == 0], "none is an operator or a call"),
        (lambda job: [], "of its 0 events none"),
        (lambda job: [e | {"cat": "toplevel"} for e in job.events], "none is an operator"),
        (
            lambda job: [
                e | {"name": e["name"].replace("cudaLaunch", "hipLaunch")} for e in job.events
            ],
            "recorded on AMD hardware",
        ),
        (
            lambda job: [
                e | {"cat": e["cat"].replace("cuda_runtime", "xpu_runtime")} for e in job.events
            ],
            "recorded on Intel hardware",
        ),
    ],
)
def test_what_cannot_be_split_is_refused_in_a_sentence(tmp_path, change, says):
    job = job_of(2, training)
    job.events = change(job)
    with pytest.raises(UsageError, match=says):
        profile.explain(write(tmp_path / "t.json", job.document()))


def test_another_vendors_device_is_named_even_without_calls(tmp_path):
    job = job_of(2, training)
    amd = [{"id": 0, "name": "AMD Instinct MI300X"}]
    with pytest.raises(UsageError, match="AMD"):
        profile.explain(write(tmp_path / "t.json", job.document(deviceProperties=amd)))


def test_no_file_and_an_empty_folder_are_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no file or folder"):
        profile.explain(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="holds no trace"):
        profile.explain(tmp_path)


def _rank(tmp_path, number, loader_us, nccl_us):
    def body(job):
        with job.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            job.wait(loader_us)
        training(job)
        job.op("c10d::allreduce_", 10, nccl_us, NCCL)
        job.synchronize()

    write(tmp_path / f"trace.rank{number}.json.gz", job_of(3, body).document())


def test_of_several_ranks_the_odd_one_is_named_with_its_part(tmp_path):
    for number in range(12):
        _rank(tmp_path, number, *((4000, 300) if number == 10 else (500, 3800)))
    told = profile.explain(tmp_path)
    assert [r.name for r in told.ranks] == [f"rank {n}" for n in range(12)]
    assert told.verdict.startswith("rank 10 differs")
    assert "input is what is longer there" in told.verdict
    assert told.waiting_s is not None
    assert told.waiting_s[10] == pytest.approx(0, abs=1e-9)
    assert told.waiting_s[0] == pytest.approx(3.5e-3, rel=0.01)
    assert told.shown.name == "rank 10"


def test_ranks_are_known_by_what_their_files_say(tmp_path):
    for number in (11, 2):
        job = job_of(2, training)
        info = {"backend": "nccl", "rank": number, "world_size": 12}
        write(tmp_path / f"host_{99 - number}.pt.trace.json", job.document(distributedInfo=info))
    assert [r.name for r in profile.explain(tmp_path).ranks] == ["rank 2", "rank 11"]


def test_other_files_of_a_folder_are_left_out_and_that_is_said(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    write(tmp_path / "t.json", job_of(2, training).document())
    told = profile.explain(tmp_path)
    assert [r.name for r in told.ranks] == ["t.json"]
    assert [f.code for f in told.findings] == ["left-out"]
    assert "config.json" in told.findings[0].seen


def test_of_collectives_the_other_ranks_show_what_is_waiting(tmp_path):
    for number, us in enumerate((4000, 3900)):
        _rank(tmp_path, number, 500, us)
    cause = next(c for c in profile.explain(tmp_path).causes if c.code == "collective")
    assert "100 µs of all collectives' time" in cause.seen
    assert cause.do.startswith("larger buckets")


def test_equal_ranks_are_said_to_be_equal(tmp_path):
    for number in range(2):
        _rank(tmp_path, number, 500, 300)
    assert "No rank of 2 stands out" in profile.explain(tmp_path).verdict


def test_swapping_two_ranks_swaps_the_verdict(tmp_path):
    for order in ((500, 4000, 500), (4000, 500, 500)):
        folder = tmp_path / str(order[0])
        folder.mkdir()
        for number, loader_us in enumerate(order):
            _rank(folder, number, loader_us, 4300 - loader_us)
        odd = order.index(4000)
        assert profile.explain(folder).verdict.startswith(f"rank {odd} differs")


def test_the_device_that_works_most_is_told(tmp_path):
    job = job_of(2, training)
    other = [dict(e, args=dict(e["args"], device=1), dur=1) for e in job.events if e["pid"] == 0]
    job.events += other
    told = profile.explain(write(tmp_path / "t.json", job.document()))
    assert [f.code for f in told.findings] == ["other-devices"]
    assert only(told).device == "NVIDIA H200"


def test_the_process_that_launches_most_is_told(tmp_path):
    job = job_of(2, training)
    worker = synthetic._complete("cpu_op", "aten::stack", 99, 99, 1e6, 5e5, {})
    trace = load(
        write(tmp_path / "t.json", {**job.document(), "traceEvents": [worker, *job.events]})
    )
    assert steps.process(trace) == synthetic.PID
