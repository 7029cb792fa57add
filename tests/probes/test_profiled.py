"""What children make of a profiler's records, and of a profiler that gives none."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pymicro.probes.child import ask

CHILDREN = Path(__file__).parents[2] / "pymicro" / "probes" / "children"


class Profiler:
    """Stands in for torch's: gives the records that were scripted, one call's worth for each."""

    records = ()

    def __init__(self, activities):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def events(self):
        return [
            SimpleNamespace(
                name=name,
                device_type=f"DeviceType.{where}",
                time_range=SimpleNamespace(start=i, elapsed_us=lambda us=us: us),
            )
            for i, (name, where, us) in enumerate(self.records)
        ]


@pytest.fixture
def profiled(monkeypatch):
    """A torch that only has a profiler with these records."""
    cuda = SimpleNamespace(synchronize=lambda: None, _sleep=lambda cycles: None)
    torch = SimpleNamespace(cuda=cuda)
    module = SimpleNamespace(profile=Profiler, ProfilerActivity=SimpleNamespace(CUDA="cuda"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.profiler", module)
    monkeypatch.syspath_prepend(str(CHILDREN / "shared"))

    def script(*records):
        monkeypatch.setattr(Profiler, "records", records)
        return torch

    return script


@pytest.fixture
def child(profiled):
    return lambda name: runpy.run_path(str(CHILDREN / f"{name}.py"))


MARK = ("at::cuda::(anonymous namespace)::spin_kernel(long)", "CUDA", 1)
HOST = ("cudaLaunchKernel", "CPU", 3)


def test_kernels_with_launches_a_call_and_median(child):
    records = [("gemm", us * 1e-6) for us in (9, 5, 4, 5, 6)] + [("reduce", 1e-6)] * 10
    gemm, reduce = child("shared/kernel_records")["by_kernel"](records, 5)
    assert (gemm["name"], gemm["calls"]) == ("gemm", 1.0)
    assert gemm["seconds"] == pytest.approx(5e-6)
    assert (reduce["name"], reduce["calls"]) == ("reduce", 2.0)


def test_records_are_the_devices_only_and_in_order_of_their_start(child, profiled):
    torch = profiled(("a", "CUDA", 2), HOST, ("b" * 999, "CUDA", 1))
    (first, second) = child("shared/kernel_records")["recorded"](torch, lambda: None)
    assert first == ("a", pytest.approx(2e-6))
    assert second[0] == "b" * 400


@pytest.mark.parametrize("records", [(), (HOST,)], ids=["none", "host"])
def test_no_record_is_an_error_and_never_a_time_of_zero(child, profiled, records):
    """Another profiler holds the driver's interface, or the system forbids it."""
    torch, shared = profiled(*records), child("shared/kernel_records")
    with pytest.raises(RuntimeError, match="another profiler"):
        shared["recorded"](torch, lambda: None)
    # The switches are timed by events: without a profiler they lack a name, not a time.
    assert child("flags")["_kernels"](torch, lambda: None) == []


def test_where_the_profiler_is_forbidden_events_tell_the_time_and_why(child, profiled):
    torch, calls = profiled(HOST), []

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            pass

        def elapsed_time(self, end):
            return 6.0

    torch.cuda.Event = Event
    times, names, timer = child("shared/kernel_records")["timed"](torch, lambda: calls.append(1), 3)
    assert times == pytest.approx([2e-3] * 5)
    assert names == []
    assert timer.startswith("cuda events (no kernel records; another profiler may hold")
    assert len(calls) == 3 + 3 + 5 * 3
    *_, timer, host_s = child("torch_compile")["_timed"](torch, lambda: None)
    assert timer.startswith("cuda events")
    assert host_s >= 0


class Tell:
    """Keeps what a probe tells."""

    def __init__(self):
        self.told, self.steps = {}, []

    def __call__(self, **facts):
        self.told |= facts

    def step(self, name):
        self.steps.append(name)

    def is_installed(self, name):
        return True


def products(child, torch, *asked):
    """What the probe tells of products; those of format `no` are refused."""
    probe, tell = child("products")["probe"], Tell()
    torch.__version__ = "2.11"
    torch.ones = lambda *_, **__: None

    def call(torch, dtype, *_):
        if dtype == "no":
            raise ValueError("torch has no such product")
        return lambda: None

    probe.__globals__["_call"] = call
    probe(tell, str(CHILDREN.parents[2]), [(dtype, 1, 1, 1, "nt") for dtype in asked])
    return tell.told


