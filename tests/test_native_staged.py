"""The staged copy against a driver library made up here, which copies as late as it may."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest

native = pytest.importorskip("pymicro._native")
if not hasattr(native, "staged_copy"):
    pytest.skip("a C++ module of an older version", allow_module_level=True)

# Copies queued on a stream happen when an event recorded after them is waited for, and no sooner:
# a buffer that is filled again too early spoils what was in it.
DRIVER = """
#include <stdint.h>
#include <string.h>
typedef uintptr_t H;
struct { void* to; const void* from; size_t bytes; } late[64][8];
int waiting[64], refuse, contexts; H stream_of[1024];
int cuCtxSetCurrent(H c) { __sync_fetch_and_add(&contexts, 1); return c == 77 ? 0 : 201; }
static int queue(void* to, const void* from, size_t bytes, H s) {
  if (refuse) return refuse;
  late[s][waiting[s]].to = to; late[s][waiting[s]].from = from; late[s][waiting[s]].bytes = bytes;
  waiting[s]++; return 0;
}
int cuMemcpyHtoDAsync_v2(H to, const void* from, size_t n, H s) {
  return queue((void*)to, from, n, s);
}
int cuMemcpyDtoHAsync_v2(void* to, H from, size_t n, H s) { return queue(to, (void*)from, n, s); }
int cuEventRecord(H e, H s) { stream_of[e] = s + 1; return 0; }
int cuEventSynchronize(H e) {
  if (!stream_of[e]) return 0;
  H s = stream_of[e] - 1;
  for (int i = 0; i < waiting[s]; i++) memcpy(late[s][i].to, late[s][i].from, late[s][i].bytes);
  waiting[s] = 0; return 0;
}
"""
CHUNK = 1000


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    path = folder / "libstaged.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(path), str(folder / "driver.c")], check=True
    )
    return str(path)


def copy(library, nbytes, threads, to_device, context=77):
    source = np.random.default_rng(nbytes).integers(0, 256, nbytes + 1, dtype=np.uint8)
    target = np.zeros(nbytes + 1, np.uint8)
    buffers = np.zeros((threads, 2, CHUNK), np.uint8)
    stages = [
        (buffers[i, 0].ctypes.data, 10 * i, buffers[i, 1].ctypes.data, 10 * i + 1, i)
        for i in range(threads)
    ]
    native.staged_copy(
        target.ctypes.data, source.ctypes.data, nbytes, to_device, context, stages, CHUNK, library
    )
    return source, target


@pytest.mark.parametrize("to_device", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("nbytes", [0, 1, CHUNK, CHUNK + 1, 7 * CHUNK + 3, 40 * CHUNK])
def test_everything_arrives_and_nothing_beyond(library, nbytes, threads, to_device):
    source, target = copy(library, nbytes, threads, to_device)
    assert np.array_equal(source[:-1], target[:-1])
    assert target[-1] == 0


@pytest.mark.parametrize("to_device", [True, False])
def test_a_refusal_ends_the_copy_with_its_number(library, to_device):
    refuse = ctypes.c_int.in_dll(ctypes.CDLL(library), "refuse")
    refuse.value = 719
    try:
        with pytest.raises(RuntimeError, match="719"):
            copy(library, 5 * CHUNK, 2, to_device)
    finally:
        refuse.value = 0


def test_every_thread_works_in_the_context(library):
    with pytest.raises(RuntimeError, match="201"):
        copy(library, CHUNK, 2, True, context=5)


@pytest.mark.parametrize(
    ("given", "words"),
    [((-1, [(0,) * 5], 1), "negative"), ((1, [], 1), "stage"), ((1, [(0,) * 5], 0), "positive")],
)
def test_what_cannot_be_is_refused(library, given, words):
    nbytes, stages, chunk = given
    with pytest.raises(ValueError, match=words):
        native.staged_copy(0, 0, nbytes, True, 77, stages, chunk, library)


def test_no_driver_is_one_sentence():
    with pytest.raises(RuntimeError, match=r"libnowhere\.so\.9 cannot be loaded"):
        native.staged_copy(0, 0, 1, True, 0, [(0,) * 5], 1, "libnowhere.so.9")
