"""The study of copies beside nvbandwidth: what both print, and a made-up binary from end to end."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import transfer_vs_nvbandwidth as study

from pymicro.errors import Unavailable


def their_document(rates, status="Passed"):
    tests = [
        {"name": name, "status": status, "bandwidth_matrix": [[str(r) for r in row]], "sum": 0}
        for name, row in rates.items()
    ]
    return json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": tests}})


def our_document(rates, outcome="ok"):
    rows = {row.test: row for row in study.ROWS}
    return json.dumps(
        {
            "results": [
                {
                    "variant": rows[test].variant,
                    "params": {"path": rows[test].path, "host": "pinned"},
                    "outcome": outcome,
                    "summary": {"bytes_per_s": rate * 1e9} if outcome == "ok" else {},
                }
                for test, rate in rates.items()
            ]
        }
    )


H2D, SM = study.ROWS[0].test, study.ROWS[4].test


def test_rates_are_those_of_the_chosen_gpu():
    document = their_document({H2D: ["55.41", "N/A", "54.0"]})
    assert study.theirs(document, 0) == {H2D: 55.41}
    assert study.theirs(document, 1) == {}
    assert study.theirs(document, 2) == {H2D: 54.0}
    assert study.theirs(f"a warning first\n{document}", 0) == {H2D: 55.41}
    assert study.theirs(their_document({H2D: ["1"]}, "Waived"), 0) == {}


@pytest.mark.parametrize("text", ["", "not JSON", "{}", "[]", '{"nvbandwidth": {"error": "x"}}'])
def test_what_is_no_document_is_said(text):
    with pytest.raises(Unavailable):
        study.theirs(text, 0)


def test_our_rows_are_found_by_path_and_variant():
    assert study.ours(our_document({H2D: 55.3, SM: 51.0})) == {H2D: 55.3, SM: 51.0}
    assert study.ours(our_document({H2D: 55.3}, "skipped")) == {}
    with pytest.raises(Unavailable):
        study.ours("Traceback")


def test_ratios_come_from_rounds():
    (row,) = study.compared(
        [{H2D: 50.0}, {H2D: 55.0}, {H2D: 54.0}], [{H2D: r} for r in (50, 50, 60)]
    )
    assert row.ratio == pytest.approx(1.0)
    assert row.spread == pytest.approx(5 / 54)
    assert row.their_spread == pytest.approx(10 / 50)
    assert row.ratios == pytest.approx([1.0, 1.1, 0.9])
    assert not row.is_quoted


def test_without_the_binary_figures_are_quoted():
    (row,) = study.compared([{SM: 51.37}], [])
    assert (row.ratio, row.is_quoted, row.theirs) == (1.0, True, (51.37,))


def test_a_row_that_failed_once_is_left_out():
    assert study.compared([{H2D: 50.0}, {}], [{H2D: 50.0}, {H2D: 50.0}]) == []
    assert study.compared([{H2D: 50.0}] * 3, [{H2D: 50.0}, {H2D: 50.0}, {}]) == []


@pytest.fixture
def gpu(monkeypatch):
    device = SimpleNamespace(kind="cuda", index=0, spec=SimpleNamespace(key="some_card"))
    monkeypatch.setattr(study, "resolve", lambda word: device)
    rates = {row.test: row.quoted * (0.99 if row.variant == "sm" else 1.0) for row in study.ROWS}
    monkeypatch.setattr(study, "run_ours", lambda word, size: rates)


def test_from_end_to_end_with_a_made_up_binary(gpu, tmp_path, capsys):
    binary = tmp_path / "nvbandwidth"
    document = their_document({row.test: [str(row.quoted)] for row in study.ROWS})
    said = f"import sys; assert sys.argv[1:4] == ['-j', '-b', '64']; print({document!r})"
    binary.write_text(f"#!{sys.executable}\n{said}\n")
    binary.chmod(0o755)
    words = ["--binary", str(binary), "--rounds", "2", "--size", "64", "--out", str(tmp_path)]
    assert study.main(words) == 0
    out = capsys.readouterr().out
    assert out.count("below") == 2
    assert "theirs" in out
    lines = (tmp_path / "some_card" / "transfer_vs_nvbandwidth.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    assert [row["test"] for row in kept] == [row.test for row in study.ROWS]
    assert all(len(row["theirs"]) == 2 and not row["is_quoted"] for row in kept)
    assert (
        study.main(["--read", str(tmp_path / "some_card" / "transfer_vs_nvbandwidth.jsonl")]) == 0
    )
    assert capsys.readouterr().out == out


def test_without_a_binary_the_quoted_figures_are_named_so(gpu, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study.shutil, "which", lambda name: None)
    assert study.main(["--rounds", "1", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "quoted" in printed.out
    assert "no nvbandwidth on the PATH" in printed.err


def test_no_round_begins_that_would_end_too_late(gpu, tmp_path, capsys, monkeypatch):
    clock = iter(range(0, 1000, 5))
    monkeypatch.setattr(study.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(study.shutil, "which", lambda name: None)
    assert study.main(["--rounds", "9", "--seconds", "21", "--out", str(tmp_path)]) == 0
    assert "2 rounds fit 21 s" in capsys.readouterr().err


def test_without_a_gpu_it_ends_in_a_sentence(capsys):
    assert study.main(["--device", "cpu"]) == 3
    assert "need one" in capsys.readouterr().err


def test_a_binary_that_does_not_start_is_said(gpu, tmp_path, capsys):
    assert study.main(["--binary", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 3
    assert "nowhere did not run" in capsys.readouterr().err
