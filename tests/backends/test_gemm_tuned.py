"""What `--tune` remembers: found again for the same device and like shapes, never in the way."""

import json
import os

import pytest

from pymicro.backends.base import Place
from pymicro.backends.cuda import gemm, gemm_tuned, gemm_verified
from pymicro.benchmark import Case
from pymicro.errors import PymicroError, UsageError

H200, OTHER = "NVIDIA H200, sm_90, 132 SMs", "NVIDIA H200, sm_90, 60 SMs"
PLACE = Place("cuda", 0, (9, 0), 132)


def case(m=4096, n=4096, k=4096, dtype="fp16", layout="nt", variant="fastest", path="auto"):
    params = {"m": m, "n": n, "k": k, "layout": layout, "path": path}
    return Case("gemm", "cuda", variant, dtype, params)


def other_than_default(wanted):
    """A row that can serve a case and that `choose` does not take."""
    default = gemm.choose(wanted, PLACE)
    return next(row for row in gemm.candidates(wanted, PLACE) if row != default)


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """An empty memory where `prepare` looks for it, on an H200 whose kernels are never loaded."""
    path = tmp_path / "data" / "tuned-gemm.json"
    monkeypatch.setattr(gemm_tuned, "default_path", lambda: path)
    monkeypatch.setattr(gemm_tuned, "device_key", lambda index: H200)
    monkeypatch.setattr(gemm, "bound", lambda row, *_: lambda: None)
    return gemm_tuned.Memory()


def notes(wanted):
    return gemm.prepare(wanted, PLACE, {}).notes


def test_the_winner_serves_later_runs_and_the_result_says_so(memory):
    row = other_than_default(case())
    memory.keep(H200, case(), row, {row.name: 1e-3})
    assert notes(case())["kernel"] == row.name
    assert notes(case())["tuned"] is True
    assert notes(case(4000, 4200, 4104))["kernel"] == row.name


@pytest.mark.parametrize(
    "unlike",
    [
        case(m=1024), case(dtype="bf16"), case(layout="nn"), case(k=4095), case(n=4095),
        case(path="sm90"),
    ],
    ids=["size", "dtype", "layout", "odd k", "odd n", "path"],
)  # fmt: skip
def test_the_winner_serves_no_other_case(memory, unlike):
    memory.keep(H200, case(), other_than_default(case()), {})
    assert "tuned" not in notes(unlike)
    assert notes(unlike)["kernel"] == gemm.choose(unlike, PLACE).name


def test_another_devices_winner_is_not_taken(memory):
    memory.keep(OTHER, case(), other_than_default(case()), {})
    assert "tuned" not in notes(case())


def test_devices_and_classes_lie_side_by_side(memory):
    rows = gemm.candidates(case(), PLACE)
    for device, wanted, row in ((H200, case(), rows[0]), (OTHER, case(), rows[1])):
        memory.keep(device, wanted, row, {})
    memory.keep(H200, case(m=64), rows[2], {})
    memory.avoid(H200, rows[3], "hung")
    assert memory.winner(H200, case(), rows) == rows[0]
    assert memory.winner(OTHER, case(), rows) == rows[1]
    assert memory.winner(H200, case(m=64), rows) == rows[2]
    assert memory.avoided(H200, rows[3]) == "hung"
    assert memory.avoided(OTHER, rows[3]) is None


def test_a_kernel_that_changed_since_is_neither_winner_nor_avoided(memory, monkeypatch):
    row = other_than_default(case())
    memory.keep(H200, case(), row, {})
    memory.avoid(H200, row, "hung")
    monkeypatch.setattr(gemm_tuned.compiler, "joined_source", lambda name: "other")
    assert memory.winner(H200, case(), gemm.candidates(case(), PLACE)) is None
    assert memory.avoided(H200, row) is None


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}", b'{"schema": 1}', b'{"schema": "1"}',
        b'{"schema": 1, "devices": []}',
    ],
)  # fmt: skip
def test_a_damaged_file_costs_nothing_but_its_contents(memory, content):
    memory.path.parent.mkdir()
    memory.path.write_bytes(content)
    said = notes(case())
    assert said["kernel"] == gemm.choose(case(), PLACE).name
    assert said["tuned"] is False
    assert "tuned-gemm.json" in said["tuning"]
    row = other_than_default(case())
    memory.keep(H200, case(), row, {})
    assert notes(case())["kernel"] == row.name


@pytest.mark.parametrize("held", [3, [], {"winners": 3}, {"winners": {"x": 3}, "avoid": []}])
def test_a_damaged_device_is_as_if_it_were_not_there(memory, held):
    held = {H200: held, OTHER: {"winners": {}}}
    memory.path.parent.mkdir()
    memory.path.write_text(json.dumps({"schema": 1, "devices": held}))
    row = other_than_default(case())
    assert "tuned" not in notes(case())
    assert memory.avoided(H200, row) is None
    memory.keep(H200, case(), row, {})
    assert notes(case())["kernel"] == row.name


@pytest.mark.parametrize("entry", [3, {}, {"kernel": "gone", "digest": "x"}, {"kernel": None}])
def test_a_damaged_entry_is_as_if_it_were_not_there(memory, entry):
    memory.path.parent.mkdir()
    held = {H200: {"winners": {gemm_tuned.shape_class(case()): entry}}}
    memory.path.write_text(json.dumps({"schema": 1, "devices": held}))
    assert "tuned" not in notes(case())


def test_a_newer_file_is_left_alone(memory):
    memory.path.parent.mkdir()
    text = json.dumps({"schema": gemm_tuned.SCHEMA + 1, "devices": {}})
    memory.path.write_text(text)
    assert notes(case())["tuned"] is False
    with pytest.raises(UsageError, match="newer"):
        memory.keep(H200, case(), other_than_default(case()), {})
    assert memory.path.read_text() == text


def test_a_write_that_fails_leaves_what_was_there(memory, monkeypatch):
    row = other_than_default(case())
    memory.keep(H200, case(), row, {})
    before = memory.path.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(PymicroError, match="cannot be written"):
        memory.keep(H200, case(m=64), row, {})
    assert memory.path.read_text() == before
    left = {path.name for path in memory.path.parent.iterdir()} - {f"{memory.path.name}.lock"}
    assert left == {memory.path.name}


@pytest.mark.parametrize("variant", ["fastest", "promoted"])
def test_fp8_candidates_add_up_as_their_variant_says(variant):
    rows = gemm.candidates(case(dtype="fp8_e4m3", variant=variant), PLACE)
    assert rows
    assert {row.variant == "promoted" for row in rows} == {variant == "promoted"}


def test_candidates_are_all_rows_that_serve_the_case_trusted_or_not(monkeypatch):
    monkeypatch.setattr(gemm_verified, "ran_on", lambda name: ())
    rows = gemm.candidates(case(), PLACE)
    assert {True, False} == {row.is_trusted for row in rows}
    assert {"sm120", "sm100", "sm90", "sm80", "sm75", "simt"} == {row.path for row in rows}
    odd = gemm.candidates(case(k=4095), PLACE)
    assert odd
    assert all(row.alignment <= 2 for row in odd)
    assert gemm.choose(case(k=4095), PLACE) in odd
