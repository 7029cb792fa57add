"""The study of products beside the vendor's: on the CPU at small sizes, with short blocks."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import ScriptedTimer, gemm_result

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gemm_vs_vendor as study
import gemm_vs_vendor_report as report
import paired

from pymicro import backends
from pymicro.errors import UsageError
from pymicro.results import Store
from pymicro.sampling import Samples
from pymicro.telemetry import Telemetry
from pymicro.timers import Timing
from pymicro.workbench import Workbench

needs_both = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "pymicro._native")),
    reason="needs torch and the C++ module",
)
SHORT = paired.Effort(block_s=0.01, pairs=10, warm_up_s=0.01, most_s=0.2, batch_s=0.001)
SHARED = paired.Shared({"kind": "cpu", "name": "test"}, {}, "visit1", lambda windows: None)
SMALL = [study.Row("fp32", 64, 48, 32), study.Row("bf16", 32, 32, 32, fill="zeros")]


@pytest.fixture
def bench():
    made = Workbench("cpu")
    yield made
    made.release()


def result(row="fp16-8192", seconds=1e-3, vendor=False, visit="v1", **changes):
    details = {"row": row, "is_vendor": vendor, "kernel": "k"}
    return gemm_result(seconds, run_id=visit, details=details, **changes)


@needs_both
def test_rows_are_measured_in_pairs_and_kept(bench, tmp_path):
    store = Store(tmp_path / "gemm_vs_vendor.jsonl")
    assert study.study(SMALL, bench, SHARED, store, SHORT) == {}
    held = store.read().results
    assert [r.backend for r in held] == ["native", "torch"] * 2
    for row in SMALL:
        ours, vendor = report.pair(held, row)
        assert len(ours.times_s) == len(vendor.times_s) >= SHORT.pairs
        assert ours.verified.passed
        assert vendor.verified.passed
        assert ours.fill == vendor.fill == row.fill


@needs_both
def test_a_second_visit_goes_on_where_the_first_ended(bench, tmp_path):
    store = Store(tmp_path / "gemm_vs_vendor.jsonl")
    study.study(SMALL[:1], bench, SHARED, store, SHORT)
    visit2 = replace(SHARED, run_id="visit2")
    study.study(SMALL, bench, visit2, store, SHORT)
    assert [r.run_id for r in store.read().results] == ["visit1"] * 2 + ["visit2"] * 2
    study.study(SMALL, bench, visit2, store, SHORT)
    assert len(store.read().results) == 4
    study.study(SMALL, bench, replace(SHARED, run_id="visit3"), store, SHORT, again=True)
    assert len(store.read().results) == 8


def test_no_row_starts_after_the_time_is_up(bench, tmp_path, capsys):
    store = Store(tmp_path / "gemm_vs_vendor.jsonl")
    assert study.study(SMALL, bench, SHARED, store, SHORT, seconds=0) == {}
    assert not store.path.exists()
    assert "goes on from there" in capsys.readouterr().err


@needs_both
@pytest.mark.parametrize("how", ["wrong result", "raises"])
@pytest.mark.parametrize("who", ["native", "torch"])
def test_a_wrong_side_costs_its_row_and_no_other(bench, tmp_path, monkeypatch, who, how):
    backend = backends.backend(who)
    right = backend.prepare

    def wrong(case, place, arrays):
        made = right(case, place, arrays)
        if case.dtype == "fp32":
            if how == "raises":
                raise RuntimeError("a library's own words")
            return backends.Prepared(lambda: None, made.notes, made.close)
        return made

    monkeypatch.setattr(backend, "prepare", wrong, raising=False)
    store = Store(tmp_path / "gemm_vs_vendor.jsonl")
    failed = study.study(SMALL, bench, SHARED, store, SHORT)
    assert list(failed) == [SMALL[0].name]
    assert ("wrong result" if how == "wrong result" else "own words") in failed[SMALL[0].name]
    assert {r.details["row"] for r in store.read().results} == {SMALL[1].name}


def side(name, call):
    case = study.Case("gemm", name, "matmul", "fp16", {})
    return paired.Side(case, backends.Prepared(call), None)


def test_the_faster_vendor_is_the_bar():
    slow, fast = (lambda: None), (lambda: None)
    timer = ScriptedTimer(lambda i: 1e-3)
    timer.time = lambda call, repeats, before=None: SimpleNamespace(
        seconds=2e-3 if call is slow else 1e-3
    )
    sides = [side("torch", slow), side("cupy", fast)]
    chosen, seconds = paired.fastest(timer, sides)
    assert chosen is sides[1]
    assert seconds == {"torch matmul": 2e-3, "cupy matmul": 1e-3}


def test_one_vendor_needs_no_race():
    only = side("torch", lambda: None)
    assert paired.fastest(ScriptedTimer([]), [only]) == (only, {})


def test_pairs_are_blocks_taken_side_by_side_after_the_warm_up():
    turn = {"a": 1e-3, "b": 2e-3}
    timer, order = ScriptedTimer([]), []

    def timed(call, repeats, before=None):
        seconds = turn[call.__name__]
        began, timer.clock_s = timer.clock_s, timer.clock_s + seconds * repeats
        order.append((call.__name__, began))
        return SimpleNamespace(
            seconds=seconds, started_s=began, ended_s=timer.clock_s, sm_clock_hz=1.4e9
        )

    def a(): ...
    def b(): ...

    timer.time = timed
    sides = [side("a", a), side("b", b)]
    parts = paired.in_turns(timer, sides, paired.Effort())
    ours, theirs = zip(*paired.pairs(parts), strict=True)
    assert len(ours) >= 10
    assert min(block.started_s for block in ours) >= 2.0
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.seconds == pytest.approx(1e-3)
        assert other.seconds == pytest.approx(2e-3)
        assert mine.sm_clock_hz == pytest.approx(1.4e9)
        assert mine.ended_s - mine.started_s >= 0.5
        neighbours = {mine.ended_s - other.started_s, other.ended_s - mine.started_s}
        assert min(map(abs, neighbours)) < 1e-9


def test_a_turn_without_a_sample_takes_its_pair_along_and_no_other():
    def samples(*turns):
        timings = [Timing(seconds, 0.0, 1.0) for turn in turns for seconds in turn]
        starts = tuple(sum(map(len, turns[:i])) for i in range(len(turns)))
        return Samples(tuple(timings), "budget", blocks=starts)

    parts = [
        [samples([1.0], [2.0, 4.0], [5.0]), samples([7.0])],
        [samples([1.0], [], [6.0]), samples([8.0])],
    ]
    found = [tuple(block.seconds for block in pair) for pair in paired.pairs(parts)]
    assert found == [(1.0, 1.0), (5.0, 6.0), (7.0, 8.0)]
    assert paired.pairs([[], []]) == []


def test_the_table_has_every_bar_a_burst_and_a_twin_on_zeros_at_8192_alone():
    table = study.rows("cuda")
    assert len({row.name for row in table}) == len(table)
    assert {row.name for row in table if row.bar} >= {"fp16-1024", "int8-16384", "fp64-8192"}
    assert {row.bar for row in table if row.dtype == "fp32" and row.m != row.n} == {1.0}
    zeros = [row for row in table if row.fill == "zeros"]
    assert {row.dtype for row in zeros} == set(study.DTYPES)
    assert all(row.has_burst and row.bar is None for row in zeros)
    assert {row.m for row in table if row.has_burst} == {8192}
    others = [row for row in table if row.vendor != "torch"]
    assert {row.name for row in others} == {f"int8-{s}-cupy" for s in (4096, 8192, 16384)}
    assert all(row.bar is None for row in others)


def test_products_of_microseconds_take_turns_in_shorter_blocks_where_time_is_short():
    small, large = study.Row("fp16", 1, 4096, 1024), study.Row("fp16", 4096, 4096, 4096)
    assert study._effort(study.QUICK, small) is study.QUICK_SMALL
    assert study._effort(study.QUICK, large) is study.QUICK
    assert study._effort(SHORT, small) is SHORT


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("int8-8192*", ["int8-8192", "int8-8192-cupy", "int8-8192-zeros"]),
        ("int8-64-cupy,int8-64-zeros-cupy", ["int8-64-cupy", "int8-64-zeros-cupy"]),
        ("fp64-*,fp64-4096", ["fp64-4096", "fp64-8192", "fp64-8192-zeros"]),
        ("fp16-64x32x16,bf16-128-zeros", ["fp16-64x32x16", "bf16-128-zeros"]),
        ("fp16-384x*,fp32-6x64x32x16", ["fp16-384x128x128x64", "fp32-6x64x32x16"]),
    ],
)
def test_rows_by_pattern_and_by_form(words, names):
    assert [row.name for row in study.chosen("cuda", words)] == names


@pytest.mark.parametrize(
    "word", ["fp17-64", "fp16", "fp16-", "fp16-0", "fp16-1x2", "fp16-8-ones", ""]
)
def test_words_that_are_no_row_are_refused(word):
    with pytest.raises(UsageError, match="no row is called"):
        study.chosen("cuda", word)


@pytest.mark.parametrize(
    ("bar", "low", "said"),
    [(1.03, 1.03, "met"), (1.03, 1.0299, "missed"), (None, 0.5, "")],
)
def test_a_bar_is_met_by_the_low_end_of_the_interval(bar, low, said):
    assert report.verdict(bar, low) == said


@pytest.mark.parametrize(
    ("dtype", "vendor", "sides"),
    [
        ("fp16", "torch", ["cuda fastest", "torch matmul"]),
        ("fp8_e4m3", "torch", ["cuda fastest", "torch matmul"]),
        ("int8", "torch", ["cuda fastest", "torch matmul"]),
        ("int8", "cupy", ["cuda fastest", "cupy matmul", "cupy cublas"]),
    ],
)
def test_sides_on_a_gpu(dtype, vendor, sides, monkeypatch):
    """As if every library were there and saw a Hopper card."""
    for name in ("cuda", "torch", "cupy"):
        monkeypatch.setattr(backends.backend(name), "why_not", lambda place: None, raising=False)
    hopper = SimpleNamespace(place=backends.base.Place("cuda", 0, (9, 0), 132))
    cases = list(study._cases(study.Row(dtype, 64, 64, 64, vendor=vendor), "cuda", hopper))
    assert [paired.name_of(case) for case in cases] == sides
    assert {case.params["path"] for case in cases} == {"auto"}


def test_joules_are_compared_where_watts_were_read():
    row = study.Row("fp16", 8192, 8192, 8192, bar=1.03)
    both = [
        result(telemetry=Telemetry(power_w=690.0)),
        result(seconds=1.05e-3, vendor=True, telemetry=Telemetry(power_w=700.0)),
    ]
    assert "TFLOP/J at least the vendor's: 1 of 1." in report.markdown(both, [row], "A card", {})
    assert "TFLOP/J at" not in report.markdown([result(), result(vendor=True)], [row], "x", {})


def test_sides_of_different_visits_make_no_pair():
    row = study.Row("fp16", 8192, 8192, 8192, bar=1.03)
    assert report.pair([result(), result(vendor=True, visit="v2")], row) is None
    both = [result(), result(vendor=True), result(seconds=2e-3, visit="v2")]
    assert report.pair(both, row) == (both[0], both[1])
    both.append(result(vendor=True, visit="v2"))
    assert report.pair(both, row) == (both[2], both[3])


def test_the_table_tells_ratio_bar_and_what_is_missing(tmp_path, capsys):
    rows = [study.Row("fp16", 8192, 8192, 8192, bar=1.03), study.Row("bf16", 64, 64, 64)]
    held = [
        result(seconds=1e-3, sample_sm_clock_hz=(1.4e9,) * 20, burst_s=(0.9e-3,)),
        result(seconds=1.05e-3, vendor=True),
    ]
    report.write(tmp_path, held, rows, "A card", {"bf16-64": "it is wrong"})
    text = (tmp_path / "gemm_vs_vendor.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == text
    line = next(line for line in text.splitlines() if line.startswith("| fp16-8192"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert len(cells) == len(report.HEAD)
    assert cells[1:5] == ["1.050", "1.050 to 1.050", "1.03", "met"]
    assert "137.4 TFLOP/s" in cells[5]
    assert cells[9] == "1400"
    assert "Not measured yet: bf16-64 (it is wrong)." in text
    assert "Bars met: 1 of 1." in text
    if importlib.util.find_spec("matplotlib"):
        assert "</svg>" in (tmp_path / "gemm_vs_vendor.svg").read_text(encoding="utf-8")


@needs_both
def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(paired, "Effort", lambda: SHORT)
    words = ["--device", "cpu", "--rows", "fp32-32,tf32-32", "--out", str(tmp_path)]
    assert study.main(words) == 1
    text = (tmp_path / "cpu" / "gemm_vs_vendor.md").read_text(encoding="utf-8")
    assert "| fp32-32 |" in text
    assert "tf32-32 (CPUs have no tf32.)" in text
    assert study.main(["--device", "cpu", "--rows", "nonsense"]) == 2


def test_watts_of_short_turns_are_not_told():
    row = study.Row("fp16", 1024, 1024, 1024, bar=1.10)
    both = [
        result("fp16-1024", telemetry=Telemetry(power_w=841.0)),
        result("fp16-1024", vendor=True, telemetry=Telemetry(power_w=594.0)),
    ]
    assert "841" in report.markdown(both, [row], "A card", {})
    short = [replace(r, details={**r.details, "block_s": 0.05}) for r in both]
    text = report.markdown(short, [row], "A card", {})
    assert "841" not in text
    assert "TFLOP/J at least" not in text
