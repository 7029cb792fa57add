"""compare, roofline and devices from the command line: sentences for slips, text for the rest."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fakes import RTX_4090, gemm_result

from pymicro.cli import main
from pymicro.results import Store


@pytest.fixture
def pymicro(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr("sys.argv", ["pymicro", *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return left.value.code, out, err

    return call


@pytest.fixture
def files(tmp_path):
    """Result files by name."""

    def write(**named):
        for name, results in named.items():
            for result in results:
                Store(tmp_path / f"{name}.jsonl").append(result)

    return write


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare", "two or more"),
        ("compare H100", "two or more"),
        ("compare H100 H100", "named twice"),
        ("compare H100 h100-sxm", "named twice"),
        ("compare H100 4091", "unknown GPU '4091'"),
        ("compare H100 4090 --metric bandwith", "did you mean bandwidth"),
        ("compare H100 4090 --metric gemm,", "unknown metric"),
        ("compare H100 4090 --dtype fp17", "did you mean"),
        ("compare H100 4090 --metric price", "--prices"),
        ("compare H100 4090 --prices 1", "1 prices for 2"),
        ("compare H100 4090 --prices 1,x", "one positive number a card"),
        ("compare H100 4090 --prices 1,nan", "one positive number a card"),
        ("compare H100 4090 --plot x.pdf", ".html, .png or .svg"),
        ("compare H100 4090 --plot nowhere/x.png", "no folder"),
        ("compare H100 4090 --store empty.jsonl", "holds no results"),
        ("compare empty.jsonl H100", "no result that could be compared"),
        ("compare none.jsonl H100", "cannot be read"),
        ("compare skipped.jsonl H100", "1 were skipped or failed"),
        ("compare mixed.jsonl H100", "holds results of NVIDIA GeForce RTX 4090, NVIDIA H200"),
        ("compare foreign.json H100", "not pymicro's results"),
        ("roofline H101", "unknown GPU"),
        ("roofline H100 --dtype x", "unknown dtype"),
        ("roofline H100 --store empty.jsonl", "holds no results"),
        ("devices --all --sort colour", "unknown column"),
        ("devices --all --for training --dtype x", "unknown dtype"),
        ("devices --spec none.toml", "cannot read"),
    ],
)
def test_a_slip_is_one_sentence_and_exit_2(pymicro, files, tmp_path, words, said):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "foreign.json").write_text('{"machine_info": {}, "benchmarks": []}')
    skipped = gemm_result(outcome="skipped", reason="no such format", times_s=())
    files(skipped=[skipped], mixed=[gemm_result(), gemm_result(1e-3, RTX_4090)])
    code, out, err = pymicro(*words.split())
    assert code == 2, (out, err)
    assert said in " ".join(err.split())
    assert out == ""
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


def test_bandwidth_of_two_cards(pymicro):
    code, out, err = pymicro("compare", "H100", "4090", "--metric", "bandwidth")
    assert (code, err) == (0, "")
    for word in ("3.33", "2.02", "3.87", "H100 PCIe", "H100 NVL", "3.352 TB/s", "1.008 TB/s"):
        assert word in out
    assert "'H100' was taken as H100 SXM5" in out
    assert "no stored measurement" in out


def test_who_leads_depends_on_the_format(pymicro):
    def ratio(dtype):
        _, out, _ = pymicro(
            "compare", "H100-PCIe", "4090", "--metric", "gemm", "--dtype", dtype, "--format", "json"
        )
        lines = json.loads(out)["comparison"]["lines"]
        (sheet,) = (x for x in lines if x["kind"] == "data sheet")
        return sheet["ratios_of_first_over"]["RTX 4090"]["value"]

    assert ratio("fp32") == pytest.approx(51.2 / 82.6, rel=1e-3)
    assert ratio("tf32") > 4


def test_all_metrics_in_all_formats(pymicro):
    for form in ("table", "json", "csv", "markdown"):
        code, out, _ = pymicro("compare", "T4", "L4", "A10", "--format", form, "--sources")
        assert code == 0
        assert "320" in out


def test_two_runs_by_file_run_and_label(pymicro, files):
    after = gemm_result(2e-3, run_id="bbbb33334444", environment={"node": "there"})
    files(before=[gemm_result(1e-3)], after=[after], both=[gemm_result(1e-3), after])
    by_file = pymicro("compare", "before.jsonl", "after.jsonl")[1]
    assert "2.00" in by_file
    assert "data sheet" not in by_file, "one card has one data sheet"
    for words in (("here", "there"), ("aaaa1111", "bbbb33334444")):
        code, out, _ = pymicro("compare", *words, "--store", "both.jsonl", "--metric", "gemm")
        assert code == 0
        assert "2.00" in out


def test_runs_of_different_kinds_are_refused_with_the_reason(pymicro, files):
    files(hot=[gemm_result()], cold=[gemm_result(2e-3, cache="cold")])
    code, out, err = pymicro("compare", "hot.jsonl", "cold.jsonl")
    assert code == 2
    assert "different cache: hot, and cold" in err
    assert "--force" in err
    code, out, _ = pymicro("compare", "hot.jsonl", "cold.jsonl", "--force")
    assert code == 0
    assert "unlike" in out


def test_unmatched_cases_are_listed_and_damage_is_told(pymicro, files, tmp_path):
    files(a=[gemm_result(), gemm_result(dtype="bf16")], b=[gemm_result(2e-3)])
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"schema": 1, "bench')
    code, out, err = pymicro("compare", "a.jsonl", "b.jsonl")
    assert code == 0
    assert "only a.jsonl: gemm bf16" in out
    assert "warning" in err
    assert "middle of a record" in err
    (tmp_path / "b.jsonl").write_text((tmp_path / "b.jsonl").read_text() + "\n{}\n")
    for words in (("compare", "a.jsonl", "b.jsonl"), ("roofline", "b.jsonl")):
        code, out, err = pymicro(*words)
        assert code == 1, "records that cannot be read are no success"
        assert "lines 2, 3 of b.jsonl" in err
        assert "fp16" in out


def test_a_card_of_the_users_own(pymicro, tmp_path):
    (tmp_path / "mine.toml").write_text("[gpu.l4]\ntdp_w = 40\n")
    words = ("compare", "L4", "T4", "--metric", "power", "--format", "json")
    limits = []
    for more in ((), ("--spec", "mine.toml")):
        lines = json.loads(pymicro(*words, *more)[1])["comparison"]["lines"]
        limits.append(lines[0]["figures"]["L4"]["value"])
    assert limits == [72, 40]


def test_devices_with_a_file_of_the_users(pymicro, tmp_path):
    (tmp_path / "mine.toml").write_text("[gpu.l4]\ntdp_w = 40\n")
    assert "40 W" in pymicro("devices", "L4", "--spec", "mine.toml")[1]
    (tmp_path / "bad.toml").write_text("[gpu.l4]\nboost_clock_mhz = 2.04\n")
    code, _, err = pymicro("devices", "--all", "--spec", "bad.toml")
    assert code == 2
    assert all(word in err for word in ("bad.toml", "l4", "boost_clock_mhz", "unit slip"))


def test_roofline_of_a_card_and_of_results(pymicro, files):
    code, out, _ = pymicro("roofline", "H100-PCIe", "--dtype", "fp32,tf32")
    assert code == 0
    assert "51.22 TFLOP/s" in out
    assert "25.1" in out
    files(run=[gemm_result(2e-4), replace(gemm_result(3e-4), backend="cupy")])
    code, out, _ = pymicro("roofline", "run.jsonl", "--format", "json")
    assert code == 0
    assert len(json.loads(out)["roofline"]["points"]) == 2
    assert pymicro("roofline", "--dtype", "all")[0] in (0, 2)  # Whatever stands here.


def test_pictures_from_the_command_line(pymicro, tmp_path):
    pytest.importorskip("matplotlib")
    code, _, err = pymicro("compare", "H100", "4090", "--metric", "power", "--plot", "c.svg")
    assert code == 0
    assert "drawn to c.svg" in err
    assert pymicro("roofline", "H100", "--plot", "r.png")[0] == 0
    assert (tmp_path / "c.svg").stat().st_size > 1000
    assert (tmp_path / "r.png").stat().st_size > 1000


def test_devices_for_a_use(pymicro):
    code, out, _ = pymicro("devices", "--all", "--for", "training", "--sort", "memory")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines() if "S2-" in line]
    assert names[0] == "H100"  # The H100 NVL has the most memory of the nine.
    assert "Rules" not in out
    assert "Rules for inference" in pymicro("devices", "L4", "--for", "inference", "--explain")[1]
    assert "fp16-columns" in pymicro("devices", "--explain")[1]
