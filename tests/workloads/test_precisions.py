"""One row says what a precision means; what runs, records, predicts and sizes jobs follows it."""

import re
from pathlib import Path

import pytest

from pymicro.analysis.cases import case
from pymicro.analysis.memory_need import need
from pymicro.errors import UsageError
from pymicro.workloads import traces
from pymicro.workloads.jobs import job
from pymicro.workloads.models import model
from pymicro.workloads.precisions import PRECISIONS, precision, runs_on_matrix_units

ROOT = Path(__file__).parents[2]


def test_rows_say_where_weights_lie_and_where_products_run():
    said = {name: (p.weights, p.products, p.autocast_torch) for name, p in PRECISIONS.items()}
    assert said == {
        "fp32": ("fp32", "fp32", None),
        "tf32": ("fp32", "tf32", None),
        "fp16": ("fp16", "fp16", None),
        "bf16": ("bf16", "bf16", None),
        "amp_fp16": ("fp32", "fp16", "float16"),
        "amp_bf16": ("fp32", "bf16", "bfloat16"),
    }
    assert [n for n, p in PRECISIONS.items() if p.allows_tf32] == ["tf32"]
    assert [p.recorded_as for p in PRECISIONS.values()] == [
        "fp32", "fp32", "fp16", "bf16", "amp_fp16", "amp_bf16"
    ]  # fmt: skip
    assert not runs_on_matrix_units("fp32")
    assert runs_on_matrix_units("tf32")


def test_memory_follows_the_row():
    """Weights, gradients and two moments as the weights lie; autocast keeps a narrow copy more."""
    for name, row in PRECISIONS.items():
        if row.why_no_training:
            continue
        wanted = need(case("distilbert", precision=name))
        one = case("distilbert", precision=name).trace.parameters
        assert wanted.weights == one * (row.weights_bytes + row.cast_bytes), name
        assert wanted.gradients == one * row.weights_bytes
        assert wanted.optimiser == 2 * one * row.weights_bytes


@pytest.mark.parametrize(("name", "key"), [("t5-large", "generate"), ("distilbert", "train")])
def test_each_precision_has_a_trace_or_a_reason(name, key):
    row = model(name)
    for word, how in PRECISIONS.items():
        why = how.why_no_training if row.task == "train" else how.why_no_generating
        if why:
            with pytest.raises(UsageError, match=re.escape(why.format(model=name))):
                job(row, precision=word)
        else:
            found = traces.find(name, word, "sdpa", "cuda")
            assert found.precision == how.recorded_as
            assert found.task == key


def test_an_unknown_precision_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"fp8.*fp32, tf32, fp16, bf16, amp_fp16, amp_bf16"):
        precision("fp8")


def test_nobody_else_takes_a_precisions_name_apart():
    """A second table, or a name's beginning asked for, would have to be kept in step."""
    asked = re.compile(r"""startswith\(["']amp|removeprefix\(["']amp|precision\s*==\s*["']""")
    for path in (*(ROOT / "pymicro").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")):
        assert not asked.search(path.read_text(encoding="utf-8")), path