def test_products_are_told_apart_by_the_marks_between_them(child, profiled):
    fill, one, two = ("fill", "CUDA", 9), ("gemm_one", "CUDA", 5), ("gemm_two", "CUDA", 6)
    once = [fill, one, MARK, *[one] * 5, MARK, fill, two, MARK, *[two, fill] * 5, MARK]
    told = products(child, profiled(*once), "fp16", "fp16")
    (only,) = told["product_0"]["kernels"]
    assert (only["name"], only["calls"]) == ("gemm_one", 1.0)
    assert [k["name"] for k in told["product_1"]["kernels"]] == ["gemm_two", "fill"]


def test_a_product_that_is_refused_or_unseen_says_why(child, profiled):
    one = ("gemm", "CUDA", 5)
    told = products(child, profiled(one, MARK, *[one] * 5, MARK, MARK, MARK), "fp16", "fp16")
    assert told["product_0"]["kernels"][0]["name"] == "gemm"
    assert "no kernel records" in told["product_1"]["reason"]
    told = products(child, profiled(one, MARK, *[one] * 5, MARK), "no", "fp16")
    assert told["product_0"]["reason"] == "ValueError: torch has no such product"
    assert told["product_1"]["kernels"][0]["name"] == "gemm"


def test_records_that_do_not_add_up_name_no_kernel(child, profiled):
    """One product's kernels must never stand beside another's name."""
    one = ("gemm", "CUDA", 5)
    told = products(child, profiled(one, MARK, *[one] * 5, MARK), "fp16", "fp16")
    assert {t["reason"] for name, t in told.items() if name.startswith("product")} == {
        "RuntimeError: 1 of 2 products stand in the records"
    }


def test_a_format_without_records_leaves_the_next_ones(child, profiled, monkeypatch):
    one = ("gemm", "CUDA", 5)
    whole = [one, MARK, *[one] * 5, MARK]
    scripts = iter([whole, (), whole])  # The start of the profiler, then a format each.
    monkeypatch.setattr(Profiler, "__enter__", lambda self: profiled(*next(scripts)) and self)
    told = products(child, profiled(*whole), "int8", "fp16")
    assert "another profiler" in told["product_0"]["reason"]
    assert told["product_1"]["kernels"][0]["name"] == "gemm"


def test_kernels_of_each_call_are_summed(child, profiled):
    records = [("qk", "CUDA", 2), ("softmax", "CUDA", 1), ("qk", "CUDA", 2)] * 20
    timed = child("shared/kernel_records")["timed"]
    times, names, timer = timed(profiled(*records), lambda: None, 20)
    assert timer == "profiler"
    assert times == pytest.approx([5e-6] * 20)
    assert names == ["qk", "softmax", "qk"]
    times, names, _ = timed(profiled(*records[:59]), lambda: None, 20)
    assert times == pytest.approx([98e-6 / 20])
    assert names == ["qk", "softmax"]


def test_kernels_that_cannot_be_told_apart_by_calls_are_not_counted(child, profiled):
    timed = child("torch_compile")["_timed"]
    times, names, *_ = timed(profiled(*[("a", "CUDA", 2), ("b", "CUDA", 1)] * 30), lambda: None)
    assert (len(times), names) == (30, ["a", "b"])
    times, names, *_ = timed(profiled(*[("a", "CUDA", 2)] * 59), lambda: None)
    assert (len(times), names) == (1, [])


def test_a_probe_finds_what_the_probes_share(fake_modules):
    """Started as it is on a machine with a GPU, up to the first thing that needs one."""
    torch = "__version__ = '0'\ndef set_warn_always(on): raise RuntimeError('got this far')\n"
    report = ask("attention", fake_modules(torch=torch), 30, attentions=[], dtypes=[])
    assert report.how == "RuntimeError: got this far"


def test_why_an_attention_is_refused_is_without_the_frameworks_file_names(child):
    said = [
        SimpleNamespace(message=text)
        for text in (
            "Flash attention kernel not used because: (Triggered internally at /a/b.cpp:1.)",
            "Flash Attention does not support non-null attn_mask. (Triggered internally at /a.h)",
        )
    ]
    why = child("attention")["_why"](RuntimeError("No available kernel."), said)
    assert why == "Flash Attention does not support non-null attn_mask."
    assert child("attention")["_why"](RuntimeError("No available kernel."), []) == (
        "No available kernel."
    )
