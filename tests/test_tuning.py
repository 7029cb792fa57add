"""The search of `--tune` with scripted clocks and calls; no GPU."""

from types import SimpleNamespace

import pytest

from pymicro import tuning
from pymicro.backends.base import Place
from pymicro.backends.cuda import gemm, gemm_tuned
from pymicro.benchmark import Case
from pymicro.driver import DriverError
from pymicro.errors import PymicroError, Unavailable, UsageError, WrongResult
from pymicro.suite import benchmark
from pymicro.timers import Timing

GEMM = benchmark("gemm")
PARAMS = {"m": 256, "n": 256, "k": 256, "layout": "nt", "path": "auto"}
CASE = Case("gemm", "cuda", "fastest", "fp16", PARAMS)
KEY = "A card, sm_90, 132 SMs"


class FakeTimer:
    """Each call says its own seconds; under load (batches of 25 ms) it may say others."""

    name, max_repeats = "fake", 10_000

    def __init__(self):
        self.clock_s, self.timed = 0.0, []

    def time(self, call, repeats, before=None):
        burst_s, loaded_s = call.seconds
        seconds = loaded_s if burst_s * repeats > 0.01 else burst_s
        self.timed.append(call.name)
        began, self.clock_s = self.clock_s, self.clock_s + seconds * repeats
        return Timing(seconds, began, self.clock_s)

    def now(self):
        return self.clock_s

    def sleep(self, seconds):
        self.clock_s += seconds


def call_of(name, burst_s, loaded_s=None):
    def call():
        call.ran += 1

    call.name, call.ran, call.seconds = name, 0, (burst_s, loaded_s or burst_s)
    return call


def search(calls, check=lambda name, call: call(), timer=None):
    makers = {name: (lambda call=call: call) for name, call in calls.items()}
    return tuning.search(timer or FakeTimer(), makers, check)


def test_the_fastest_wins():
    calls = {n: call_of(n, s) for n, s in (("a", 3e-3), ("b", 1e-3), ("c", 1.5e-3))}
    found = search(calls)
    assert found.winner == "b"
    assert found.seconds == {"a": 3e-3, "b": 1e-3, "c": 1.5e-3}


def test_of_those_about_as_fast_load_decides():
    calls = {"sprinter": call_of("sprinter", 1e-3, 1.4e-3), "steady": call_of("steady", 1.02e-3)}
    found = search(calls)
    assert found.winner == "steady"
    assert "under load" in found.notes[-1]


def test_all_are_compiled_before_any_is_checked_and_checked_before_any_is_timed():
    seen, timer = [], FakeTimer()

    def maker(name):
        def make():
            seen.append(f"compile {name}")
            return call_of(name, 1e-3)

        return make

    def check(name, call):
        assert timer.timed == []
        seen.append(f"check {name}")

    tuning.search(timer, {n: maker(n) for n in "ab"}, check)
    assert seen == ["compile a", "compile b", "check a", "check b"]


def test_bursts_take_turns_in_both_directions():
    timer = FakeTimer()
    search({n: call_of(n, s) for n, s in (("a", 1e-3), ("b", 1.5e-3))}, timer=timer)
    turns = [n for i, n in enumerate(timer.timed[4:]) if i == 0 or timer.timed[3 + i] != n]
    assert turns == ["a", "b", "a", "b"]  # a b, b a, a b: neighbours of a kind run together


def test_a_wrong_row_is_dropped_with_a_note_however_fast():
    def check(name, call):
        if name == "wrong":
            raise WrongResult("wrong result: relative error 1.\nmore")

    found = search({"wrong": call_of("wrong", 1e-6), "right": call_of("right", 1e-3)}, check)
    assert found.winner == "right"
    assert found.notes == ["wrong dropped: wrong result: relative error 1."]
    assert "wrong" not in found.seconds


def test_a_row_that_is_right_once_and_then_wrong_does_not_win():
    seen = []

    def check(name, call):
        seen.append(name)
        if seen.count("forgetful") > 1 and name == "forgetful":
            raise WrongResult("wrong result: flags left raised")

    calls = {"forgetful": call_of("forgetful", 1e-6), "right": call_of("right", 1e-3)}
    found = search(calls, check)
    assert found.winner == "right"
    assert found.notes == ["forgetful dropped: wrong result: flags left raised"]
    assert set(found.seconds) == {"right"}


def test_a_row_that_fails_in_a_way_nobody_foresaw_is_dropped_too():
    def check(name, call):
        if name == "odd":
            raise ZeroDivisionError

    found = search({"odd": call_of("odd", 1e-6), "right": call_of("right", 1e-3)}, check)
    assert (found.winner, found.notes) == ("right", ["odd dropped: ZeroDivisionError"])


def test_a_row_that_does_not_compile_is_dropped_with_a_note():
    def make():
        raise PymicroError("NVRTC refused the source")

    calls = {"right": lambda: call_of("right", 1e-3), "bad": make}
    found = tuning.search(FakeTimer(), calls, lambda name, call: None)
    assert found.winner == "right"
    assert found.notes == ["bad dropped: NVRTC refused the source"]


