"""The C++ launch loop against a driver library made up here, and the functions for ctypes."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest

native = pytest.importorskip("pymicro._native")

# Notes what it was called with; from the fourth launch on it refuses if told to.
DRIVER = """
#include <stdint.h>
long launches; uintptr_t seen[2]; unsigned blocks; int value; int refuse_from = 1 << 30;
int cuLaunchKernel(uintptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, uintptr_t stream, void** arguments, void** extra) {
  launches++; seen[0] = f; seen[1] = stream; blocks = gx * gy * gz * bx * by * bz + shared;
  if (arguments) value = *(int*)arguments[1];
  return launches >= refuse_from ? 719 : 0;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "libfake.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "driver.c")], check=True
    )
    return str(library)


def test_each_launch_reaches_the_driver_with_its_arguments(driver):
    fake = ctypes.CDLL(driver)
    before = ctypes.c_long.in_dll(fake, "launches").value
    first, second = ctypes.c_uint64(1), ctypes.c_uint32(77)
    addresses = (ctypes.c_void_p * 2)(ctypes.addressof(first), ctypes.addressof(second))
    native.launch_loop(2**40 + 1, 2**41 + 2, 5, ctypes.addressof(addresses), driver)
    assert ctypes.c_long.in_dll(fake, "launches").value - before == 5
    assert list((ctypes.c_uint64 * 2).in_dll(fake, "seen")) == [2**40 + 1, 2**41 + 2]
    assert ctypes.c_uint.in_dll(fake, "blocks").value == 1
    assert ctypes.c_int.in_dll(fake, "value").value == 77


def test_a_refused_launch_ends_the_loop(driver):
    fake = ctypes.CDLL(driver)
    refuse = ctypes.c_int.in_dll(fake, "refuse_from")
    launches = ctypes.c_long.in_dll(fake, "launches")
    refuse.value = launches.value + 4
    try:
        before = launches.value
        with pytest.raises(RuntimeError, match="719"):
            native.launch_loop(1, 0, 100, 0, driver)
        assert launches.value == before + 4
    finally:
        refuse.value = 1 << 30


def test_no_driver_is_one_sentence():
    with pytest.raises(RuntimeError, match=r"libnowhere\.so\.9 cannot be loaded"):
        native.launch_loop(1, 0, 1, 0, "libnowhere.so.9")
    with pytest.raises(ValueError, match="negative"):
        native.launch_loop(1, 0, -1, 0)


@pytest.mark.parametrize("bad", [np.zeros(1), np.zeros(1, np.int64), [0]])
def test_calls_take_int32_arrays_only(bad):
    good = np.zeros(1, np.int32)
    with pytest.raises(TypeError):
        native.call3(bad, good, 1)
    with pytest.raises(TypeError):
        native.call3(good, bad, 1)


def test_empty_arrays_are_refused():
    with pytest.raises(IndexError):
        native.call3(np.zeros(0, np.int32), np.zeros(1, np.int32), 1)
    with pytest.raises(IndexError):
        native.call3(np.zeros(1, np.int32), np.zeros(0, np.int32), 1)


def test_sums_wrap():
    out, most = np.zeros(1, np.int32), np.full(1, 2**31 - 1, np.int32)
    native.call3(out, most, 1)
    assert out[0] == -(2**31)
