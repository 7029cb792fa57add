"""The data files: complete, with sources, and saying what the sources say."""

import pytest

from pymicro.devices.catalogue import catalogue
from pymicro.errors import PymicroError
from pymicro.software import faults, stacks
from pymicro.software.codes import best_code
from pymicro.software.versions import at_least, dotted, of_cuda, parse


@pytest.fixture(scope="module")
def tables():
    return stacks.load()


def test_every_row_has_a_source(tables):
    for row in (*tables.toolkits, *tables.torch, *tables.compilers, *faults.load()):
        assert row.sources
        for source in row.sources:
            assert source.startswith(("https://", "measured: ")), source


def test_ptx_grows_with_the_toolkit(tables):
    versions = [t.ptx for t in tables.toolkits]
    assert versions == sorted(versions)
    assert len({t.version for t in tables.toolkits}) == len(tables.toolkits)


@pytest.mark.parametrize(
    ("driver", "ptx", "reads"),
    [
        ((12, 2), (8, 4), False),  # A toolkit 12.4 over a driver for 12.2: error 222.
        ((12, 2), (8, 2), True),
        ((12, 4), (8, 4), True),
        ((13, 0), (9, 0), True),
        ((13, 0), (9, 1), False),
        ((12, 8), (8, 6), True),
        ((12, 6), (8, 5), True),
        ((13, 5), (99, 0), None),
    ],
)
def test_which_driver_reads_which_ptx(driver, ptx, reads):
    assert stacks.reads_ptx(driver, ptx) is reads


def test_toolkits_agree_with_the_catalogue(tables):
    """First and last toolkit of each card are other sources' words; both tables must agree."""
    for spec in catalogue().values():
        for toolkit in tables.toolkits:
            kind, _ = best_code(spec.capability, toolkit.archs)
            first, last = parse(spec.cuda_toolkit_first), parse(spec.cuda_toolkit_last)
            served = at_least(toolkit.version, first) and (
                last is None or at_least(last, toolkit.version)
            )
            assert (kind == "native") == served, (spec.name, dotted(toolkit.version))


def test_first_torch_of_blackwell_agrees_with_the_catalogue(tables):
    for spec in catalogue().values():
        if spec.capability < (10, 0):
            continue
        serving = [b.version for b in tables.torch if best_code(spec.capability, b.archs)[1]]
        assert min(serving) == parse(spec.pytorch_first), spec.name


def test_driver_for_a_cuda_version(tables):
    assert tables.driver_for((13, 2)) == (580,)
    assert tables.driver_for((12, 4)) == (525,)
    assert tables.driver_for((14, 0)) is None


def test_a_fault_holds_for_its_card_and_versions_only():
    software = {"torch": (2, 7), "cuda": (12, 8)}
    here = {f.id for f in faults.known_faults("rtx_5090", (12, 0), software)}
    assert {"fp32-linear-slow-cu128", "cublas-batched-fp32-small-tile"} <= here
    assert "torch-no-image-sm120" not in here
    later = {f.id for f in faults.known_faults("rtx_5090", (12, 0), {"torch": (2, 8, 1)})}
    assert "fp32-linear-slow-cu128" not in later
    other = {f.id for f in faults.known_faults("rtx_4090", (8, 9), software)}
    assert not other & here
    unknown = {f.id for f in faults.known_faults("rtx_5090", (12, 0), {})}
    assert "fp32-linear-slow-cu128" not in unknown


def test_faults_name_cards_of_the_catalogue():
    for fault in faults.load():
        assert set(fault.devices) <= set(catalogue()), fault.id
        assert fault.affects, fault.id


def test_a_damaged_list_says_which_row(tmp_path):
    file = tmp_path / "faults.toml"
    file.write_text('[[fault]]\nid = "x"\nseen = "s"\n', encoding="utf-8")
    with pytest.raises(PymicroError, match="'x'"):
        faults.load(file)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.11.0+cu130", (2, 11, 0)),
        ("13.0.88", (13, 0, 88)),
        ("v3.3", (3, 3)),
        ("580", (580,)),
        ("", None),
        (None, None),
        ("dev", None),
    ],
)
def test_versions(text, version):
    assert parse(text) == version


def test_versions_compare_by_number_and_length():
    assert at_least((2, 10), (2, 9))
    assert at_least((13,), (13, 0))
    assert not at_least((12, 9), (13,))
    assert of_cuda(12040) == (12, 4)
    assert of_cuda(None) is None
