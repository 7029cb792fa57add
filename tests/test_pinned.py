"""Limits of pinned memory from made-up control groups, and allocators that refuse."""

import pytest

from pymicro.errors import Unavailable
from pymicro.pinned import Limits, limits, step_down

MIB = 2**20


def group(root, **files):
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"memory_DOT_max": "max\n", "memory_DOT_current": "5\n"}, None),
        ({"memory_DOT_max": f"{512 * MIB}\n", "memory_DOT_current": "0\n"}, 256 * MIB),
        ({"memory_DOT_max": f"{512 * MIB}\n", "memory_DOT_current": f"{500 * MIB}\n"}, 6 * MIB),
        ({"memory_DOT_max": "100\n", "memory_DOT_current": "200\n"}, 0),
        ({"memory__memory_DOT_limit_in_bytes": "9223372036854771712\n"}, None),
        ({"memory__memory_DOT_limit_in_bytes": f"{64 * MIB}\n"}, 32 * MIB),
        ({"memory_DOT_max": "rubbish"}, None),
    ],
)
def test_what_control_groups_leave(tmp_path, files, expected):
    assert limits(group(tmp_path, **files)).group == expected


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("0::/a.slice/b.scope\n", "a.slice"),
        ("0::/a.slice/b.scope\n", "a.slice/b.scope"),
        ("7:cpu,cpuacct:/x\n4:memory:/docker/77\n", "memory/docker/77"),
        ("0::/\n", "."),
    ],
)
def test_groups_above_count_too(tmp_path, line, folder):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(line)
    home = tmp_path / "sys/fs/cgroup" / folder
    home.mkdir(parents=True)
    version_1 = folder.startswith("memory")
    (home / ("memory.limit_in_bytes" if version_1 else "memory.max")).write_text(f"{512 * MIB}\n")
    assert limits(tmp_path).group == 256 * MIB


@pytest.mark.parametrize("line", ["", "rubbish\n", "0::\n", "3:cpu:/x\n"])
def test_lines_that_say_nothing_limit_nothing(tmp_path, line):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(line)
    assert limits(tmp_path).group is None


class Allocator:
    """Refuses what is above `most`; notes what it was asked for."""

    def __init__(self, most):
        self.most, self.asked = most, []

    def __call__(self, nbytes):
        self.asked.append(nbytes)
        if nbytes > self.most:
            raise Unavailable("error 304.")
        return f"{nbytes} bytes"


def test_what_fits_is_pinned_without_a_word():
    memory, size, said = step_down(Allocator(10**12), 512 * MIB, Limits(None, 65536))
    assert (memory, size, said) == (f"{512 * MIB} bytes", 512 * MIB, None)


def test_a_container_limit_is_kept_before_anything_is_allocated():
    allocator = Allocator(10**12)
    _, size, said = step_down(allocator, 4096 * MIB, Limits(600 * MIB, None))
    assert allocator.asked == [size] == [512 * MIB]
    assert (
        said == "4 GiB cannot be pinned, 512 MiB can: the container's memory limit leaves no more."
    )


def test_refusals_step_down_and_name_the_limit_of_locked_memory():
    allocator = Allocator(512 * MIB)  # As on WSL.
    _, size, said = step_down(allocator, 4096 * MIB, Limits(None, 65536))
    assert allocator.asked == [4096 * MIB, 2048 * MIB, 1024 * MIB, 512 * MIB]
    assert size == 512 * MIB
    assert said.endswith("the system refuses more (ulimit -l: 64 KiB).")


@pytest.mark.parametrize("group_bytes", [None, 0, 100])
def test_where_nothing_can_be_pinned_it_is_said(group_bytes):
    with pytest.raises(Unavailable, match=r"nothing can be pinned here: error 304"):
        step_down(Allocator(0), 64 * MIB, Limits(group_bytes, None))


def test_other_errors_are_not_taken_for_refusals():
    def broken(nbytes):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step_down(broken, MIB, Limits(None, None))