def test_problems_that_do_not_fit_are_told_and_the_next_one_is_tuned(bench, monkeypatch):
    problem = bench.problem

    def drawn(benchmark, case, fill, seed):
        if case.params["m"] > 256:
            raise Unavailable("the operands need too much.")
        return problem(benchmark, case, fill, seed)

    monkeypatch.setattr(bench, "problem", drawn)
    huge = Case("gemm", "cuda", "fastest", "fp16", PARAMS | {"m": 2**20})
    first, *_, last = tuning.tune(GEMM, [huge, CASE], "normal", 0, bench)
    assert "the operands need too much" in first
    assert last.startswith("tuned ")


def test_nobody_left():
    def check(name, call):
        raise WrongResult("wrong result")

    assert search({"a": call_of("a", 1e-3)}, check).winner is None


def test_far_slower_ones_get_no_burst():
    timer = FakeTimer()
    search({"fast": call_of("fast", 1e-3), "slow": call_of("slow", 5.0)}, timer=timer)
    assert timer.timed.count("slow") == 2


class FakeBench:
    """A workbench whose GPU computes what the scripts say."""

    def __init__(self):
        self.place, self.timer = Place("cuda", 0, (9, 0), 132), FakeTimer()
        self.alive = True

    def problem(self, benchmark, case, fill, seed):
        return SimpleNamespace(arrays={}, poison=lambda: None, check=lambda: None)

    def synchronise(self): ...

    def is_alive(self):
        return self.alive


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_tuned, "default_path", lambda: tmp_path / "tuned-gemm.json")
    monkeypatch.setattr(gemm_tuned, "device_key", lambda index: KEY)
    monkeypatch.setattr(tuning, "_ends", lambda place, seconds: True)
    monkeypatch.setattr(gemm, "bound", lambda row, *_: call_of(row.name, seconds_of(row)))
    return FakeBench()


def seconds_of(row):
    return 1e-3 if row.name == "sm80_fp16_64x64x64" else 2.5e-3


def test_the_winner_is_remembered_for_later_runs(bench):
    told = list(tuning.tune(GEMM, [CASE], "normal", 0, bench))
    assert told[-1].endswith("sm80_fp16_64x64x64")
    prepared = gemm.prepare(CASE, bench.place, {})
    assert prepared.notes["kernel"] == "sm80_fp16_64x64x64"
    assert prepared.notes["tuned"] is True


def test_a_row_that_hangs_ends_the_search_and_is_not_tried_again(bench, monkeypatch):
    tried = []
    row = gemm.candidates(CASE, bench.place)[0]

    def bound(row, *_):
        tried.append(row.name)
        return call_of(row.name, seconds_of(row))

    monkeypatch.setattr(gemm, "bound", bound)
    with monkeypatch.context() as hanging:
        hanging.setattr(tuning, "_ends", lambda place, seconds: False)
        with pytest.raises(tuning.Hung, match=row.name):
            list(tuning.tune(GEMM, [CASE], "normal", 0, bench))
    assert row.name in tried
    tried.clear()
    told = list(tuning.tune(GEMM, [CASE], "normal", 0, bench))
    assert row.name not in tried
    assert any(row.name in line and "not tried" in line for line in told)


@pytest.mark.parametrize("alive", [True, False])
def test_a_row_that_fails_ends_the_search_only_if_it_spoils_the_context(bench, monkeypatch, alive):
    bad = gemm.candidates(CASE, bench.place)[0].name

    def bound(row, *_):
        def call():
            if row.name == bad:
                bench.alive = alive
                raise DriverError("the CUDA driver answered CUDA_ERROR_ILLEGAL_ADDRESS.")

        call.name, call.seconds = row.name, (seconds_of(row), seconds_of(row))
        return call

    monkeypatch.setattr(gemm, "bound", bound)
    if alive:
        told = list(tuning.tune(GEMM, [CASE], "normal", 0, bench))
        assert any(bad in line and "dropped" in line for line in told)
    else:
        with pytest.raises(tuning.Hung, match="ILLEGAL_ADDRESS"):
            list(tuning.tune(GEMM, [CASE], "normal", 0, bench))


@pytest.mark.parametrize(
    ("place", "cases", "word"),
    [
        (Place("cpu"), [CASE], "on a GPU"),
        (Place("cuda", 0, (9, 0), 132), [], "cuda backend"),
        (
            Place("cuda", 0, (9, 0), 132),
            [Case("gemm", "cuda", "fastest", "fp16", PARAMS | {"path": "sm80"})],
            "--path auto",
        ),
    ],
)
def test_nothing_to_tune_is_a_wrong_word(bench, place, cases, word):
    bench.place = place
    with pytest.raises(UsageError, match=word):
        list(tuning.tune(GEMM, cases, "normal", 0, bench))
