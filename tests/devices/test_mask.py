"""CUDA_VISIBLE_DEVICES as the CUDA runtime reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.devices.mask import parse_mask

UUIDS = [
    "GPU-ab000000-0000-0000-0000-000000000000",
    "GPU-ac000000-0000-0000-0000-000000000001",
    "GPU-cd000000-0000-0000-0000-000000000002",
]


@pytest.mark.parametrize(
    ("mask", "chosen", "stopped_at"),
    [
        (None, (0, 1, 2), None),
        ("0,1", (0, 1), None),
        ("1,0", (1, 0), None),
        (" 2 , 0 ", (2, 0), None),
        ("GPU-ab", (0,), None),
        (UUIDS[2], (2,), None),
        ("GPU-cd,GPU-ab", (2, 0), None),
        ("GPU-a", (), "GPU-a"),  # two GPUs start so
        ("GPU-ff", (), "GPU-ff"),
        ("0,-1,1", (0,), "-1"),
        ("0,7,1", (0,), "7"),
        ("0,,1", (0,), ""),
        ("x", (), "x"),
        ("1,x,0", (1,), "x"),
        ("0,0", (), "0"),
        ("0,GPU-ab", (), "GPU-ab"),  # the same GPU twice
        ("1gpu,2ampere", (1, 2), None),  # read like strtol does
        ("gpu-ab", (), "gpu-ab"),  # UUIDs are told apart by case
        ("99999999999999999999", (), "99999999999999999999"),
    ],
)
def test_table(mask, chosen, stopped_at):
    parsed = parse_mask(mask, UUIDS)
    assert (parsed.chosen, parsed.stopped_at) == (chosen, stopped_at)
    assert not parsed.hides_on_purpose


@pytest.mark.parametrize("mask", ["", "  ", "-1", "-1,0"])
def test_hidden_on_purpose(mask):
    parsed = parse_mask(mask, UUIDS)
    assert parsed.chosen == ()
    assert parsed.hides_on_purpose


def test_mig_slices_are_kept_as_written():
    slices = "MIG-11111111-2222-3333-4444-555555555555,MIG-GPU-ab/1/0"
    assert parse_mask(slices, UUIDS).mig == tuple(slices.split(","))
    assert not parse_mask(slices, UUIDS).hides_on_purpose


@given(st.text(alphabet="0123-,xGPUabc ", max_size=25), st.integers(0, 4))
def test_what_is_visible_exists_and_comes_once(mask, count):
    chosen = parse_mask(mask, [f"GPU-{i}" for i in range(count)]).chosen
    assert len(set(chosen)) == len(chosen)
    assert all(0 <= position < count for position in chosen)
