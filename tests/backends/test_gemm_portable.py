"""Choice and launch arithmetic of the portable GEMM kernels; no GPU, no compiler."""

import pytest

from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.backends.cuda.gemm_portable import ROWS, bind, blocks, choose, refusal
from pymicro.errors import UsageError

ARCHS = ("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def capability(arch):
    return int(arch[3:-1]), int(arch[-1])


def test_names_tell_rows_apart():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "int8"])
@pytest.mark.parametrize("arch", ARCHS)
def test_every_chip_multiplies_every_shape(arch, dtype, layout):
    for m, n, k in ((1, 1, 1), (17, 31, 13), (129, 127, 257), (8192, 8192, 8192), (5, 7, 0)):
        row = choose(m, n, k, dtype, layout, capability(arch))
        assert refusal(row, m, n, k, layout) is None
        assert row.runs_on(capability(arch))


def test_choice_takes_matrix_units_where_the_chip_has_them():
    assert choose(4096, 4096, 4096, "fp16", "nt", (7, 5)).path == "sm75"
    assert choose(4096, 4096, 4096, "bf16", "nn", (8, 6)).path == "sm80"
    assert choose(4096, 4096, 4096, "bf16", "nt", (7, 5)).path == "simt"
    assert choose(4096, 4096, 4096, "fp8_e4m3", "nt", (8, 9)).path == "sm89"
    assert choose(4096, 4096, 4096, "fp16", "nt", (9, 0), path="sm75").path == "sm75"


def test_blackwells_paths_are_for_blackwell_and_before_older_ones_once_trusted(monkeypatch):
    both = {path: [r for r in ROWS if r.path == path] for path in ("sm100", "sm120")}
    assert {len(rows) for rows in both.values()} == {8, 10}
    for trusted in (False, True):
        monkeypatch.setattr(GemmKernel, "is_trusted", property(lambda row, t=trusted: t))
        for dtype in ("fp16", "bf16", "tf32", "int8"):
            for arch, path in (("sm_90", None), ("sm_100", "sm100"), ("sm_120", "sm120")):
                row = choose(4096, 4096, 4096, dtype, "nt", capability(arch))
                assert row.path == path or (path is None and row.path not in both)
            assert choose(64, 64, 100, dtype, "nn", capability("sm_120")).path not in both
    assert choose(4096, 4096, 4096, "fp16", "nt", (9, 0), path="sm120").path == "sm120"
    with pytest.raises(UsageError, match="path sm100"):
        choose(4096, 4096, 4096, "fp16", "nt", (12, 0), path="sm100")
    assert choose(4096, 4096, 4096, "fp8_e4m3", "nt", (10, 0)).path == "sm89"


def test_untrusted_blackwell_rows_give_way_to_those_that_ran(monkeypatch):
    monkeypatch.setattr(
        GemmKernel, "is_trusted", property(lambda row: row.path not in ("sm100", "sm120"))
    )
    for arch in ((10, 0), (12, 0)):
        assert choose(4096, 4096, 4096, "fp16", "nt", arch).path == "sm80"


def test_choice_follows_alignment_and_size():
    assert choose(4096, 4096, 4095, "fp16", "nt", (8, 0)).alignment == 2
    assert choose(4096, 4096, 4094, "fp16", "nt", (8, 0)).alignment == 4
    assert choose(4096, 4095, 4096, "fp16", "nt", (8, 0)).alignment == 16  # n bounds only C
    assert choose(4096, 4095, 4096, "fp16", "nn", (8, 0)).alignment == 2
    assert choose(256, 256, 4096, "fp16", "nt", (8, 0)).tile[:2] == (64, 64)
    assert choose(8192, 8192, 4096, "fp16", "nt", (8, 0)).tile[:2] == (128, 256)


def test_rows_past_32_bit_offsets_go_to_the_kernel_that_counts_in_64():
    assert choose(8, 8, 2**25, "fp16", "nt", (8, 0)).path == "simt"
    assert choose(2**20, 2**20, 64, "fp16", "nt", (8, 0)).path == "sm80"  # m n = 2^40 is fine


def test_unserved_problems_are_refused_in_a_sentence():
    with pytest.raises(UsageError, match="tf32"):
        choose(64, 64, 64, "tf32", "nt", (7, 5))
    with pytest.raises(UsageError, match="path sm80"):
        choose(64, 64, 64, "fp16", "nt", (7, 5), path="sm80")


class Recorder:
    """Stands for a loaded kernel and keeps what it was bound with."""

    def bind(self, grid, block, arguments, stream, shared_bytes=0, cluster=(1, 1, 1), overlap=0):
        self.bound = (grid, block, [a.value for a in arguments], stream, shared_bytes)
        return lambda: None


def test_bind_launches_one_block_per_tile():
    row = next(r for r in ROWS if r.name == "sm80_fp16_128x256x32")
    recorder = Recorder()
    bind(row, recorder, 2**40, 2**41, 2**42, 129, 257, 64, "nt", 7)
    grid, block, arguments, stream, shared = recorder.bound
    assert grid == (4, 1, 1) == (blocks(row, 129, 257), 1, 1)
    assert block == (row.threads, 1, 1)
    assert arguments == [2**40, 2**41, 2**42, 129, 257, 64]
    assert (stream, shared) == (7, row.shared_bytes)


def test_bind_refuses_what_the_kernel_would_read_wrongly():
    row = next(r for r in ROWS if r.name == "sm80_fp16_128x256x32")
    for arguments in (
        (0, 0, 0, 128, 128, 60, "nt"),  # rows of 120 bytes
        (8, 0, 0, 128, 128, 64, "nt"),  # A starts between two 16-byte words
        (0, 0, 0, 128, 128, 64, "nn"),
        (0, 0, 0, 128, 128, 2**31 - 8, "nt"),
    ):
        with pytest.raises(UsageError):
            bind(row, Recorder(), *arguments, 0)


def test_bind_launches_nothing_for_an_empty_product():
    recorder = Recorder()
    bind(choose(0, 8, 8, "fp32", "nt", (8, 0)), recorder, 0, 0, 0, 0, 8, 8, "nt", 0)()
    assert not hasattr(recorder, "bound")
