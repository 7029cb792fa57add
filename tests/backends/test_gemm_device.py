"""Every CUDA kernel that the GPU here can run, against the reference; skipped where there is none.

Run on a card to fill `gemm_verified` for it; one thread of BLAS a process, else they fight:
OPENBLAS_NUM_THREADS=1 pytest -n 8 -v tests/backends/test_gemm_device.py
"""

from functools import cache

import numpy as np
import pytest

from pymicro import driver
from pymicro.backends.base import Place
from pymicro.backends.cuda import gemm, gemm_portable, gemm_sm90
from pymicro.dtypes import DTYPES
from pymicro.errors import Unavailable
from pymicro.operands import draw
from pymicro.verify import BatchReference, GemmReference

# Around the edges of tiles, tiny, odd, prime, and deep ones whose tiles are cut along k.
SHAPES = (
    (1, 1, 1), (1, 8, 16), (3, 5, 7), (17, 33, 65), (1, 1024, 512), (63, 64, 64), (64, 128, 128),
    (65, 136, 80), (97, 101, 103), (127, 256, 192), (128, 264, 64), (129, 192, 320), (191, 512, 48),
    (193, 520, 144), (256, 256, 256), (257, 131, 515), (257, 248, 272), (333, 217, 129),
    (384, 768, 96), (385, 776, 336), (511, 384, 1024), (640, 2056, 208), (1000, 1048, 560),
    (32, 512, 4096), (130, 1032, 8192), (300, 200, 6160), (2, 3, 4099), (769, 1, 33), (1, 769, 31),
    (500, 500, 500), (144, 272, 96), (515, 320, 784), (31, 2048, 64), (2048, 31, 64), (448, 448, 8),
    (72, 1160, 1056), (1030, 130, 72), (224, 4096, 32), (4104, 24, 48), (136, 136, 2064),
)  # fmt: skip
# The same of several products at once; the last two are those of attention over 128 tokens.
BATCHES = (
    (2, 1, 1, 1), (3, 128, 128, 64), (5, 64, 64, 64), (4, 256, 136, 72), (7, 100, 60, 36),
    (2, 129, 131, 515), (9, 63, 8, 16), (33, 128, 264, 96), (2, 512, 520, 2064), (300, 64, 72, 8),
    (384, 128, 128, 64), (384, 128, 64, 128),
)  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Place:
    try:
        gpu = driver.open_gpu(0)
    except Unavailable as reason:
        pytest.skip(str(reason))
    return Place("cuda", 0, gpu.capability, gpu.attribute("MULTIPROCESSOR_COUNT"))


@cache
def problem(name, layout, shape):
    """Operands, fresh in each run, and their product; drawn once for all rows of a format."""
    *several, m, n, k = shape
    dtype, seed = DTYPES[name], int(np.random.default_rng().integers(2**31))
    a = draw((*several, m, k), dtype, "normal", seed)
    b = draw((*several, *((n, k) if layout == "nt" else (k, n))), dtype, "normal", seed + 1)
    return a, b, (BatchReference if several else GemmReference)(dtype, layout, a, b)


def check(row, kernel, shape, layout, place) -> bool:
    """Whether the row served the shape; raises WrongResult if it did so wrongly."""
    *several, m, n, k = shape
    sizes, batch = (m, n, k), int(np.prod(several, dtype=int))
    if gemm.refusal(row, sizes, layout, batch) is not None:
        return False
    dtype = DTYPES[row.dtype]
    a, b, reference = problem(row.dtype, layout, shape)
    buffers = [driver.Buffer(x.shape, x.dtype.str) for x in (a, b)]
    c = driver.Buffer((*several, m, n), DTYPES[dtype.output].storage)
    try:
        pointers = tuple(x.ptr for x in (*buffers, c))
        call = gemm.bind(row, kernel, pointers, sizes, layout, place, batch)
        for buffer, values in zip(buffers, (a, b), strict=True):
            buffer.upload(np.ascontiguousarray(values))
        c.fill_bytes(0xFF)
        driver.check(driver.cuda().cuCtxSynchronize())
        call()
        call()  # What a kernel leaves behind for itself must be as it was before the first call.
        reference.check(c.download())
        return True
    finally:
        for buffer in (*buffers, c):
            buffer.free()


@pytest.mark.parametrize("row", gemm.rows(), ids=lambda row: row.name)
def test_every_row_is_right(row, place):
    if not row.runs_on(place.capability):
        pytest.skip(f"{row.name} does not run on compute capability {place.capability}")
    kernel = gemm.load(row, place)
    served = [
        check(row, kernel, shape, layout, place)
        for shape in (BATCHES if row.batched else SHAPES)
        for layout in row.layouts
    ]
    assert sum(served) >= 4, "too few shapes were served to say anything"


def test_more_than_two_to_the_31_elements(place):
    """Indices of C past 32 bits, for the default kernel."""
    if driver.check(driver.cuda().cuMemGetInfo())[0] < 8 * 2**30:
        pytest.skip("needs 8 GiB of device memory")
    shape = (65_600, 32_776, 64)
    row = gemm_portable.choose(*shape, "fp16", "nt", place.capability)
    if place.capability == (9, 0):
        row = gemm_sm90.choose(*shape, "fp16", place.sm_count)
    assert check(row, gemm.load(row, place), shape, "nt", place)
