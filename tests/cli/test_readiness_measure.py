"""`readiness --measure` without a GPU: plans become results, children's records become results."""

import json
from types import SimpleNamespace

import pytest

from pymicro import plans
from pymicro.benchmark import Case
from pymicro.cli import readiness_measure
from pymicro.cli.readiness_measure import Asked, _Run, parse_formats, parse_parts, parse_rivals
from pymicro.errors import UsageError
from pymicro.probes import measured
from pymicro.probes.child import Report
from pymicro.run import Context
from pymicro.workbench import Workbench

SMALL = {"m": 32, "n": 32, "k": 32, "layout": "nt", "threads": 1}


@pytest.fixture
def a_run(monkeypatch):
    """A run whose device is the CPU."""
    kept = []

    def context(interrupted, on_case):
        return Context(bench, {"kind": "cpu"}, {}, "run1", lambda windows: None, interrupted)

    bench = Workbench("cpu")
    session = SimpleNamespace(bench=bench, keep=kept.append, context=context, kept=kept)
    device = SimpleNamespace(index=0, gpu=None)

    def make(*parts, budget_s=None):
        asked = Asked("auto", parts, ("fp32",), 3, ("cuda",), None, True, budget_s, True)
        return _Run(asked, session, device), kept

    return make


def test_cases_run_and_say_for_which_study(a_run):
    run, _ = a_run()
    case = Case("gemm", "torch", "matmul", "fp32", SMALL)
    (result,) = run._cases(plans.Step("gemm", "library", (case,)))
    assert result.outcome == "ok", result.reason
    assert result.details["study"] == "library"
    assert result.run_id == "run1"


def test_kernels_join_the_vendors_results_only(a_run, monkeypatch):
    run, kept = a_run("library")
    seen = [{"name": "sm80_xmma_gemm", "calls": 1.0, "seconds": 1e-5}]
    key = ("fp32", 32, 32, 32, "nt")
    monkeypatch.setattr(measured, "launched", lambda *_: ({key: seen}, None))
    cases = tuple(Case("gemm", b, v, "fp32", SMALL) for b, v in
                  (("torch", "matmul"), ("native", "blocked")))  # fmt: skip
    monkeypatch.setattr(plans, "library", lambda *_: [plans.Step("gemm", "library", cases)])
    torch, ours = run.all()
    assert torch.details["launched"] == seen
    assert "launched" not in ours.details
    assert kept == [torch, ours]


def test_a_used_up_budget_begins_nothing(a_run, monkeypatch):
    run, kept = a_run("generations", budget_s=1)
    monkeypatch.setattr(readiness_measure.time, "monotonic", lambda: run._began_s + 2)
    assert list(run.all()) == []
    assert kept == []


def test_asking_for_names_leaves_half_of_the_budget_for_rates(a_run, monkeypatch):
    run, _ = a_run("library", budget_s=20)
    given = []
    monkeypatch.setattr(measured, "launched", lambda _, __, s: (given.append(s) or {}, "slow"))
    monkeypatch.setattr(plans, "library", lambda *_: [])
    assert list(run.all()) == []
    assert 0 < given[0] <= 10


def test_records_of_a_child_become_results(a_run, monkeypatch):
    run, _ = a_run("flags")
    check = {"reference": "float64", "error": 1e-4, "tolerance": 1e-3}
    common = {"dtype": "fp32", "params": {"m": 8, "n": 8, "k": 8, "flag": "f"}}
    facts = {
        "version": "2.11",
        "record_0": common | {"variant": "off", "times_s": [1e-3, 2e-3], "verified": check,
                              "details": {"is_default": True}},
        "record_1": common | {"variant": "on", "reason": "refused", "timer": "profiler"},
        "record_2": common | {"variant": "bad", "outcome": "failed", "reason": "wrong: error 2",
                              "verified": check | {"error": 2.0}},
    }  # fmt: skip
    ended = Report("crash", "flag x", "SIGSEGV", facts)
    monkeypatch.setattr("pymicro.probes.child.ask", lambda *_, **__: ended)
    off, on, bad = run.all()
    assert (off.outcome, on.outcome, bad.outcome) == ("ok", "skipped", "failed")
    assert off.times_s == (1e-3, 2e-3)
    assert off.flop == 2 * 8**3
    assert off.details["is_default"] is True
    assert off.details["study"] == "flags"
    assert on.reason == "refused"
    assert (off.timer, on.timer) == ("cuda events, graphs", "profiler")
    assert bad.samples_s == ()


def test_why_a_child_told_less(a_run):
    assert measured.why_ended(Report("ok")) is None
    assert "not installed" in measured.why_ended(Report("ok", facts={"installed": False}))
    crash = measured.why_ended(Report("crash", "launch fp16 1 2 3 nt", "SIGSEGV"))
    assert "SIGSEGV" in crash
    assert "launch fp16 1 2 3 nt" in crash


def test_a_product_that_torch_refuses_is_missing_and_no_zero(monkeypatch):
    facts = {
        "product_0": {"kernels": [{"name": "k", "calls": 1.0, "seconds": 1e-6}]},
        "product_1": {"reason": "RuntimeError: no kernel records"},
    }
    monkeypatch.setattr("pymicro.probes.child.ask", lambda *_, **__: Report("ok", facts=facts))
    wanted = [("fp16", 1, 2, 3, "nt"), ("int8", 1, 2, 3, "nt"), ("fp8_e4m3", 1, 2, 3, "nt")]
    found, why = measured.launched(wanted, {}, 1.0)
    assert list(found) == wanted[:1]
    assert why is None


