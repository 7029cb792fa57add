"""What children make of a profiler's records, and of a profiler that gives none."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

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
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    module = SimpleNamespace(profile=Profiler, ProfilerActivity=SimpleNamespace(CUDA="cuda"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.profiler", module)

    def script(*records):
        monkeypatch.setattr(Profiler, "records", records)
        return torch

    return script


def child(name):
    return runpy.run_path(str(CHILDREN / f"{name}.py"))


def test_kernels_of_a_call_with_launches_and_median(profiled):
    calls = []
    records = [("gemm", "CUDA", us) for us in (9, 5, 4, 5, 6)] + [("reduce", "CUDA", 1)] * 10
    torch = profiled(*records, ("cudaLaunchKernel", "CPU", 3))
    gemm, reduce = child("products")["kernels_of"](torch, lambda: calls.append(1))
    assert (gemm["name"], gemm["calls"]) == ("gemm", 1.0)
    assert gemm["seconds"] == pytest.approx(5e-6)
    assert (reduce["name"], reduce["calls"]) == ("reduce", 2.0)
    assert len(calls) == 6  # One to load what is loaded at first use.


@pytest.mark.parametrize("records", [(), (("cudaLaunchKernel", "CPU", 3),)], ids=["none", "host"])
def test_no_record_is_an_error_and_never_a_time_of_zero(profiled, records):
    """Another profiler holds the driver's interface, or the system forbids it."""
    torch = profiled(*records)
    with pytest.raises(RuntimeError, match="another profiler"):
        child("products")["kernels_of"](torch, lambda: None)
    with pytest.raises(RuntimeError, match="another profiler"):
        child("attention")["_timed"](torch, lambda: None)
    with pytest.raises(RuntimeError, match="another profiler"):
        child("torch_compile")["_timed"](torch, lambda: None)


def test_a_product_without_records_is_told_as_such_and_the_next_one_is_tried(profiled):
    probe = child("products")["probe"]
    told = {}

    class Tell:
        def __call__(self, **facts):
            told.update(facts)

        def step(self, name):
            pass

        def is_installed(self, name):
            return True

    torch = profiled(*[("gemm", "CUDA", 5)] * 5)
    torch.__version__ = "2.11"
    torch.ones = lambda *_, **__: None
    own = probe.__globals__
    own["_call"] = lambda torch, dtype, *_: (
        profiled() and (lambda: None)
        if dtype == "int8"
        else (profiled(*[("gemm", "CUDA", 5)] * 5) and (lambda: None))
    )
    probe(Tell(), str(CHILDREN.parents[2]), [("int8", 1, 1, 1, "nt"), ("fp16", 1, 1, 1, "nt")])
    assert "another profiler" in told["product_0"]["reason"]
    assert told["product_1"]["kernels"][0]["name"] == "gemm"


def test_kernels_of_each_call_of_an_attention_are_summed(profiled):
    records = [("qk", "CUDA", 2), ("softmax", "CUDA", 1), ("pv", "CUDA", 2)] * 20
    times, names = child("attention")["_timed"](profiled(*records), lambda: None)
    assert times == pytest.approx([5e-6] * 20)
    assert names == ["qk", "softmax", "pv"]
    uneven = child("attention")["_timed"](profiled(*records[:59]), lambda: None)[0]
    assert uneven == pytest.approx([98e-6 / 20])


def test_why_an_attention_is_refused_is_without_the_frameworks_file_names():
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
