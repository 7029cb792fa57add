"""predict, explain, recommend and suite: whole commands, and every refusal in one sentence."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pymicro.cli import cli
from pymicro.errors import PymicroError


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words), catch_exceptions=False, standalone_mode=False)
    assert result.exception is None
    return result.output


def refused(*words: str) -> str:
    with pytest.raises(PymicroError) as error:
        cli.main(list(words), standalone_mode=False)
    said = str(error.value)
    assert "\n" not in said
    return said


EMPTY = ("--published",)


def test_predict_tells_time_bound_memory_and_sources():
    text = run("predict", "distilbert", "--device", "RTX 4090", *EMPTY)
    for word in ("one step", "bound by", "fits", "products, fp32", "published", "energy"):
        assert word in text


def test_predict_shows_the_primitives_of_the_job_alone_and_addresses_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = run("predict", "distilbert", "--device", "RTX 4090", *EMPTY)
    lines = text.splitlines()
    assert "products, fp32" in text
    for word in ("products, tf32", "products, fp16", "gap inside a graph", "all-reduce"):
        assert word not in text
    assert "host, an operator (backward)" in text
    assert "[1] https://github.com/NVIDIA/TransformerEngine/issues/2053" in lines
    assert "products, tf32" in run(
        "predict", "distilbert", "--device", "RTX 4090", "--precision", "tf32", *EMPTY
    )
    several = run("predict", "distilbert", "--device", "RTX 4090", "--gpus", "2", *EMPTY)
    assert "all-reduce, pcie" in several
    generating = run("predict", "t5", "--device", "RTX 4090", *EMPTY)
    assert "(backward)" not in generating


def test_predict_as_json():
    document = json.loads(run("predict", "t5", "--device", "H100", "--format", "json", *EMPTY))
    seconds = document["seconds"]
    assert seconds["low"] <= seconds["value"] <= seconds["high"]
    assert document["primitives"]["dram_bytes_per_s"]["source"]


def test_json_tells_what_the_table_tells_of_spilling_energy_and_several_cards():
    words = ["--device", "Quadro RTX 4000", "--length", "2048", "--batch", "32", "--gpus", "4"]
    words += ["--output", "256", "--records", "32"]
    made = json.loads(run("predict", "llama-1b", *words, "--format", "json", *EMPTY))
    assert not made["fits"]
    assert made["spilling_s"]["value"] > made["seconds"]["value"]
    assert made["energy_j"]["low"] < made["energy_j"]["high"]
    # One batch stays on one card, and spills there too.
    assert made["several"][0]["seconds"] == made["spilling_s"]


def test_several_cards_share_the_records():
    text = run("predict", "bert-large", "--device", "A100", "--gpus", "4", "--link", "pcie", *EMPTY)
    assert "all-reduce" in text


def test_a_timeline_is_written(tmp_path):
    file = tmp_path / "x.json"
    run("predict", "distilbert", "--device", "4090", "--timeline", str(file), *EMPTY)
    assert json.loads(file.read_text())["traceEvents"]


def test_explain_against_says_a_verdict_and_parts():
    text = run("explain", "distilbert", "--device", "H100 PCIe", "--against", "RTX 4090", *EMPTY)
    for word in ("physical floor", "number format", "sum", "is slower than", "turn the order"):
        assert word in text


def test_explain_a_measured_time_shows_what_is_unexplained():
    text = run("explain", "t5", "--device", "4090", "--measured", "38.2s", "--what-if",
               "tf32,host=2x,batch=8", *EMPTY)  # fmt: skip
    assert "unexplained" in text
    assert "inside the prediction" in text
    assert text.count(" x ") >= 2


def test_parts_in_json_add_up_to_the_measured_time():
    words = ("explain", "distilbert", "--device", "A100", "--measured", "120s", "--format", "json")
    document = json.loads(run(*words, *EMPTY))
    parts = sum(p["value"] for p in document["parts"].values())
    assert parts + document["unexplained_s"] == pytest.approx(120)


@pytest.mark.parametrize("name", ["5090", "h100"])
def test_a_study_tests_every_cause_and_says_what_would_settle_it(name):
    from pymicro.analysis.study import studies

    text = run("explain", "--case", name, *EMPTY)
    for cause in studies()[name]["cause"]:
        assert cause["name"] in text
    assert "trust:" in text
    assert "settle" in text


@pytest.mark.parametrize("ending", [".png", ".html"])
def test_a_waterfall_is_drawn(tmp_path, ending):
    pytest.importorskip("matplotlib" if ending == ".png" else "plotly")
    file = tmp_path / f"x{ending}"
    run("explain", "distilbert", "--device", "4090", "--plot", str(file), *EMPTY)
    assert file.stat().st_size > 10_000


def test_recommend_ranks_the_catalogue_with_costs():
    text = run("recommend", "distilbert", "--for", "training", "--price", "4090=0.4", *EMPTY)
    lines = [line for line in text.splitlines() if " kJ " in line]
    assert len(lines) > 15  # However narrow: a narrow screen may leave out whether a job fits.
    assert "cost" in text


def test_recommend_says_what_does_not_fit_and_what_spilling_costs():
    words = ("--batch", "32", "--length", "2048", "--output", "256", "--precision", "fp32")
    text = run("recommend", "llama-1b", *words, "--card", "Quadro RTX 4000", "--card", "H100",
               *EMPTY)  # fmt: skip
    assert "no:" in text
    assert "spills" in text


def test_suite_lists_the_products_of_the_job():
    text = run("suite", "--for", "distilbert", "--device", "cpu", "--list")
    assert "m=4096 n=768 k=3072" in text
    assert "bandwidth" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "t6", "--device", "4090"), "unknown model"),
        (("predict", "t6", "--device", "cpu"), "unknown model"),
        (("explain", "t6", "--device", "cpu"), "unknown model"),
        (("predict", "t5", "--device", "4091"), "unknown GPU"),
        (("predict", "t5", "--device", "4090", "--records", "-5"), "records -5"),
        (("predict", "distilbert", "--device", "4090", "--epochs", "9" * 400), "10^9 at most"),
        (("explain", "--case", "5090", "--measured", "3s"), "--measured means nothing"),
        (("explain", "--case", "5090", "--what-if", "tf32"), "--what-if means nothing"),
        (("explain", "--case", "5090", "--batch", "3"), "--batch means nothing"),
        (("explain", "--case", "5090", "--format", "csv"), "--format table or json"),
        (("explain", "--trace", "x.json", "--device", "4090"), "--device means nothing"),
        (("explain", "--trace", "x.json", "--published"), "--published means nothing"),
        (("predict", "t5", "--device", "4090", "--batch", "0"), "batch 0"),
        (("predict", "distilbert", "--device", "4090", "--length", "513"), "512 positions"),
        (("predict", "t5", "--device", "4090", "--precision", "fp7"), "unknown precision"),
        (("predict", "t5", "--device", "4090", "--host", "fast"), "hosts: default, h200_cloud"),
        (("predict", "t5", "--device", "4090", "--host", "1000x"), "factor from 0.01 to 100"),
        (("predict", "bert-base", "--device", "4090", "--gpus", "2", "--link", "nvlink"), "NVLink"),
        (("explain", "t5", "--device", "4090", "--measured", "-3s"), "no time"),
        (("explain", "t5", "--device", "4090", "--measured", "0s"), "no time"),
        (("explain", "t5", "--device", "4090", "--measured", "1ms"), "faster than physics"),
        (("explain", "t5", "--device", "4090", "--measured", "soon"), "is no time"),
        (("explain", "t5", "--device", "4090", "--against", "4090"), "the device itself"),
        (("explain", "t5", "--device", "4090", "--against", "nothing"), "unknown GPU"),
        (("explain", "t5", "--device", "4090", "--what-if", "magic"), "unknown change"),
        (("explain", "t5", "--device", "4090", "--what-if", "attn=banana"), "sdpa or eager"),
        (("explain", "--case", "6090"), "unknown case"),
        (("explain",), "needs one of"),
        (("explain", "t5", "--case", "5090"), "needs one of"),
        (("recommend", "t5", "--for", "training"), "inference"),
        (("recommend", "t5", "--price", "4090"), "CARD=NUMBER"),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(words, said):
    assert said in refused(*words)


def test_the_hosts_named_in_the_help_are_those_there_are():
    from pymicro.analysis.primitives_tables import hosts
    from pymicro.cli.job_words import HOSTS

    assert sorted(HOSTS) == sorted(hosts())
    assert all(name in run("predict", "--help") for name in HOSTS)


@pytest.mark.parametrize("word", ["cuda:0", "cuda", "GPU-1234abcd"])
@pytest.mark.parametrize("command", ["predict", "explain"])
def test_a_gpu_of_this_machine_is_said_not_to_be_there_as_by_gemm(command, word, monkeypatch):
    from pymicro.devices import here

    monkeypatch.setattr(here, "gpu_proof", lambda view, root: None)
    assert "there is no NVIDIA GPU here" in refused(command, "t5", "--device", word)


def test_a_cpu_without_measurements_is_told_which_and_how_to_make_them(tmp_path):
    """Products by another library than torch are stored and do not help."""
    from fakes import gemm_result

    from pymicro.devices.cpu import describe_cpu
    from pymicro.results import Store

    device = {"kind": "cpu", "name": describe_cpu().name}
    Store(tmp_path / "x.jsonl").append(gemm_result(device=device, backend="native", dtype="fp32"))
    words = ("distilbert", "--device", "cpu", "--store", str(tmp_path / "x.jsonl"))
    for command in ("predict", "explain"):
        said = refused(command, *words)
        assert "no product by torch in fp32" in said
        assert "no copy by torch" in said
        assert "`pymicro suite --for distilbert --device cpu`" in said
        assert "needs torch" in said
    Store(tmp_path / "x.jsonl").append(gemm_result(device=device, dtype="fp32"))
    assert "no product" not in refused("predict", *words)


@pytest.mark.parametrize("command", ["predict", "explain", "recommend"])
def test_a_wrong_attention_path_is_a_wrong_word(command):
    result = CliRunner().invoke(cli, [command, "t5", "--attn", "banana"])
    assert result.exit_code == 2
    assert "'sdpa', 'eager'" in result.output


def test_explaining_loads_no_torch():
    code = (
        "import sys\nfrom pymicro.cli import cli\n"
        "cli.main(['explain','t5','--device','RTX 5090','--against','RTX 4090','--published'],"
        "standalone_mode=False)\n"
        "print([m for m in ('torch','triton','cupy','numba') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().splitlines()[-1] == "[]"


def stored_run(path, **changes):
    from pymicro.results import Result, Store

    params = {"model": "distilbert", "batch": 16, "length": 128, "output": 0, "beams": 1,
              "records": 160, "epochs": 1}  # fmt: skip
    probe = {"loader": 1e-3, "input": 1e-4, "forward": 5e-3, "backward": 7e-3, "optimiser": 3e-3}
    details = {"job_s": 0.22, "host_probe_s": {"before": probe, "after": probe}}
    made = Result(
        "e2e", "torch", "sdpa", "fp32", params=params | changes, times_s=(0.022,) * 10,
        device={"key": "h200_sxm_141gb", "kind": "cuda"}, details=details, run_id="abcdef012345",
    )  # fmt: skip
    Store(path).append(made)


def test_a_stored_run_is_explained_on_the_host_it_had(tmp_path):
    file = tmp_path / "x.jsonl"
    stored_run(file)
    words = ("explain", "distilbert", "--result", "abcd", "--store", str(file), "--format", "json")
    document = json.loads(run(*words))
    assert document["device"].startswith("NVIDIA H200")
    assert document["job"]["batch"] == 16
    assert document["measured_s"] == 0.22
    assert "host probe" in document["parts"]["host"]["why"]
    parts = sum(p["value"] for p in document["parts"].values())
    assert parts + document["unexplained_s"] == pytest.approx(0.22)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("t5", "--result", "abcd"), "is of distilbert"),
        (("distilbert", "--result", "ffff"), "no run of a job"),
        (("distilbert", "--result", "abcd", "--batch", "8"), "leave it out"),
        (("distilbert", "--result", "abcd", "--measured", "1s"), "two measurements"),
    ],
)
def test_a_run_of_another_job_is_refused(tmp_path, words, said):
    file = tmp_path / "x.jsonl"
    stored_run(file)
    assert said in refused("explain", *words, "--store", str(file))


@pytest.mark.parametrize(("batch", "fits"), [("64", False), ("1", True)])
def test_a_job_that_does_not_fit_is_said_not_to(batch, fits):
    words = ["llama-1b", "--device", "P6000", "--batch", batch, "--length", "2048", "--output", "8"]
    told = CliRunner().invoke(cli, ["explain", *words])
    assert ("DOES NOT FIT" not in told.output) == fits
    if not fits:
        assert told.output.startswith("DOES NOT FIT")
    told = CliRunner().invoke(cli, ["predict", *words])
    assert ("time if it fitted" not in told.output) == fits


def test_a_format_that_a_card_lacks_is_said_to_run_as_another():
    for words in (["predict", "t5"], ["explain", "t5"]):
        text = run(*words, "--device", "P6000", "--precision", "tf32", *EMPTY)
        assert "tf32 has no fast path here" in text
        text = run(*words, "--device", "4090", "--precision", "tf32", *EMPTY)
        assert "fast path" not in text


def test_a_batch_of_more_than_all_records_is_said_to_be_a_full_one():
    words = ["predict", "t5", "--device", "4090", *EMPTY]
    assert "holds all records" in run(*words, "--records", "1")
    assert "holds all records" in run(*words, "--batch", "128")
    assert "holds all records" not in run(*words, "--records", "64")
    assert "holds all records" not in run(*words)


def test_parts_say_what_they_are_and_where_their_figures_are_from():
    text = run("explain", "t5", "--device", "4090", *EMPTY)
    table, sources = text.split("Where the figures are from:")
    assert "published" not in table
    assert "published" in sources