def test_words():
    assert parse_parts("all") == plans.PARTS
    assert parse_parts("flags, library") == ("flags", "library")
    assert parse_formats(None, ("library",)) == plans.FORMATS
    assert set(parse_formats(None, plans.PARTS)) == {*plans.FORMATS, "fp64"}
    assert parse_formats(None, ("flags",)) == ()
    assert parse_formats("half,tf32", ("library",)) == ("fp16", "tf32")
    assert parse_rivals("cupy,cuda") == ("cupy", "cuda")
    assert parse_rivals(None) == parse_rivals("all") == ("cuda", "triton", "cupy")
    for wrong in (
        lambda: parse_parts("libary"),
        lambda: parse_formats("fp64", ("library",)),
        lambda: parse_formats("fp8", ("generations",)),
        lambda: parse_rivals("numba"),
        lambda: parse_rivals("torch"),
    ):
        with pytest.raises(UsageError):
            wrong()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--products", "5"], "--products means nothing without --measure."),
        (["--dtype", "fp16"], "--dtype means nothing without --measure."),
        (["--backend", "cuda"], "--backend means nothing without --measure."),
        (["--budget", "5"], "--budget means nothing without --measure."),
        (["--measure", "compile,flags", "--products", "5"], "library, not compile, flags"),
        (["--measure", "attention", "--dtype", "fp16"], "library and generations, not attention"),
        (["--measure", "generations", "--backend", "cuda"], "library, not generations"),
        (["--measure", "library", "--backend", "numba"], "cuda, triton, cupy"),
        (["--measure", "generations", "--dtype", "fp8"], "fp16, bf16, tf32, int8, fp32, fp64"),
        (["--store", "x.jsonl", "--no-store"], "--no-store contradict"),
        (
            ["--device", "5090", "--stack", "torch=2.7", "--store", "x.jsonl"],
            "would not be read: --stack is judged by tables alone",
        ),
    ],
    ids=" ".join,
)
def test_an_option_that_would_have_no_effect_is_refused(words, said):
    from click.testing import CliRunner

    from pymicro.cli import readiness

    done = CliRunner().invoke(readiness.command, words)
    assert isinstance(done.exception, UsageError), done.output
    assert said in str(done.exception)
    assert done.exception.exit_code == 2


def test_a_store_that_is_not_to_be_read_decides_no_requirement(monkeypatch, tmp_path):
    from click.testing import CliRunner
    from fakes import H200, gemm_result

    from pymicro.analysis.gate import Node
    from pymicro.analysis.readiness import Readiness
    from pymicro.cli import readiness
    from pymicro.results import Store

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    Store().append(gemm_result(device=H200 | {"peak_ops_per_s": {"fp16": 1e15}}))
    told = Readiness(H200["name"], H200["key"], (9, 0), ())
    monkeypatch.setattr(readiness, "_installed", lambda device: Node(told))
    asked = ["--require", "gemm_fp16>=0.01"]
    codes = [
        CliRunner().invoke(readiness.command, [*asked, *more], standalone_mode=False).return_value
        for more in ([], ["--no-store"])
    ]
    assert codes == [0, 1]


def test_plans_ask_for_what_the_issue_names():
    products = plans.profiled(plans.FORMATS, 20)
    assert len(products) == len(set(products)) == 6 * 20
    offered = {("cuda", "fp16"): ("fastest",), ("cupy", "fp16"): ("raw", "cublas")}
    (step,) = plans.library(("fp16",), offered, 20)
    who = [(c.backend, c.variant) for c in step.cases[:3]]
    assert who == [("torch", "matmul"), ("cuda", "fastest"), ("cupy", "raw")]
    assert len(step.cases) == 60
    gemm, moved, loaded = plans.generations(plans.GENERATION_FORMATS, 132)
    assert {c.params["path"] for c in gemm.cases} == set(plans.PATHS)
    assert {c.dtype for c in gemm.cases} == {"fp16", "bf16", "tf32", "int8", "fp32", "fp64"}
    assert {c.variant for c in loaded.cases} == {"cubin", "ptx"}
    assert [(c.params["op"], c.variant) for c in moved.cases] == [
        ("copy", "sm75"), ("copy", "sm90"), ("read", "sm75"), ("read", "sm90"),
    ]  # fmt: skip
    json.dumps(plans.attention_shapes())


def test_a_measured_case_that_failed_is_exit_1_and_said(monkeypatch, tmp_path):
    from click.testing import CliRunner
    from fakes import H200, gemm_result

    from pymicro.analysis.gate import Node
    from pymicro.analysis.readiness import Readiness, Row
    from pymicro.cli import readiness

    row = Row("torch", "2.11", "native", "binary", "has code")
    node = Node(Readiness(H200["name"], H200["key"], (9, 0), (row,)))
    monkeypatch.setattr(readiness, "_installed", lambda device: node)
    good = gemm_result(details={"study": "library", "is_vendor": True, "launched": []})
    bad = gemm_result(outcome="failed", reason="wrong result: error 2.", times_s=())
    said = []
    for fresh in ([good], [good, bad]):
        monkeypatch.setattr(readiness_measure, "measure", lambda asked, fresh=fresh: fresh)
        words = ["--measure", "library", "--no-store"]
        said.append(CliRunner().invoke(readiness.command, words, standalone_mode=False))
    assert [done.return_value for done in said] == [0, 1]
    assert "wrong result: error 2." in said[1].output
    assert "wrong result" not in said[0].output
    assert "4096×4096×4096" in said[0].output


def test_measuring_is_for_a_gpu_of_this_machine():
    from click.testing import CliRunner

    from pymicro.cli import readiness

    for words in (["--device", "RTX 5090"], ["--stack", "torch=2.7,cuda=12.8", "--device", "5090"]):
        done = CliRunner().invoke(readiness.command, ["--measure", "flags", *words])
        assert isinstance(done.exception, UsageError)
