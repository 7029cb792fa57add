"""Kernels find their operator, copies are no kernels, and ranges that a user marked no work."""

from types import SimpleNamespace

import pytest


class Profiler:
    """What torch's profiler leaves behind, scripted."""

    def __init__(self, events):
        self._events = events

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def events(self):
        return self._events


def kernel(name, microseconds):
    return SimpleNamespace(name=name, duration=microseconds)


def cpu_event(name, parent=None, kernels=()):
    return SimpleNamespace(name=name, cpu_parent=parent, kernels=list(kernels))


@pytest.fixture
def scripted(monkeypatch):
    import torch

    def install(events):
        monkeypatch.setattr(torch.profiler, "profile", lambda **_: Profiler(events))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)

    return install


def test_kernels_belong_to_the_operator_whose_mark_they_lie_under(scripted):
    import torch

    from pymicro.e2e import kernels

    first, second = cpu_event("pymicro:0"), cpu_event("pymicro:1")
    inner = cpu_event("aten::mm", cpu_event("aten::matmul", first), [kernel("sgemm", 5.0)])
    more = cpu_event("aten::add", second, [kernel("add", 2.0), kernel("Memcpy DtoD", 1.0)])
    stray = cpu_event("elsewhere", None, [kernel("other", 9.0)])
    scripted([first, inner, second, more, stray])

    def work(counting):
        counting.at("forward")
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        counting.at("backward")
        torch.ones(2) + 1

    rows = kernels.profile(work, "cpu", {})
    names = [(phase, operator.name) for phase, operator, _ in rows]
    assert names[:2] == [("forward", "aten::ones"), ("forward", "aten::ones")]
    assert names[2:] == [
        ("forward", "aten::mm"), ("backward", "aten::ones"), ("backward", "aten::add.Tensor"),
    ]  # fmt: skip
    assert rows[0][2] == kernels.Launched(("sgemm",), 0, pytest.approx(5e-6))
    assert rows[1][2] == kernels.Launched(("add", "Memcpy DtoD"), 1, pytest.approx(3e-6))
    line = next(r for r in kernels.summary(rows) if r["name"] == "aten::ones")
    assert (line["calls"], line["kernels"], line["copies"]) == (2, 2, 1)
    assert line["dtype"] == "float32"


def test_busy_is_the_devices_work_alone(scripted):
    import torch

    from pymicro.e2e import kernels

    kinds = torch.autograd.DeviceType

    def event(kind, name, microseconds, is_marked=False):
        span = SimpleNamespace(elapsed_us=lambda: microseconds)
        return SimpleNamespace(
            device_type=kind, name=name, time_range=span, is_user_annotation=is_marked
        )

    scripted(
        [
            event(kinds.CUDA, "sgemm", 5.0),
            event(kinds.CUDA, "Memcpy HtoD", 2.0),
            event(kinds.CUDA, "Optimizer.step", 50.0, is_marked=True),
            event(kinds.CPU, "cudaLaunchKernel", 7.0),
        ]
    )
    assert kernels.busy(lambda: None) == (pytest.approx(7e-6), 1)


def test_a_decode_step_is_what_one_token_more_takes(monkeypatch):
    from pymicro.e2e import kernels, measure

    asked = []
    task = SimpleNamespace(
        device="cuda:0",
        row=SimpleNamespace(task="generate"),
        run=lambda at, tokens: asked.append(tokens),
    )

    def busy(work):
        work()
        return (0.5, 100) if asked[-1] == 1 else (0.7, 140)

    monkeypatch.setattr(kernels, "busy", busy)
    found_s, counts = measure.busy(task)
    assert asked == [1, 2]
    assert found_s["decode"] == pytest.approx(0.2)
    assert counts == {"first": 100, "decode": 40}
    asked.clear()
    assert measure.busy(task, tokens=5)[0]["decode"] == pytest.approx(0.05)  # The mean of four.
    assert asked == [1, 5]
    task.row.task = "train"
    assert measure.busy(task)[1] == {"step": 140}
    task.device = "cpu"
    assert measure.busy(task) == ({}, {})
