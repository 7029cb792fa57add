"""Tiles cut along k: how many parts, and that together they are the whole."""

import pytest

from pymicro import driver
from pymicro.backends.cuda import gemm, gemm_cut, gemm_portable

ROWS = [row for row in gemm.rows() if row.cut_k]
SHAPES = ((4096, 768, 3072), (1024, 1024, 1024), (4096, 768, 768), (300, 500, 4100), (8, 8, 8),
          (8192, 8192, 8192), (129, 257, 31), (1, 1, 0))  # fmt: skip


@pytest.fixture
def device(monkeypatch):
    """Memory that nobody writes to."""

    class Fake:
        def __init__(self, shape, storage):
            self.shape, self.ptr = shape, 2**40

        def free(self):
            self.ptr = 0

    monkeypatch.setattr(driver, "Buffer", Fake)
    names = ("cuMemsetD8", "cuCtxSynchronize")
    fake = type("cuda", (), {name: staticmethod(lambda *a: (0,)) for name in names})
    monkeypatch.setattr(driver, "cuda", lambda: fake)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_parts_cover_k_in_whole_stages_and_have_room(row, shape, device):
    m, n, k = shape
    parts, space, (left, finished, told, part_k) = gemm_cut.space(row, m, n, k, 132)
    assert told.value == parts
    assert (parts - 1) * part_k.value < max(k, 1) <= max(parts * part_k.value, 1)
    assert part_k.value % row.tile[2] == 0
    tiles = gemm_portable.blocks(row, m, n)
    assert left.value - finished.value >= 4 * tiles
    assert left.value % 16 == 0
    sums_bytes = tiles * parts * row.tile[0] * row.tile[1] * 4
    assert finished.value + space.shape[0] == left.value + sums_bytes


def test_a_product_of_few_tiles_is_cut_and_one_of_many_is_not():
    (row,) = (row for row in ROWS if "nt" in row.layouts)
    assert gemm_cut.best_parts(row, 1024, 1024, 1024, 132) == 4
    assert gemm_cut.fills(row, 1024, 1024, 1024, 132)
    assert gemm_cut.best_parts(row, 8192, 8192, 8192, 132) == 1
    assert not gemm_cut.fills(row, 128, 256, 1024, 132)  # Eight blocks are too few all the same.
