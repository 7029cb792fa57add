"""What the table says of copies and launches that other results have no need of."""

import pytest
from fakes import gemm_result

from pymicro.report.columns import rows, shape, used, with_spread


def copy(size, times_s=(2.5e-6,) * 20, **params):
    return gemm_result(
        benchmark="transfer", backend="cuda", variant="engine", dtype="int32", flop=0, bytes=size,
        params={"size": size, "path": "h2d", "host": "pinned"} | params, times_s=times_s,
    )  # fmt: skip


def launch(looks, side="host"):
    return gemm_result(
        benchmark="launch", backend="cuda", variant="cpp", dtype="int32", flop=0, bytes=0,
        steps=100, params={"call": "args0", "side": side, "calls": 100}, times_s=(3e-4,) * 20,
        details={"look_medians_s": looks},
    )  # fmt: skip


def spread(result):
    (row,) = rows([result])
    return with_spread(row)


def test_small_copies_are_a_time_with_its_spread():
    assert spread(copy(4096)) == "2.500 µs ±0.0 %"
    uneven = [2.4e-6, 2.6e-6] * 10
    assert spread(copy(16, uneven)) == "2.500 µs ±4.0 %"
    assert spread(copy(8192)) == ""


@pytest.mark.parametrize(
    ("looks", "side", "expected"),
    [
        ([3.0e-4, 3.03e-4], "host", "±0.5 %"),
        ([3.0e-4, 4.0e-4], "host", "±14.3 % noisy host"),
        ([3.0e-4, 4.0e-4], "device", "±14.3 %"),
    ],
)
def test_launches_say_when_the_host_was_noisy(looks, side, expected):
    assert spread(launch(looks, side)) == expected


def test_the_column_is_there_only_where_it_says_something():
    titles = [column.title for column in used(rows([copy(2**20)]))]
    assert "spread" not in titles
    assert "spread" in [column.title for column in used(rows([copy(2**20), copy(64)]))]


def test_a_case_names_its_pair_or_its_node():
    assert shape(copy(2**20, node=1)) == "1 MiB h2d pinned node 1"
    peers = copy(2**20, path="p2p", pair="0-1")
    peers.params.pop("host")
    assert shape(peers) == "1 MiB p2p 0-1"
