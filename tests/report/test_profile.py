"""The split of a trace as text in every format."""

import csv
import io
import json

import pytest
from synthetic_trace import GEMM, NCCL, Job, write

from pymicro.analysis import profile
from pymicro.report import profile as report
from pymicro.report.terminal import Terminal


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    for number in range(2):
        job = Job()
        for _ in range(3):
            with job.step():
                for _ in range(50):
                    job.op()
                job.op("aten::mm", 6, 100, GEMM, **{"Input Dims": [[8, 4], [4, 2]]})
                job.op("c10d::allreduce_", 6, 50 + 600 * number, NCCL)
                job.wait(900 * (1 - number))
        write(folder / f"rank{number}.json", job.document())
    return profile.explain(folder)


def test_the_parts_are_shown_and_add_up(told):
    out = io.StringIO()
    report.show(told, Terminal(out, width=200))
    text = out.getvalue()
    assert "NVIDIA H200, 3 steps of" in text
    assert "1. host-bound: the GPU waits" in text
    assert "100.0 %" in text
    assert "8×4, 4×2" in text
    rows = list(report.part_rows(told.ranks[0].split))
    shares = [float(r[2].removesuffix(" %")) for r in rows]
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.05 * len(rows))


def test_json_is_one_document_without_holes(told):
    document = json.loads(report.render(told, "json"))
    assert document["schema"] == 1
    first = document["profile"]["ranks"][0]
    assert sum(p["s"] for p in first["parts"]) == pytest.approx(first["wall_s"])
    assert document["profile"]["causes"][0]["code"] == "host-bound"
    assert [r["name"] for r in document["profile"]["ranks"]] == ["rank 0", "rank 1"]


def test_csv_has_a_row_for_each_part_of_each_rank(told):
    rows = list(csv.DictReader(io.StringIO(report.render(told, "csv"))))
    assert {r["rank"] for r in rows} == {"rank 0", "rank 1"}
    for rank in ("rank 0", "rank 1"):
        assert sum(float(r["share"]) for r in rows if r["rank"] == rank) == pytest.approx(1)


def test_markdown_has_tables_with_as_many_cells_as_titles(told):
    text = report.render(told, "markdown")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) > 10
    for title in (report._TITLES, report._KERNEL_TITLES, report._RANK_TITLES):
        assert "| " + " | ".join(title) + " |" in tables


def test_every_code_of_a_part_has_words(told):
    from pymicro.analysis.profile import gaps, kernels

    codes = {*gaps._CODES.values(), "outside", "device", "held", "unexplained"}
    assert codes == set(report._WORDS)
    assert not codes & set(kernels.CLASSES)


def test_what_is_shorter_than_a_stamp_is_nothing():
    assert report._time(-3e-16) == "0 s"
    assert report._time(2e-6) == "2.00 µs"
