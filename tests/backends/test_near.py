"""Cores next to a GPU, from a made-up folder of devices."""

import os

import pytest

from pymicro.backends.cuda.near import cores, near, node_of, nodes, on_node
from pymicro.errors import Unavailable

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the system keeps no thread on a core"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("\n", set()),
        ("3\n", {3}),
        ("0-2,8", {0, 1, 2, 8}),
        ("0-1,4-5\n", {0, 1, 4, 5}),
    ],
)
def test_lists_of_cores(text, expected):
    assert cores(text) == expected


def device(root, cpulist, node="1\n"):
    folder = root / "0000:c1:00.0"
    folder.mkdir()
    (folder / "local_cpulist").write_text(cpulist)
    (folder / "numa_node").write_text(node)
    return root


@needs_affinity
@pytest.mark.parametrize("bus_id", ["0000:C1:00.0", "00000000:c1:00.0"])
def test_the_thread_stays_on_the_cores_of_the_gpu_and_then_goes_free(tmp_path, bus_id):
    before = os.sched_getaffinity(0)
    one = min(before)
    with near(bus_id, device(tmp_path, f"{one},4000-4001")) as node:
        assert os.sched_getaffinity(0) == {one}
        assert node == 1
    assert os.sched_getaffinity(0) == before


@needs_affinity
def test_an_error_sets_the_thread_free_too(tmp_path):
    before = os.sched_getaffinity(0)
    root = device(tmp_path, str(min(before)))

    def fail():
        with near("0000:c1:00.0", root):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.sched_getaffinity(0) == before


@needs_affinity
def test_cores_that_are_not_ours_or_not_told_change_nothing(tmp_path):
    before = os.sched_getaffinity(0)
    with near("0000:c1:00.0", device(tmp_path, "4000-4001")) as node:
        assert (os.sched_getaffinity(0), node) == (before, None)
    with near("0000:ff:00.0", tmp_path) as node:
        assert (os.sched_getaffinity(0), node) == (before, None)


@needs_affinity
def test_a_machine_with_one_node_has_no_number(tmp_path):
    mine = ",".join(map(str, os.sched_getaffinity(0)))
    with near("0000:c1:00.0", device(tmp_path, mine, "-1\n")) as node:
        assert node is None


def a_node(root, node, cpulist):
    folder = root / f"node{node}"
    folder.mkdir()
    (folder / "cpulist").write_text(cpulist)
    return root


@needs_affinity
def test_memory_on_a_node_that_is_asked_for(tmp_path):
    before = os.sched_getaffinity(0)
    one = min(before)
    with on_node(3, a_node(tmp_path, 3, f"{one},4000\n")) as node:
        assert node == 3
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == before


@needs_affinity
def test_a_node_that_is_not_there_or_not_ours(tmp_path):
    root = a_node(tmp_path, 1, "4000-4001\n")
    with pytest.raises(Unavailable, match="no node 7"), on_node(7, root):
        pass
    with pytest.raises(Unavailable, match="no core of node 1"), on_node(1, root):
        pass


def test_the_node_of_a_device(tmp_path):
    assert node_of("0000:c1:00.0", device(tmp_path, "0", "1\n")) == 1
    assert node_of("0000:ff:00.0", tmp_path) is None


def test_all_nodes_of_a_machine(tmp_path):
    assert nodes(tmp_path) == ()
    (tmp_path / "online").write_text("0-1,3\n")
    assert nodes(tmp_path) == (0, 1, 3)
